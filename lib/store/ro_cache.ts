/**
 * The disk budget of `checkouts-ro`: read-only checkouts of checkpoints and the copies of whole
 * chains. All of it can be built anew, so entries go by last use until the rest fits. Nothing under
 * `checkouts/` is ever inspected, and an open handle on an entry keeps working.
 */

import { basename, join } from "node:path/posix";
import { nextTurn } from "../clock.ts";
import { fileErrorCode } from "../fs.ts";
import { lastUsed, removeEntry } from "./chain_cache.ts";
import type { StoreContext } from "./context.ts";
import { filesBelow, type Workspace } from "./workspace.ts";

/** Takes the branch's part of a key, for a copy of a whole chain. */
export const BY_CHAIN = "~by-chain";

/** An entry that was removed. */
export interface EvictedEntry {
  /** Database name. */
  db: string;
  /** Branch name, or {@linkcode BY_CHAIN}. */
  branch: string;
  /** Checkpoint name; for a copy of a whole chain, the chain's id. */
  checkpoint: string;
  /** Its size. */
  bytes: number;
}

/** Answer of {@linkcode enforceRoCacheBudget}. */
export interface RoCacheResult {
  /** Bytes of the entries that are left. */
  bytes: number;
  /** Entries removed, least recently used first. */
  evicted: EvictedEntry[];
}

interface Entry extends EvictedEntry {
  path: string;
}

/** Removes temporary files that dead operations left in the workspace. */
export async function sweep({ workspace, timeline }: Pick<StoreContext, "workspace" | "timeline">): Promise<void> {
  const ages = await timeline.look();
  workspace.sweep((written_ms) => ages.since(written_ms));
}

/** Bytes of all entries, each at its file's size. */
export function roCacheBytes({ workspace }: Pick<StoreContext, "workspace">): number {
  return sumOf(entriesOf(workspace));
}

/**
 * Removes the least recently used entries, with what lies beside them, until the rest has at most `budget_bytes`. Before
 * that, with any budget, temporary files that dead operations left in the workspace are removed.
 *
 * @param options.budget_bytes 0 for no limit: then nothing is removed.
 * @throws {TaskdError} `denied` or `unavailable` when the directory cannot be listed.
 */
export async function enforceRoCacheBudget(
  context: Pick<StoreContext, "workspace" | "timeline">,
  { budget_bytes }: { budget_bytes: number },
): Promise<RoCacheResult> {
  const { workspace } = context;
  await sweep(context);
  const entries = entriesOf(workspace);
  let bytes = sumOf(entries);
  const evicted: EvictedEntry[] = [];
  if (budget_bytes > 0 && bytes > budget_bytes) {
    const ranked = entries.map((entry) => ({ entry, used_ms: lastUsed(entry.path) }));
    ranked.sort((a, b) => a.used_ms - b.used_ms || (a.entry.path < b.entry.path ? -1 : 1));
    for (const { entry: { path, ...entry } } of ranked) {
      if (bytes <= budget_bytes) break;
      removeEntry(path);
      bytes -= entry.bytes;
      evicted.push(entry);
      // There may be many, and some are large.
      await nextTurn();
    }
  }
  return { bytes, evicted };
}

function sumOf(entries: Entry[]): number {
  return entries.reduce((sum, { bytes }) => sum + bytes, 0);
}

function entriesOf(workspace: Workspace): Entry[] {
  const root = join(workspace.root, "checkouts-ro");
  const entries: Entry[] = [];
  for (const path of filesBelow(root, 2)) {
    const named = identify(path.slice(root.length + 1));
    if (!named) continue;
    try {
      entries.push({ ...named, path, bytes: Deno.lstatSync(path).size });
    } catch (error) {
      // Removed since: by a checkout that prunes, a destroy, or a person.
      if (fileErrorCode(error) !== "not_found") throw error;
    }
  }
  return entries;
}

/** The parts of an entry's path below the cache; undefined for a sidecar or anything else. */
function identify(path: string): Omit<EvictedEntry, "bytes"> | undefined {
  const parts = path.split("/");
  const name = basename(path);
  const [db] = parts;
  if (parts.length === 3 && parts[1] === BY_CHAIN) {
    const chain_id = /^([0-9a-f]{64})\.db$/.exec(name)?.[1];
    return chain_id === undefined ? undefined : { db: db!, branch: BY_CHAIN, checkpoint: chain_id };
  }
  const match = parts.length === 2 ? /^([^@]+)@([^@]+)\.db$/.exec(name) : null;
  return match ? { db: db!, branch: match[1]!, checkpoint: match[2]! } : undefined;
}
