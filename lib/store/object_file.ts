/**
 * The one container for stored objects: segments, compressed snapshots, and the checksums of a snapshot that is kept as
 * a plain image; docs/reference/format.md describes the bytes. A reader returns the pages that were written or throws
 * `corrupt`, whatever damage the bytes have; neither side holds more than a block and the index in memory.
 */

export { NO_PREV, type ObjectFileKind, type ObjectHeader } from "./_object_layout.ts";
export { assertGrowth, ObjectWriter, type ObjectWriterOptions, type PageBefore } from "./_object_writer.ts";
export {
  decodePages,
  type ObjectIndex,
  type PageRun,
  type RangeSource,
  type ReadBefore,
  readIndex,
  readThrough,
  verifyImage,
} from "./_object_reader.ts";
