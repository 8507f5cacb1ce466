import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { quotaBytes } from "../../../broker/cache/dependency_cache.ts";
import { BLOCK, fill, makeCacheWorld, request, runTask, setUp } from "./_cache.ts";

// conformance: b2.cache.deps b2.cache.brief b2.effect.cache_root
Deno.test("the first task with a lockfile misses and fills, the next hits and finds what was written", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const first = await cache.use(request("a"));
  assertEquals([first.participation, first.agent_mount], ["miss", undefined]);
  assertEquals([first.setup_mount!.target, first.setup_mount!.writable], ["/deps", true]);
  await fill(first, "content");
  assertEquals(await first.commit(), { kept: true });
  assertEquals([first.setup_mount, first.agent_mount?.target, first.agent_mount?.writable], [
    undefined,
    "/deps",
    false,
  ]);
  await first.release();
  const second = await cache.use(request("a"));
  assertEquals([second.participation, second.key_prefix], ["hit", first.key_prefix]);
  assertMatch(second.key_prefix!, /^[0-9a-f]{12}$/);
  assertEquals(await Deno.readTextFile(`${second.setup_mount!.source}/file0`), "content");
  await second.commit();
  assertEquals(await Deno.readTextFile(`${second.agent_mount!.source}/file0`), "content");
  await second.release();
  assertEquals([second.setup_mount, second.agent_mount], [undefined, undefined]);
});

Deno.test("a setup that failed leaves no entry", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const failed = await cache.use(request("a"));
  await fill(failed, "half of it");
  await failed.release();
  assertEquals(cache.entries(), []);
  assertEquals([world.names("staging"), world.names("trash")], [[], []]);
  assertEquals(await runTask(cache, request("a")), "miss");
});

Deno.test("a setup that failed after a hit leaves the entry as it was", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  await runTask(cache, request("a"), "good");
  const failed = await cache.use(request("a"));
  await fill(failed, "evil");
  await failed.release();
  const next = await cache.use(request("a"));
  assertEquals(await Deno.readTextFile(`${next.setup_mount!.source}/file0`), "good");
  await next.release();
});

Deno.test("attack: what a later setup writes, passed or not, changes nothing in the entry", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  await runTask(cache, request("a"), "good");
  const use = await cache.use(request("a"));
  const { source } = use.setup_mount!;
  // In place, as a hard link or a shared inode would let it through.
  const file = await Deno.open(`${source}/file0`, { write: true });
  await file.write(new TextEncoder().encode("evil"));
  file.close();
  await Deno.writeTextFile(`${source}/more`, "evil");
  await use.commit();
  assertEquals(await Deno.readTextFile(`${use.agent_mount!.source}/file0`), "good");
  await use.release();
  const next = await cache.use(request("a"));
  assertEquals([...Deno.readDirSync(next.setup_mount!.source)].map(({ name }) => name), ["file0"]);
  await next.release();
});

Deno.test("attack: a repository neither reads nor replaces another's entry with the same lockfile", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  await runTask(cache, request("victim"), "good");
  assertEquals(await runTask(cache, request("attacker"), "evil"), "miss");
  const use = await cache.use(request("victim"));
  assertEquals(await Deno.readTextFile(`${use.setup_mount!.source}/file0`), "good");
  await use.release();
});

Deno.test("attack: links that a package leaves in the cache lead the host nowhere", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  await Deno.mkdir(`${world.root}/outside`);
  await Deno.writeTextFile(`${world.root}/outside/file`, "untouched");
  const use = await cache.use(request("a"));
  const { source } = use.setup_mount!;
  await Deno.symlink(`${world.root}/outside`, `${source}/out`);
  await Deno.symlink(`${world.root}/outside/file`, `${source}/entry.json`);
  await Deno.symlink("../../../../lock", `${source}/lock`);
  assertEquals(await use.commit(), { kept: true });
  await use.release();
  const again = await cache.use(request("a"));
  assertEquals(await Deno.readLink(`${again.setup_mount!.source}/out`), `${world.root}/outside`);
  await again.release();
  cache.close();
  const small = await world.open(1);
  assertEquals(small.entries(), []);
  assertEquals(await Deno.readTextFile(`${world.root}/outside/file`), "untouched");
});

// conformance: b2.cache.brief
Deno.test("without a lockfile there is no cache, and the brief says why", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const use = await cache.use({ ...request("a"), lockfiles: [] });
  assertEquals([use.participation, use.setup_mount, use.key_prefix], ["disabled: no lockfile", undefined, undefined]);
  assertEquals((await use.commit()).kept, false);
  await use.release();
});

// conformance: b2.profiles.cache
Deno.test("a profile that does not ask for the cache has none", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  assertEquals((await cache.use({ ...request("a"), enabled: false })).participation, "disabled");
  assertEquals(world.names("staging"), []);
});

// conformance: b2.effect.cache_quota_gb
Deno.test("a quota of 0 disables the cache also for who asks for it, and makes no file", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(0);
  const use = await cache.use(request("a"));
  assertEquals(use.participation, "disabled");
  await use.release();
  assertEquals(cache.entries(), []);
  await assertRejects(() => Deno.lstat(`${world.root}/cache`), Deno.errors.NotFound);
});

Deno.test("folders are 0700 and files of the cache's own 0600", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  await runTask(cache, request("a"));
  const entry = `cache/entries/${cache.entries()[0]!.key}`;
  for (const path of ["cache", "cache/entries", "cache/staging", "cache/trash", entry, `${entry}/deps`]) {
    assertEquals((await Deno.lstat(`${world.root}/${path}`)).mode! & 0o777, 0o700, path);
  }
  for (const path of ["cache/lock", `${entry}/entry.json`]) {
    assertEquals((await Deno.lstat(`${world.root}/${path}`)).mode! & 0o777, 0o600, path);
  }
});

// conformance: b2.effect.cache_quota_gb
Deno.test("the longest unused entry is evicted first, and only as many as are in the way", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(10);
  for (const repo of ["a", "b", "c"]) {
    world.clock.advance(1_000);
    await runTask(cache, request(repo), repo, 3);
  }
  world.clock.advance(1_000);
  assertEquals(await runTask(cache, request("a")), "hit");
  await runTask(cache, request("d"), "d", 3);
  assertEquals(cache.entries().map(({ repo }) => repo.slice(-1)), ["c", "a", "d"]);
});

Deno.test("attack: a clock that goes back does not make a new entry the oldest", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(4);
  await runTask(cache, request("a"), "a", 2);
  world.clock.jump(-86_400_000);
  await runTask(cache, request("b"), "b", 2);
  await runTask(cache, request("c"), "c", 2);
  assertEquals(cache.entries().map(({ repo }) => repo.slice(-1)), ["b", "c"]);
});

Deno.test("an entry in use is not evicted", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(4);
  const used = await setUp(cache, request("a"), "a", 3);
  const refused = await cache.use(request("b"));
  await fill(refused, "b", 3);
  const { kept, reason } = await refused.commit();
  assertEquals(kept, false);
  assertMatch(reason!, /^there is no room for its 12 KiB: other tasks use/);
  assertEquals([refused.setup_mount, refused.agent_mount], [undefined, undefined]);
  await refused.release();
  assertEquals(await Deno.readTextFile(`${used.agent_mount!.source}/file0`), "a");
  await used.release();
  await runTask(cache, request("b"), "b", 3);
  assertEquals(cache.entries().map(({ repo }) => repo.slice(-1)), ["b"]);
});

Deno.test("when there is no room, nothing is evicted needlessly", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(6);
  await runTask(cache, request("idle"), "x", 2);
  const used = await setUp(cache, request("used"), "x", 3);
  await runTask(cache, request("new"), "x", 4);
  assertEquals(cache.entries().map(({ repo }) => repo.split("/")[2]), ["idle", "used"]);
  await used.release();
});

Deno.test("one entry larger than the quota is not kept, and evicts nothing", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(4);
  await runTask(cache, request("a"), "x", 2);
  const use = await cache.use(request("b"));
  await fill(use, "x", 5);
  assertEquals(await use.commit(), { kept: false, reason: "it has 20 KiB, and all entries may have 16 KiB" });
  await use.release();
  assertEquals(cache.entries().map(({ repo }) => repo.slice(-1)), ["a"]);
  assertEquals(world.names("staging"), []);
});

Deno.test("a smaller quota evicts when the cache is opened", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(10);
  await runTask(cache, request("a"), "x", 3);
  await runTask(cache, request("b"), "x", 3);
  cache.close();
  const smaller = await world.open(4);
  assertEquals((smaller.entries()).map(({ repo, bytes }) => [repo.slice(-1), bytes]), [["b", 3 * BLOCK]]);
});

Deno.test("tasks with one key at the same time fill apart, and the first entry stands for all", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const uses = await Promise.all([1, 2, 3].map(() => cache.use(request("a"))));
  assertEquals(uses.map(({ participation }) => participation), ["miss", "miss", "miss"]);
  assertEquals(new Set(uses.map((use) => use.setup_mount!.source)).size, 3);
  await Promise.all(uses.map((use, index) => fill(use, String(index))));
  const commits = await Promise.all(uses.map((use) => use.commit()));
  assert(commits.every(({ kept }) => kept));
  assertEquals(new Set(uses.map((use) => use.agent_mount!.source)).size, 1);
  assertEquals(world.names("staging"), []);
  await Promise.all(uses.map((use) => use.release()));
  assertEquals(cache.entries().length, 1);
});

Deno.test("what a crash left is gone when the cache is opened again", async () => {
  await using world = await makeCacheWorld();
  const crashed = await world.open();
  await fill(await crashed.use(request("a")), "half");
  crashed.close();
  const opened = await world.open();
  assertEquals(world.names("staging"), []);
  assertEquals(opened.entries(), []);
});

Deno.test("a cache that another broker has is refused, and taken as soon as that ends", async () => {
  await using world = await makeCacheWorld();
  const first = await world.open();
  const second = world.clock.through(world.open(), 50);
  assertEquals((await assertRejects(() => second, TaskdError)).code, "broker_running");
  const third = world.open();
  await world.clock.sleeper(50);
  first.close();
  world.clock.advance(50);
  assertEquals((await third).entries(), []);
});

Deno.test("a damaged entry counts as absent: the task misses, and fills it again", async () => {
  for (
    const harm of [
      (entry: string) => Deno.remove(`${entry}/entry.json`),
      (entry: string) => Deno.writeTextFile(`${entry}/entry.json`, '{"version":1'),
      (entry: string) => Deno.remove(`${entry}/deps`, { recursive: true }),
      (entry: string) => Deno.remove(entry, { recursive: true }),
    ]
  ) {
    await using world = await makeCacheWorld();
    const cache = await world.open();
    await runTask(cache, request("a"), "old");
    await harm(`${world.root}/cache/entries/${cache.entries()[0]!.key}`);
    assertEquals(await runTask(cache, request("a"), "new"), "miss");
    const use = await cache.use(request("a"));
    assertEquals(await Deno.readTextFile(`${use.setup_mount!.source}/file0`), "new");
    await use.release();
  }
});

Deno.test("whatever else lies among the entries is removed when the cache is opened", async () => {
  await using world = await makeCacheWorld();
  (await world.open()).close();
  await Deno.writeTextFile(`${world.root}/cache/entries/file`, "x");
  await Deno.mkdir(`${world.root}/cache/entries/folder`);
  await Deno.symlink(world.root, `${world.root}/cache/staging/link`);
  await world.open();
  assertEquals([...world.names("entries"), ...world.names("staging"), ...world.names("trash")], []);
  assert((await Deno.stat(world.root)).isDirectory);
});

Deno.test("commit() and release() may be called again, in any order", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const use = await cache.use(request("a"));
  await Promise.all([use.commit(), use.commit(), use.release(), use.release()]);
  assertEquals((await use.commit()).kept, true);
  assertEquals(cache.entries().length, 1);
  const late = await cache.use(request("b"));
  await late.release();
  assertEquals(await late.commit(), { kept: false, reason: "it was released" });
});

Deno.test("a copy that is aborted leaves nothing and keeps the entry free", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open(1);
  await runTask(cache, request("a"));
  const signal = AbortSignal.abort(new TaskdError("interrupted", "killed"));
  await assertRejects(() => cache.use({ ...request("a"), signal }), TaskdError, "killed");
  assertEquals(world.names("staging"), []);
  await runTask(cache, request("b"));
  assertEquals(cache.entries().map(({ repo }) => repo.slice(-1)), ["b"]);
});

Deno.test("a closed cache says so, and what is released after it throws nothing", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const use = await cache.use(request("a"));
  cache.close();
  await use.release();
  const error = await assertRejects(() => cache.use(request("a")), TaskdError);
  assertEquals(error.code, "stopping");
});

Deno.test("the error of a cache_root that cannot be made names it", async () => {
  await using world = await makeCacheWorld();
  await Deno.writeTextFile(`${world.root}/cache`, "a file");
  const error = await assertRejects(() => world.open(), TaskdError);
  assertMatch(error.message, /^Cannot make the dependency cache .*\/cache: /);
});

// conformance: b2.effect.cache_quota_gb
Deno.test("the quota is in GiB, fractions included", () => {
  assertEquals(quotaBytes(20), 21_474_836_480);
  assertEquals(quotaBytes(0.5), 536_870_912);
  assertNotEquals(quotaBytes(20), 20_000_000_000);
});

Deno.test("permissions for the cache's own folder are enough, links and all", async () => {
  await using world = await makeCacheWorld();
  const cache = await world.open();
  const use = await cache.use(request("a"));
  await fill(use, "content");
  await Deno.symlink("file0", `${use.setup_mount!.source}/link`);
  await use.commit();
  await use.release();
  cache.close();
  const module = (path: string) => JSON.stringify(import.meta.resolve(path));
  await Deno.writeTextFile(
    `${world.root}/main.ts`,
    `import { DependencyCache } from ${module("../../../broker/cache/dependency_cache.ts")};
     import { systemClock } from ${module("../../../lib/clock.ts")};
     import { request } from ${module("./_cache.ts")};
     const cache = await DependencyCache.open({ cache_root: Deno.args[0]!, quota_bytes: 1e9, clock: systemClock });
     for (const repo of ["a", "b"]) {
       const use = await cache.use(request(repo));
       console.log(use.participation, await Deno.readTextFile(use.setup_mount!.source + "/link").catch(() => "-"));
       await Deno.writeTextFile(use.setup_mount!.source + "/more", "x");
       console.log((await use.commit()).kept);
       await use.release();
     }`,
  );
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      `--config=${new URL("../../../deno.json", import.meta.url).pathname}`,
      `--allow-read=${world.root}`,
      `--allow-write=${world.root}`,
      "--allow-run",
      `${world.root}/main.ts`,
      `${world.root}/cache`,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(
    new TextDecoder().decode(stdout),
    "hit content\ntrue\nmiss -\ntrue\n",
    new TextDecoder().decode(stderr),
  );
});
