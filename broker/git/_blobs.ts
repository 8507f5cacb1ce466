/**
 * Reads blobs as they come from git, in bounded memory: of each its size, SHA-256 and first bytes.
 */

import { createHash } from "node:crypto";
import { TaskdError } from "../../lib/errors.ts";
import { binary } from "./_records.ts";
import type { BlobDetails } from "./flags.ts";
import type { Git, GitRunOptions } from "./git.ts";

/** Sizes by object id, in bytes. */
export async function blobSizes(git: Git, oids: readonly string[], run: GitRunOptions): Promise<Map<string, number>> {
  if (oids.length === 0) return new Map();
  const stdin = new TextEncoder().encode(oids.map((oid) => `${oid}\n`).join(""));
  const text = await git.text(["cat-file", "--buffer", "--batch-check=%(objectsize)"], { ...run, stdin });
  const sizes = text.split("\n").map(Number);
  return new Map(oids.map((oid, at) => [oid, sizes[at]!]));
}

/** `head_bytes` is how much is kept of each. */
export async function readBlobs(
  git: Git,
  oids: readonly string[],
  { head_bytes, run }: { head_bytes: number; run: GitRunOptions },
): Promise<Map<string, Required<BlobDetails>>> {
  const found = new Map<string, Required<BlobDetails>>();
  if (oids.length === 0) return found;
  let blob:
    | { size: number; left: number; head: string; lines: number; hash: ReturnType<typeof createHash> }
    | undefined;
  let line = "";
  // Of each blob: a line with its size, its bytes, a newline.
  const onOutput = (chunk: Uint8Array) => {
    for (let at = 0; at < chunk.length;) {
      if (blob === undefined) {
        const end = chunk.indexOf(10, at);
        line += binary(chunk.subarray(at, end < 0 ? chunk.length : end));
        if (end < 0) return;
        at = end + 1;
        if (!/^\d+$/.test(line)) throw new TaskdError("internal", `${run.attempted}: git says ${JSON.stringify(line)}`);
        blob = { size: Number(line), left: Number(line), head: "", lines: 0, hash: createHash("sha256") };
        line = "";
      }
      const part = chunk.subarray(at, at + blob.left);
      blob.hash.update(part);
      blob.head += binary(part.subarray(0, head_bytes - blob.head.length));
      for (const byte of part) if (byte === 10) blob.lines++;
      blob.left -= part.length;
      // A last line without an end.
      if (blob.left === 0 && part.length > 0 && part.at(-1) !== 10) blob.lines++;
      at += part.length;
      if (blob.left > 0 || at >= chunk.length) continue;
      at++;
      const { size, head, lines, hash } = blob;
      found.set(oids[found.size]!, { size, head, lines, sha256: hash.digest("hex") });
      blob = undefined;
    }
  };
  const stdin = new TextEncoder().encode(oids.map((oid) => `${oid}\n`).join(""));
  await git.run(["cat-file", "--buffer", "--batch=%(objectsize)"], { ...run, stdin, onOutput });
  if (found.size < oids.length) throw new TaskdError("internal", `${run.attempted}: git has read too few files`);
  return found;
}
