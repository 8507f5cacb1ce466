import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { VirtualClock } from "../../tests/support/clock.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { systemRandom } from "../clock.ts";
import { BY_CHAIN, enforceRoCacheBudget, roCacheBytes } from "./ro_cache.ts";
import { Timeline } from "./timeline.ts";
import { companions, Workspace } from "./workspace.ts";

const CHAIN_ID = "a".repeat(64);

interface Bench {
  workspace: Workspace;
  timeline: Timeline;
  directory: string;
  /** Makes a file of `bytes`, last used at this second; without one it was never hit. */
  entry: (path: string, bytes: number, used_seconds: number | undefined, mtime_seconds?: number) => string;
  evict: (budget_bytes: number) => Promise<string[]>;
}

function timelineOf(workspace: Workspace, clock: VirtualClock): Timeline {
  return new Timeline({ workspace, clock, uptime: () => Promise.resolve({ boot: "one", ms: clock.monotonic() }) });
}

async function withCache(work: (bench: Bench) => void | Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const workspace = new Workspace(directory, systemRandom);
    const entry = (path: string, bytes: number, used_seconds: number | undefined, mtime_seconds = 1) => {
      const file = `${directory}/${path}`;
      Deno.mkdirSync(dirname(file), { recursive: true });
      Deno.writeFileSync(file, new Uint8Array(bytes));
      Deno.utimeSync(file, mtime_seconds, mtime_seconds);
      Deno.writeTextFileSync(`${file}.sum`, "{}");
      if (used_seconds !== undefined) workspace.touchUsed(file, used_seconds * 1000);
      return file;
    };
    const timeline = timelineOf(workspace, new VirtualClock());
    const evict = async (budget_bytes: number) =>
      (await enforceRoCacheBudget({ workspace, timeline }, { budget_bytes })).evicted.map((
        { db, branch, checkpoint, bytes },
      ) => `${db}@${branch}@${checkpoint} ${bytes}`);
    await work({ workspace, timeline, directory, entry, evict });
  });
}

const exists = (path: string) => {
  try {
    return Deno.lstatSync(path).isFile;
  } catch {
    return false;
  }
};

// conformance: 8.ro_cache_budget
Deno.test("every entry counts at its file's size, sidecars and strangers do not", async () => {
  await withCache(async ({ workspace, timeline, entry }) => {
    assertEquals(roCacheBytes({ workspace }), 0);
    entry("checkouts-ro/app/main@one.db", 1000, 5);
    entry(`checkouts-ro/app/${BY_CHAIN}/${CHAIN_ID}.db`, 300, 6);
    entry("checkouts-ro/other/b@c.db", 20, undefined);
    entry("checkouts-ro/app/readme.txt", 7777, undefined);
    entry(`checkouts-ro/app/${BY_CHAIN}/short.db`, 7777, undefined);
    entry("checkouts/app/main.db", 7777, undefined);
    assertEquals(roCacheBytes({ workspace }), 1320);
    assertEquals(await enforceRoCacheBudget({ workspace, timeline }, { budget_bytes: 0 }), {
      bytes: 1320,
      evicted: [],
    });
  });
});

Deno.test("the least recently used go first, until the rest fits, with all that lies beside them", async () => {
  await withCache(async ({ workspace, entry, evict }) => {
    const one = entry("checkouts-ro/app/main@one.db", 100, 30);
    const two = entry("checkouts-ro/app/main@two.db", 100, 10);
    const chain = entry(`checkouts-ro/app/${BY_CHAIN}/${CHAIN_ID}.db`, 100, 20);
    assertEquals(await evict(300), []);
    assertEquals(await evict(299), ["app@main@two 100"]);
    assertEquals(await evict(100), [`app@${BY_CHAIN}@${CHAIN_ID} 100`]);
    for (const path of [two, chain]) for (const file of [path, ...companions(path)]) assert(!exists(file), file);
    for (const file of [one, `${one}.sum`, `${one}.last-used`]) assert(exists(file), file);
    assertEquals(roCacheBytes({ workspace }), 100);
    assertEquals(await evict(1), ["app@main@one 100"]);
  });
});

// conformance: 2.last_used
Deno.test("the file's own time ranks an entry that was never hit, and no other", async () => {
  await withCache(async ({ entry, evict }) => {
    entry("checkouts-ro/app/main@hit.db", 100, 50, 1);
    entry("checkouts-ro/app/main@never.db", 100, undefined, 40);
    entry("checkouts-ro/app/main@old.db", 100, 5, 1_000_000);
    assertEquals(await evict(200), ["app@main@old 100"]);
    assertEquals(await evict(100), ["app@main@never 100"]);
  });
});

// conformance: 4.evict_cache_only 2.files.checkout
Deno.test("nothing under checkouts/ is ever removed, nor what a symbolic link leads to", async () => {
  await withCache(async ({ directory, entry, evict }) => {
    const writable = entry("checkouts/app/main.db", 5000, 1);
    const decoy = entry("checkouts/app/main@one.db", 5000, 1);
    entry("checkouts-ro/app/main@one.db", 10, 2);
    Deno.symlinkSync(`${directory}/checkouts/app`, `${directory}/checkouts-ro/link`);
    Deno.symlinkSync(decoy, `${directory}/checkouts-ro/app/main@link.db`);
    assertEquals(await evict(1), ["app@main@one 10"]);
    assert(exists(writable) && exists(decoy));
  });
});

// conformance: 4.evicted_enoent
Deno.test("a handle that is open on an evicted entry goes on working", async () => {
  await withCache(async ({ entry, evict }) => {
    using file = Deno.openSync(entry("checkouts-ro/app/main@one.db", 10, 2));
    assertEquals((await evict(1)).length, 1);
    assertEquals(file.readSync(new Uint8Array(100)), 10);
  });
});

Deno.test("temporary files of dead operations are swept, young ones and everything else are not", async () => {
  await withCache(async ({ workspace, directory, entry }) => {
    const clock = new VirtualClock();
    const timeline = timelineOf(workspace, clock);
    clock.advance(2 * 86_400_000);
    const now = clock.now() / 1000;
    const old = [".0123456789abcdef.tmp", ".0123456789abcdef.tmp-wal", ".0123456789abcdef.tmp.00ff.tmp"];
    for (const folder of ["tmp", "checkouts/app", "checkouts-ro/app", `checkouts-ro/app/${BY_CHAIN}`]) {
      for (const name of old) entry(`${folder}/${name}`, 1, undefined, now - 86_400);
      entry(`${folder}/.aaaaaaaaaaaaaaaa.tmp`, 1, undefined, now - 86_399);
      entry(`${folder}/main.tmp`, 1, undefined, 1);
      entry(`${folder}/main.db`, 1, undefined, 1);
    }
    await enforceRoCacheBudget({ workspace, timeline }, { budget_bytes: 0 });
    const names = [...Deno.readDirSync(`${directory}/tmp`)].map(({ name }) => name).filter((name) =>
      !name.endsWith(".sum")
    );
    assertEquals(names.sort(), [".aaaaaaaaaaaaaaaa.tmp", "main.db", "main.tmp"]);
  });
});
