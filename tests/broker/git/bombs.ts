/**
 * Objects that are made to take more than they are: as raw bytes, because git makes none of them.
 */

import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";
import { concat } from "../../../lib/concat.ts";

const text = new TextEncoder();

/** Writes loose objects below a git directory. */
export class ObjectWriter {
  readonly #git_dir: string;

  constructor(git_dir: string) {
    this.#git_dir = git_dir;
  }

  write(type: "blob" | "tree" | "commit", content: Uint8Array): string {
    const bytes = concat([text.encode(`${type} ${content.length}\0`), content]);
    const oid = createHash("sha1").update(bytes).digest("hex");
    const folder = `${this.#git_dir}/objects/${oid.slice(0, 2)}`;
    Deno.mkdirSync(folder, { recursive: true });
    Deno.writeFileSync(`${folder}/${oid.slice(2)}`, deflateSync(bytes, { level: 1 }));
    return oid;
  }

  /** Entries in git's order. */
  tree(entries: readonly { mode: string; name: string; oid: string }[]): string {
    return this.write(
      "tree",
      concat(entries.flatMap(({ mode, name, oid }) => [text.encode(`${mode} ${name}\0`), Uint8Array.fromHex(oid)])),
    );
  }

  /** A commit of a tree, as the branch main. */
  commit(tree: string): string {
    const by = "Op <op@example.com> 1 +0000";
    const oid = this.write("commit", text.encode(`tree ${tree}\nauthor ${by}\ncommitter ${by}\n\nbomb\n`));
    Deno.writeTextFileSync(`${this.#git_dir}/refs/heads/main`, `${oid}\n`);
    return oid;
  }

  /** A tree of `width` equal entries, wrapped `depth` times around one entry. */
  wrapped(inner: { mode: string; oid: string }, width: number, depth: number): string {
    let { mode, oid } = inner;
    for (let level = 0; level < depth; level++) {
      const names = Array.from({ length: width }, (_, n) => `d${String(n).padStart(7, "0")}`);
      oid = this.tree(names.map((name) => ({ mode, name, oid })));
      mode = "40000";
    }
    return oid;
  }
}

/** A pack with a blob, and one that a delta of a few bytes makes of it: `copies` times the whole. */
export function deltaBomb(base_bytes: number, copies: number): Uint8Array<ArrayBuffer> {
  const base = new Uint8Array(base_bytes);
  const copy = [0x80 | 0x10 | 0x20 | 0x40, base_bytes & 0xff, base_bytes >> 8 & 0xff, base_bytes >> 16 & 0xff];
  const delta = new Uint8Array([
    ...varint(base_bytes),
    ...varint(base_bytes * copies),
    ...Array.from({ length: copies }, () => copy).flat(),
  ]);
  const first = concat([new Uint8Array(entryHead(3, base.length)), deflateSync(base)]);
  // Of the object that begins so many bytes before: git's own way to write a distance.
  const distance = [first.length & 0x7f];
  for (let left = first.length >> 7; left > 0; left >>= 7) distance.unshift(0x80 | --left & 0x7f);
  const second = concat([new Uint8Array([...entryHead(6, delta.length), ...distance]), deflateSync(delta)]);
  const body = concat([text.encode("PACK"), new Uint8Array([0, 0, 0, 2, 0, 0, 0, 2]), first, second]);
  return concat([body, new Uint8Array(createHash("sha1").update(body).digest())]);
}

/** An object of a pack of so many bytes, which nothing makes smaller. */
export function noisePack(bytes: number): Uint8Array<ArrayBuffer> {
  const noise = new Uint8Array(bytes);
  // Not to be compressed, and the same each time.
  for (let at = 0, state = 1; at < bytes; at++) {
    noise[at] = (state = Math.imul(state, 1_664_525) + 1_013_904_223) >>> 24;
  }
  const entry = concat([new Uint8Array(entryHead(3, bytes)), deflateSync(noise, { level: 0 })]);
  const body = concat([text.encode("PACK"), new Uint8Array([0, 0, 0, 2, 0, 0, 0, 1]), entry]);
  return concat([body, new Uint8Array(createHash("sha1").update(body).digest())]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (let left = value; bytes.length === 0 || left > 0; left = Math.floor(left / 128)) {
    bytes.push(left % 128 | (left >= 128 ? 0x80 : 0));
  }
  return bytes;
}

function entryHead(type: number, size: number): number[] {
  const bytes = [type << 4 | size & 15];
  for (let left = Math.floor(size / 16); left > 0; left = Math.floor(left / 128)) {
    bytes[bytes.length - 1]! |= 0x80;
    bytes.push(left % 128);
  }
  return bytes;
}
