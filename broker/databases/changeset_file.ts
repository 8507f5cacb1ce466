/**
 * A tree of hashes in a file: the hashes of the leaves, then each level above them. Written and read in bounded memory.
 */

import { Buffer } from "node:buffer";
import type { ChangesetRoot } from "../task/database_schema.ts";
import { leafBytes, nodeBytes } from "../task/page_proof.ts";
import type { PageProof } from "../task/row_pages.ts";
import { fillSync } from "../../lib/fs.ts";
import { sha256 } from "../../lib/sha256.ts";

const HASH_BYTES = 32;
/** Nodes that are read or written at once, in pairs. */
const NODES = 2_048;

/** Writes a tree, leaf by leaf. */
export class ChangesetWriter {
  readonly #file: Deno.FsFile;
  readonly #buffer = new Uint8Array(NODES * HASH_BYTES);
  #filled = 0;
  #leaves = 0;

  /** Makes the file; throws what `Deno.openSync` throws. */
  constructor(path: string) {
    this.#file = Deno.openSync(path, { read: true, write: true, createNew: true, mode: 0o600 });
  }

  add(content: string): void {
    this.#leaves++;
    this.#write(sha256(leafBytes(content)));
  }

  /** Writes the levels above the leaves and closes the file. */
  finish(): ChangesetRoot {
    using file = this.#file;
    this.#flush();
    let begin = 0;
    for (let size = this.#leaves; size > 1; begin += size, size = Math.ceil(size / 2)) {
      for (let at = 0; at < size; at += NODES) {
        const nodes = nodesAt(file, begin + at, Math.min(size - at, NODES));
        file.seekSync(0, Deno.SeekMode.End);
        for (let i = 0; i < nodes.length; i += 2) {
          this.#write(nodes[i + 1] === undefined ? nodes[i]! : sha256(nodeBytes(nodes[i]!, nodes[i + 1]!)));
        }
        this.#flush();
      }
    }
    const [root = sha256("")] = this.#leaves === 0 ? [] : nodesAt(file, begin, 1);
    return { root: root.toHex(), leaves: this.#leaves };
  }

  #write(hash: Uint8Array): void {
    this.#buffer.set(hash, this.#filled);
    this.#filled += HASH_BYTES;
    if (this.#filled === this.#buffer.length) this.#flush();
  }

  #flush(): void {
    for (let at = 0; at < this.#filled;) at += this.#file.writeSync(this.#buffer.subarray(at, this.#filled));
    this.#filled = 0;
  }
}

/** The proof for a leaf of the tree at `path`; undefined where it has no such leaf. Throws what `Deno.openSync` throws. */
export function proofOf(path: string, content: string, leaves: number): PageProof | undefined {
  using file = Deno.openSync(path);
  const hash = sha256(leafBytes(content));
  for (let from = 0; from < leaves; from += NODES) {
    const place = nodesAt(file, from, Math.min(leaves - from, NODES)).findIndex((node) =>
      Buffer.compare(node, hash) === 0
    );
    if (place < 0) continue;
    const index = from + place;
    const path: string[] = [];
    let [begin, at] = [0, index];
    for (let size = leaves; size > 1; begin += size, size = Math.ceil(size / 2), at = Math.floor(at / 2)) {
      const beside = at % 2 === 0 ? at + 1 : at - 1;
      if (beside < size) path.push(nodesAt(file, begin + beside, 1)[0]!.toHex());
    }
    return { index, path };
  }
  return undefined;
}

/** Whether a file is the tree that has such a root, in every node. Throws what `Deno.openSync` throws. */
export function isTreeOf(path: string, { root, leaves }: ChangesetRoot): boolean {
  using file = Deno.openSync(path);
  let begin = 0;
  for (let size = leaves; size > 1; begin += size, size = Math.ceil(size / 2)) {
    for (let at = 0; at < size; at += NODES) {
      const count = Math.min(size - at, NODES);
      const nodes = nodesAt(file, begin + at, count);
      const above = nodesAt(file, begin + size + at / 2, Math.ceil(count / 2));
      for (let i = 0; i < count; i += 2) {
        const made = nodes[i + 1] === undefined ? nodes[i]! : sha256(nodeBytes(nodes[i]!, nodes[i + 1]!));
        if (Buffer.compare(made, above[i / 2]!) !== 0) return false;
      }
    }
  }
  const nodes = leaves === 0 ? 0 : begin + 1;
  const top = leaves === 0 ? sha256("") : nodesAt(file, begin, 1)[0]!;
  return top.toHex() === root && file.statSync().size === nodes * HASH_BYTES;
}

/** Throws where the file ends early. */
function nodesAt(file: Deno.FsFile, node: number, count: number): Uint8Array[] {
  file.seekSync(node * HASH_BYTES, Deno.SeekMode.Start);
  const bytes = new Uint8Array(count * HASH_BYTES);
  if (fillSync(file, bytes) < bytes.length) throw new Deno.errors.UnexpectedEof();
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES));
}
