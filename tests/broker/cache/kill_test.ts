import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { DependencyCache } from "../../../broker/cache/dependency_cache.ts";
import { removeTree } from "../../../lib/remove_tree.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";
import { BLOCK } from "./_cache.ts";

const QUOTA_BYTES = 60 * BLOCK;
const ROUNDS = 6;

Deno.test("processes that share a cache and are killed leave only whole entries, within the quota", async () => {
  const root = await Deno.makeTempDir({ prefix: "taskd-cache-kill-" });
  const cache_root = `${root}/cache`;
  let seen = 0;
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const children = [1, 2].map((child) => startFiller(cache_root, `${round}.${child}`));
      try {
        await Promise.all(children.map(started));
        await systemClock.sleep(50 + systemRandom(1)[0]!);
      } finally {
        for (const child of children) child.kill("SIGKILL");
        await Promise.all(children.map((child) => child.status));
        await Promise.all(children.map((child) => child.stdout.cancel()));
      }
      const cache = await reopened(cache_root);
      const entries = await cache.entries();
      seen += entries.length;
      assert(entries.reduce((sum, { bytes }) => sum + bytes, 0) <= QUOTA_BYTES);
      for (const { key, bytes } of entries) await assertWhole(`${cache_root}/entries/${key}/deps`, bytes);
      assertEquals([...Deno.readDirSync(`${cache_root}/trash`)], []);
      assertEquals([...Deno.readDirSync(`${cache_root}/entries`)].length, entries.length);
      cache.close();
    }
    assertNotEquals(seen, 0);
  } finally {
    await removeTree(root);
  }
});

/**
 * Opens the cache, and again while a folder that was being filled is still held: a program that a filler was starting as
 * it was killed has the filler's descriptors until it begins, and with them its locks.
 */
async function reopened(cache_root: string): Promise<DependencyCache> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const cache = await DependencyCache.open({ cache_root, quota_bytes: QUOTA_BYTES, clock: systemClock });
    if ([...Deno.readDirSync(`${cache_root}/staging`)].length === 0) return cache;
    cache.close();
    await systemClock.sleep(20);
  }
  throw new Error("a folder that was being filled stays");
}

function startFiller(cache_root: string, seed: string): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-prompt",
      import.meta.resolve("./_filler.ts"),
      cache_root,
      seed.replace(".", ""),
      String(QUOTA_BYTES),
    ],
    stdout: "piped",
  }).spawn();
}

/** Waits for the first output. */
async function started(child: Deno.ChildProcess): Promise<void> {
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  reader.releaseLock();
  assert(value !== undefined, "a filler ended by itself");
}

async function assertWhole(deps: string, bytes: number): Promise<void> {
  const names = [...Deno.readDirSync(deps)].map(({ name }) => name);
  const texts = await Promise.all(names.map((name) => Deno.readTextFile(`${deps}/${name}`)));
  assertEquals(new Set(texts).size, 1);
  assertEquals(names.length, Number(texts[0]!.split(":")[2]));
  assertEquals(bytes, names.length * BLOCK);
}
