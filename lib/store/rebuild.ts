/**
 * Puts a damaged object together again from whatever proves itself: the undamaged parts of the object, the same object
 * in a copy of the store, local files with pages of the same database. The digest that refs and later objects know
 * covers the checksum of every page, so what matches it is what was lost, wherever it came from.
 */

import { crc32 } from "node:zlib";
import type { Backend } from "../backend/backend.ts";
import { lockPage } from "../sqlite/header.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import { decodeHeader, HEADER_BYTES, objectDigest, type ObjectHeader } from "./_object_layout.ts";
import { decodeBlock } from "./_object_reader.ts";
import { PageTable } from "./_page_table.ts";
import { type ChainObject, Chains } from "./chain.ts";
import { translated } from "./errors.ts";
import { DATA_PREFIX, imageIndexKey, parseObjectKey } from "./keys.ts";
import { decodePages, NO_PREV, type ObjectIndex, ObjectWriter, type PageRun, readIndex } from "./object_file.ts";
import { readObjectIndex, readObjectThrough } from "./object_index.ts";

export interface PageSource {
  /** For the report. */
  name: string;
  image: DatabaseImage;
}

/** An object that is damaged or missing, and what is known of it. */
export interface LostObject {
  object: ChainObject;
  digest: string;
  /** The database before a segment, for pages that are kept as differences. */
  before?: DatabaseImage | undefined;
  /** Digest of the object before a segment, where that can be read. */
  prev?: string | undefined;
}

/** Where an object can be had from, proved. */
export interface Recoverable {
  /** For the report. */
  from: string;
  /** The keys that change, each with the bytes to write there. */
  parts: { key: string; body: () => AsyncIterable<Uint8Array> }[];
}

/** All pages of an object by their checksums, and what is left of them in the object itself. */
interface Outline {
  header: ObjectHeader;
  pages: Iterable<[pgno: number, crc: number]>;
  own: (pgno: number) => Promise<Uint8Array | undefined>;
}

/** Recovers an object from a copy of the store; undefined when the copy has none that is the same. */
export async function recoverFromCopy(copy: Backend, { object, digest }: LostObject): Promise<Recoverable | undefined> {
  try {
    const { size } = await copy.head(object.key);
    const index = await readObjectThrough(copy, { ...object, size }, () => {});
    if (index.digest !== digest) return undefined;
    return { from: copy.url, parts: partsAt(copy, object, object.key) };
  } catch {
    return undefined;
  }
}

function partsAt(backend: Backend, { key, codec }: ChainObject, place: string): Recoverable["parts"] {
  const parts = [{ key, body: () => streamOf(backend, place) }];
  if (codec === "zst") return parts;
  return [{ key: imageIndexKey(key), body: () => streamOf(backend, imageIndexKey(place)) }, ...parts];
}

/** Recovers an object that lies in another's place, or did until repair put that below `aside`. */
export async function recoverMisplaced(
  backend: Backend,
  { object, digest }: LostObject,
  aside: string,
): Promise<Recoverable | undefined> {
  for (const prefix of [DATA_PREFIX, `${aside}/${DATA_PREFIX}`]) {
    const places = await translated(`Cannot list ${prefix}`, () => Array.fromAsync(backend.list(prefix)));
    for (const { key, size } of places) {
      const other = parseObjectKey(key.slice(prefix.length - DATA_PREFIX.length));
      if (other?.codec !== object.codec) continue;
      const place = { ...other, key, size };
      if ((await readObjectIndex(backend, place).catch(() => undefined))?.digest !== digest) continue;
      if (!await readObjectThrough(backend, place, () => {}).catch(() => undefined)) continue;
      return { from: key, parts: partsAt(backend, object, key) };
    }
  }
  return undefined;
}

/** The keys of a lineage's objects in a copy of the store whose bytes are as they were written. */
export async function keysInCopy(copy: Backend, lineage: string): Promise<string[]> {
  const keys: string[] = [];
  for (const object of await new Chains(copy).objects(lineage)) {
    if (!await readObjectThrough(copy, object, () => {}).catch(() => undefined)) continue;
    keys.push(object.key, ...(object.codec === "raw" ? [imageIndexKey(object.key)] : []));
  }
  return keys;
}

async function* streamOf(backend: Backend, key: string): AsyncGenerator<Uint8Array> {
  yield* (await translated(`Cannot read ${key}`, () => backend.getStream(key))).chunks;
}

/** Recovers an object from its own undamaged parts and from `sources`; undefined when something is lost for good. */
export async function recoverFromPages(
  backend: Backend,
  lost: LostObject,
  sources: PageSource[],
): Promise<Recoverable | undefined> {
  const { first, last, kind } = lost.object;
  for await (const outline of outlines(backend, lost, sources)) {
    const { header } = outline;
    // Another object may lie in its place.
    if (header.kind !== kind || header.first_txid !== first || header.last_txid !== last) continue;
    const used = new Set<string>();
    try {
      for await (const _ of pagesOf(outline, sources, used));
    } catch (error) {
      if (error instanceof PageLost) continue;
      throw error;
    }
    return { from: [...used].join(", "), parts: partsOf(lost.object, outline, sources) };
  }
  return undefined;
}

class PageLost extends Error {}

/** Every page of an object, each proved by its checksum. */
async function* pagesOf(
  { header, pages, own }: Outline,
  sources: PageSource[],
  used: Set<string>,
): AsyncGenerator<{ pgno: number; bytes: Uint8Array }> {
  const buffer = new Uint8Array(header.page_size);
  for (const [pgno, crc] of pages) {
    const mine = await own(pgno).catch(() => undefined);
    if (mine && crc32(mine) === crc) {
      used.add("its undamaged parts");
      yield { pgno, bytes: mine };
      continue;
    }
    const source = sources.find(({ image }) => {
      if (image.page_size !== header.page_size || pgno > image.page_count) return false;
      image.readPages(pgno, 1, buffer);
      return crc32(buffer) === crc;
    });
    if (!source) throw new PageLost(`page ${pgno} is nowhere`);
    used.add(source.name);
    yield { pgno, bytes: buffer };
  }
}

function partsOf({ key, codec }: ChainObject, outline: Outline, sources: PageSource[]): Recoverable["parts"] {
  const { header } = outline;
  const pages = () => pagesOf(outline, sources, new Set());
  const written = (header: ObjectHeader) =>
    async function* () {
      const writer = new ObjectWriter(header);
      for await (const { pgno, bytes } of pages()) yield* writer.add(pgno, bytes);
      yield* writer.finish();
    };
  if (codec === "zst") return [{ key, body: written(header) }];
  const image = async function* () {
    const lock = lockPage(header.page_size);
    for await (const { pgno, bytes } of pages()) {
      if (pgno === lock + 1) yield new Uint8Array(header.page_size);
      yield bytes.slice();
    }
  };
  return [{ key: imageIndexKey(key), body: written({ ...header, kind: "image-index" }) }, { key, body: image }];
}

/** What the object was, by what is left: its index, its blocks, or a file that is the same database. */
async function* outlines(backend: Backend, lost: LostObject, sources: PageSource[]): AsyncGenerator<Outline> {
  const { object, digest } = lost;
  const raw = object.codec === "raw";
  const index_key = raw ? imageIndexKey(object.key) : object.key;
  const size = await backend.head(index_key).then(({ size }) => size, () => 0);
  const readBefore = lost.before && ((pgno: number, into: Uint8Array) => lost.before!.readPages(pgno, 1, into));
  const ownImage = (page_size: number) => (pgno: number) =>
    backend.getRange(object.key, (pgno - 1) * page_size, page_size);
  for (const head of await headers(backend, index_key)) {
    const read = async (offset: number, length: number) => {
      const bytes = await backend.getRange(index_key, offset, length);
      if (offset < HEADER_BYTES) bytes.set(head.subarray(offset, offset + bytes.length));
      return bytes;
    };
    const index = await readIndex({ size, read }).catch(() => undefined);
    if (index?.digest === digest) {
      const { header } = index;
      const own = raw ? ownImage(header.page_size) : blockReader(index, read, readBefore);
      const kind = header.kind === "image-index" ? "snapshot" : header.kind;
      yield { header: { ...header, kind }, pages: index.entries(), own };
    }
    if (raw) continue;
    const header = decodeHeader(head);
    const runs = () => decodePages(streamOf(backend, object.key), size, readBefore);
    const pages = await tableOf(runs(), header.page_size);
    if (objectDigest(header, pages) === digest) yield { header, pages, own: inOrder(runs, header.page_size) };
  }
  const { kind, first: first_txid, last: last_txid } = object;
  const prev = kind === "snapshot" ? NO_PREV : lost.prev;
  if (prev === undefined || kind === "segment" && !lost.before) return;
  for (const { image } of sources) {
    const { page_size, page_count } = image;
    // Of a segment the pages that differ: what was written as it had been is not known.
    const before = kind === "segment" ? lost.before! : undefined;
    if (before && before.page_size !== page_size) continue;
    const header = { kind, page_size, page_count, first_txid: before ? first_txid : 0, last_txid, prev };
    const pages = new PageTable();
    const [buffer, old] = [new Uint8Array(page_size), new Uint8Array(page_size)];
    for (let pgno = 1; pgno <= page_count; pgno++) {
      if (pgno === lockPage(page_size)) continue;
      image.readPages(pgno, 1, buffer);
      const crc = crc32(buffer);
      if (before && pgno <= before.page_count) {
        before.readPages(pgno, 1, old);
        if (crc32(old) === crc) continue;
      }
      pages.append(pgno, crc);
    }
    if (objectDigest(header, pages) !== digest) continue;
    yield { header, pages, own: raw ? ownImage(page_size) : () => Promise.resolve(undefined) };
  }
}

/** The headers that an object may have had: its own, or one that differs in a byte and then matches its checksum. */
async function headers(backend: Backend, key: string): Promise<Uint8Array[]> {
  const found = await backend.getRange(key, 0, HEADER_BYTES).catch(() => undefined);
  if (found?.length !== HEADER_BYTES) return [];
  const bytes = found.slice();
  const view = new DataView(bytes.buffer);
  const sum = view.getUint32(40);
  const candidates: Uint8Array[] = [];
  for (let at = 0; at < 40; at++) {
    const before = bytes[at]!;
    for (let value = 0; value < 256; value++) {
      bytes[at] = value;
      if (crc32(bytes.subarray(0, 40)) === sum) candidates.push(bytes.slice());
    }
    bytes[at] = before;
  }
  // Or the checksum itself is damaged: the digest will show.
  view.setUint32(40, crc32(bytes.subarray(0, 40)));
  return [...candidates, bytes].filter((head, i, all) => {
    try {
      decodeHeader(head);
      return all.findIndex((other) => other.join() === head.join()) === i;
    } catch {
      return false;
    }
  });
}

/** Reads single pages through an index, a block at a time. */
function blockReader(
  index: ObjectIndex,
  read: (offset: number, length: number) => Promise<Uint8Array>,
  readBefore: ((pgno: number, into: Uint8Array) => void) | undefined,
): Outline["own"] {
  let held: { offset: number; runs: PageRun[] } | undefined;
  return async (pgno) => {
    const block = index.page(pgno)?.block;
    if (!block) return undefined;
    if (held?.offset !== block.offset) {
      held = { offset: block.offset, runs: [] };
      held.runs = decodeBlock(await read(block.offset, block.length), index.header, block.offset, readBefore);
    }
    return pageIn(held.runs, pgno, index.header.page_size);
  };
}

function pageIn(runs: PageRun[], pgno: number, page_size: number): Uint8Array | undefined {
  const run = runs.find((run) => run.pgno <= pgno && pgno < run.pgno + run.bytes.length / page_size);
  return run?.bytes.subarray((pgno - run.pgno) * page_size, (pgno - run.pgno + 1) * page_size);
}

/** Reads pages by passing over the blocks, for ascending numbers; a lower one than before begins a new pass. */
function inOrder(pass: () => ReturnType<typeof decodePages>, page_size: number): Outline["own"] {
  let runs = pass();
  let held: PageRun[] = [];
  let last = 0;
  return async (pgno) => {
    if (pgno <= last) [runs, held] = [pass(), []];
    last = pgno;
    for (;;) {
      const page = pageIn(held, pgno, page_size);
      if (page) return page;
      const next = await runs.next();
      if (next.done) return undefined;
      held = [next.value];
    }
  };
}

/** The pages that a pass over an object's blocks gives before it fails. */
async function tableOf(runs: ReturnType<typeof decodePages>, page_size: number): Promise<PageTable> {
  const pages = new PageTable();
  try {
    for await (const { pgno, bytes } of runs) {
      for (let at = 0; at < bytes.length; at += page_size) {
        pages.append(pgno + at / page_size, crc32(bytes.subarray(at, at + page_size)));
      }
    }
  } catch {
    // Here its undamaged beginning ends.
  }
  return pages;
}
