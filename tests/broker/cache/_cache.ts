/**
 * A dependency cache in a folder of its own.
 */

import { type CacheRequest, type CacheUse, DependencyCache } from "../../../broker/cache/dependency_cache.ts";
import { removeTree } from "../../../lib/remove_tree.ts";
import { VirtualClock } from "../../support/clock.ts";

/** One block: what a small file takes. */
export const BLOCK = 4_096;

/** What a test works with. */
export interface CacheWorld extends AsyncDisposable {
  root: string;
  clock: VirtualClock;
  warnings: string[];
  /** Opens the cache, as another process would. */
  open(quota_blocks?: number): Promise<DependencyCache>;
  /** Names of what lies in a folder of the cache. */
  names(folder: "entries" | "staging" | "trash"): string[];
}

/** Makes the folder. */
export async function makeCacheWorld(): Promise<CacheWorld> {
  const root = await Deno.makeTempDir({ prefix: "taskd-cache-" });
  const clock = new VirtualClock();
  const warnings: string[] = [];
  const opened: DependencyCache[] = [];
  return {
    root,
    clock,
    warnings,
    async open(quota_blocks = 1_000) {
      const cache = await DependencyCache.open({
        cache_root: `${root}/cache`,
        quota_bytes: quota_blocks * BLOCK,
        clock,
        onWarning: (message) => warnings.push(message),
      });
      opened.push(cache);
      return cache;
    },
    names: (folder) => [...Deno.readDirSync(`${root}/cache/${folder}`)].map(({ name }) => name),
    [Symbol.asyncDispose]: async () => {
      for (const cache of opened) cache.close();
      await removeTree(root);
    },
  };
}

/** A request whose key is decided by `repo` and `lock`. */
export function request(repo: string, lock = "lock"): CacheRequest {
  return {
    repo: `git.example.com/owner/${repo}`,
    lockfiles: [{ path: "package-lock.json", digest: lock }],
    toolchain: "podman",
    arch: "x86_64",
    setup_commands: [["npm", "ci"]],
    image: "image",
    enabled: true,
  };
}

/** What a setup phase writes: `blocks` files. */
export async function fill(use: CacheUse, content: string, blocks = 1): Promise<void> {
  for (let index = 0; index < blocks; index++) {
    await Deno.writeTextFile(`${use.setup_mount!.source}/file${index}`, content);
  }
}

/** A whole setup that passed; returns the part, still in use. */
export async function setUp(cache: DependencyCache, of: CacheRequest, content = "x", blocks = 1): Promise<CacheUse> {
  const use = await cache.use(of);
  await fill(use, content, blocks);
  await use.commit();
  return use;
}

/** A task from beginning to end. */
export async function runTask(cache: DependencyCache, of: CacheRequest, content = "x", blocks = 1): Promise<string> {
  const use = await setUp(cache, of, content, blocks);
  await use.release();
  return use.participation;
}
