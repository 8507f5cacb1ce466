/**
 * Git's NUL-separated output. Paths are bytes to git; here they are strings with one character per byte (raw paths),
 * so that none is lost or mistaken for another, and become text only to be shown or matched.
 */

import { Buffer } from "node:buffer";
import { pathText } from "../../lib/text/characters.ts";
import { hasGitName } from "../../lib/text/git_name.ts";

export { pathText };

/** A path of git with one character (U+0000 to U+00FF) per byte. */
export type RawPath = string;

/** The fields of `-z` output, one character per byte. */
export function splitRecords(bytes: Uint8Array): RawPath[] {
  const records = binary(bytes).split("\0");
  records.pop();
  return records;
}

export function binary(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

export function bytesOf(raw: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(raw, "latin1"));
}

// deno-lint-ignore no-control-regex
const ASCII = /^[\u0000-\u007f]*$/;

/** Whether raw text is ASCII, as nearly every path is: it needs no decoding. */
export function isAscii(raw: string): boolean {
  return ASCII.test(raw);
}

/** Whether a path is UTF-8: only such paths can be handed to the file system here. */
export function isUtf8(raw: RawPath): boolean {
  if (isAscii(raw)) return true;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(raw));
    return true;
  } catch {
    return false;
  }
}

export function rawPath(text: string): RawPath {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** Records joined as `-z` input requires. */
export function joinRecords(records: readonly RawPath[]): Uint8Array<ArrayBuffer> {
  return bytesOf(records.map((record) => `${record}\0`).join(""));
}

/** Whether git would refuse this path, or a checkout of it would write into a git directory. */
export function hasGitComponent(raw: RawPath): boolean {
  if (isAscii(raw) && !/git/i.test(raw)) return false;
  return hasGitName(pathText(raw));
}
