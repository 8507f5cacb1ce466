import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { DependencyCache } from "../../../broker/cache/dependency_cache.ts";
import { removeTree } from "../../../lib/remove_tree.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";
import { BLOCK } from "./_cache.ts";

const QUOTA_BYTES = 60 * BLOCK;
const ROUNDS = 6;

Deno.test("a process that is killed leaves only whole entries, within the quota", async () => {
  const root = await Deno.makeTempDir({ prefix: "taskd-cache-kill-" });
  const cache_root = `${root}/cache`;
  let seen = 0;
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const child = startFiller(cache_root, String(round));
      try {
        await started(child);
        await systemClock.sleep(50 + systemRandom(1)[0]!);
      } finally {
        child.kill("SIGKILL");
        await child.status;
        await child.stdout.cancel();
      }
      const cache = await DependencyCache.open({ cache_root, quota_bytes: QUOTA_BYTES, clock: systemClock });
      assertEquals([...Deno.readDirSync(`${cache_root}/staging`)], []);
      const entries = cache.entries();
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

function startFiller(cache_root: string, seed: string): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-prompt",
      import.meta.resolve("./_filler.ts"),
      cache_root,
      seed,
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
