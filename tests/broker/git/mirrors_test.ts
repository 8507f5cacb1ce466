import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { TaskdError } from "../../../lib/errors.ts";
import { systemClock } from "../../../lib/clock.ts";
import type { MirrorOptions } from "../../../broker/git/mirrors.ts";
import type { StagedRepository } from "../../../broker/git/staged_repository.ts";
import { listProcesses, type RunningProcess } from "../../../broker/sandbox/processes.ts";
import { longTest, scaled, scaledTest, shortened } from "../../support/long.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { until } from "../engine/bench.ts";
import { GitBench, openMirrors, plainGit, writeFiles } from "./bench.ts";
import { type Fault, serveGit } from "./git_server.ts";

const NOISE = crypto.getRandomValues(new Uint8Array(50_000));

/** A bench whose tasks are staged through mirrors, and what these warn of. */
async function mirrored(options: Partial<MirrorOptions> = {}) {
  const bench = await GitBench.start({ files: { "README.md": "# app\n", "big.bin": NOISE } });
  const root = join(bench.root, "mirrors");
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const mirrors = bench.mirrors = openMirrors(root, { onWarning, ...options });
  return { bench, root, mirrors, warnings, [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose]() };
}

/** Commits a file to main of the origin; returns the commit. */
async function advance(bench: GitBench, name: string): Promise<string> {
  const seed = join(bench.root, "seed");
  await writeFiles(seed, { [name]: `${name}\n` });
  await plainGit(seed, "add", "-A");
  await plainGit(seed, "commit", "--quiet", "-m", name);
  await plainGit(seed, "push", "--quiet", "--force", bench.origin, "HEAD:main");
  return await plainGit(seed, "rev-parse", "HEAD");
}

/** The files of a folder and of those below it. */
function files(path: string): string[] {
  return [...Deno.readDirSync(path)].flatMap(({ name, isDirectory }) =>
    isDirectory ? files(join(path, name)) : join(path, name)
  );
}

function mirrorsIn(root: string): string[] {
  return [...Deno.readDirSync(root)].filter(({ isDirectory }) => isDirectory).map(({ name }) => name);
}

function mirrorOf(root: string): string {
  const [key] = mirrorsIn(root);
  assert(key !== undefined, "there is no mirror");
  return join(root, key);
}

async function assertWhole({ git_dir, work_tree, base_commit }: StagedRepository, tip: string): Promise<void> {
  assertEquals(base_commit, tip);
  await plainGit(git_dir, "--git-dir", git_dir, "fsck", "--full", "--strict");
  assertEquals(await Deno.readFile(join(work_tree, "big.bin")), NOISE);
  assertEquals(await plainGit(git_dir, "--git-dir", git_dir, "for-each-ref", "--format=%(refname)"), "refs/taskd/base");
}

Deno.test("the second task of a repository fetches what is new alone, and each is whole by itself", async () => {
  await using site = await mirrored();
  const { bench, root } = site;
  const first = await bench.stage();
  const tip = await advance(bench, "two.txt");
  const second = await bench.stage();
  const packs = files(join(mirrorOf(root), "objects/pack")).filter((path) => path.endsWith(".pack"));
  const sizes = packs.map((path) => Deno.statSync(path).size).sort((a, b) => a - b);
  assert(sizes.length === 2 && sizes[0]! < 5_000 && sizes[1]! > NOISE.length, sizes.join());
  // A branch that was forced back, which the mirror has.
  await plainGit(bench.origin, "update-ref", "refs/heads/main", first.base_commit);
  const third = await bench.stage();
  await Deno.remove(root, { recursive: true });
  await assertWhole(first, first.base_commit);
  await assertWhole(second, tip);
  await assertWhole(third, first.base_commit);
  assertEquals(site.warnings, []);
});

Deno.test("a mirror has no credentials, no address to fetch from, and nothing that a task writes", async () => {
  await using site = await mirrored();
  const { git_dir, work_tree } = await site.bench.stage();
  const mirror = mirrorOf(site.root);
  const content = () => files(mirror).map((path) => [path, Deno.readFileSync(path), Deno.statSync(path).mode]);
  const before = content();
  assertEquals(await Deno.readTextFile(join(mirror, "config")), await Deno.readTextFile(join(git_dir, "config")));
  assertEquals(files(mirror).some((path) => /FETCH_HEAD|hooks/.test(path)), false);
  assertEquals(files(git_dir).some((path) => path === join(git_dir, "objects/info/alternates")), false);
  await writeFiles(work_tree, { "new.txt": "new\n" });
  const task = ["--git-dir", git_dir, "--work-tree", work_tree];
  await plainGit(work_tree, ...task, "add", "-A");
  await plainGit(work_tree, ...task, "commit", "--quiet", "-m", "by the task");
  await plainGit(work_tree, ...task, "repack", "-a", "-d", "--quiet");
  assertEquals(content(), before);
  const shared = new Set(files(mirror).map((path) => Deno.statSync(path).ino));
  assertEquals(files(work_tree).filter((path) => shared.has(Deno.statSync(path).ino)), []);
});

scaledTest("a mirror in any state stages the task all the same, and what is broken is made anew", async () => {
  await using site = await mirrored();
  const { bench, root } = site;
  await bench.stage();
  const packOf = (suffix: string) => files(join(mirrorOf(root), "objects/pack")).find((path) => path.endsWith(suffix))!;
  const overwrite = async (path: string, bytes: Uint8Array) => {
    await Deno.remove(path);
    await Deno.writeFile(path, bytes);
  };
  const flipped = async (path: string) => {
    const bytes = await Deno.readFile(path);
    bytes[bytes.length >> 1]! ^= 0xff;
    await overwrite(path, bytes);
  };
  const damages: Record<string, () => Promise<unknown>> = {
    "a bit of a pack": () => flipped(packOf(".pack")),
    "half a pack": async () =>
      await overwrite(packOf(".pack"), (await Deno.readFile(packOf(".pack"))).slice(0, 30_000)),
    "no pack": () => Deno.remove(packOf(".pack")),
    "a bit of an index": () => flipped(packOf(".idx")),
    "no index": () => Deno.remove(packOf(".idx")),
    "half made": () => Deno.remove(join(mirrorOf(root), "HEAD")),
    "empty": async () => {
      const path = mirrorOf(root);
      await Deno.remove(path, { recursive: true });
      await Deno.mkdir(path);
    },
    "a file in its place": async () => {
      const path = mirrorOf(root);
      await Deno.remove(path, { recursive: true });
      await Deno.writeTextFile(path, "");
    },
    "shallow commits forgotten": async () => {
      await advance(bench, "before-forgotten");
      await Deno.writeTextFile(join(mirrorOf(root), "shallow"), "");
    },
    "a killed fetch": () => Deno.writeFile(join(mirrorOf(root), "objects/pack/tmp_pack_x"), NOISE),
    "a killed removal": async () => {
      const path = mirrorOf(root);
      await Deno.mkdir(`${path}.gone`);
      await Deno.rename(path, `${path}.gone/half`);
    },
  };
  for (const [name, damage] of shortened(Object.entries(damages), 4)) {
    await damage();
    const tip = await advance(bench, name);
    await assertWhole(await bench.stage(), tip).catch((error) => {
      throw new Error(`after ${name}`, { cause: error });
    });
    // What was broken is gone: the next task has a mirror that works.
    const { length } = site.warnings;
    await bench.stage();
    assertEquals(site.warnings.slice(length), [], name);
    assertEquals(files(root).some((path) => /tmp_|\.gone/.test(path)), false, name);
  }
});

Deno.test("a code host that refuses is heard: nothing is staged from a mirror alone", async () => {
  await using site = await mirrored();
  const { bench } = site;
  const { base_commit } = await bench.stage();
  await Deno.rename(bench.origin, `${bench.origin}.away`);
  for (const base of [undefined, "main", base_commit]) {
    await assertRejects(() => bench.stage(base));
  }
  await Deno.rename(`${bench.origin}.away`, bench.origin);
  const { length } = site.warnings;
  assertEquals((await bench.stage()).base_commit, base_commit);
  assertEquals([site.warnings.length, length], [0, 0]);
});

Deno.test("tasks that begin at once from a repository wait for each other, and all are whole", async () => {
  await using site = await mirrored();
  const { bench } = site;
  const tip = await plainGit(bench.origin, "rev-parse", "main");
  await Promise.all(Array.from({ length: 5 }, async () => await assertWhole(await bench.stage(), tip)));
  assertEquals(site.warnings, []);
  const packs = files(join(mirrorOf(site.root), "objects/pack")).filter((path) => path.endsWith(".pack"));
  // That of a fetch which brings nothing is empty.
  assertEquals(packs.filter((path) => Deno.statSync(path).size > 100).length, 1);
});

Deno.test("beyond the quota the longest unused mirror goes; pruning takes those unused since", async () => {
  let now_ms = 1e12;
  await using site = await mirrored({ quota_bytes: 130_000, clock: { ...systemClock, now: () => now_ms } });
  const { bench, mirrors, root } = site;
  const { origin } = bench;
  const names: string[] = [];
  for (const name of ["a", "b", "c"]) {
    await plainGit(bench.root, "clone", "--quiet", "--bare", origin, `${name}.git`);
    bench.origin = join(bench.root, `${name}.git`);
    names.push(`file://${join(bench.root, name)}.git`);
    now_ms += 1_000;
    await bench.stage();
  }
  const prune = async (before_ms: number, dry_run = false) =>
    (await mirrors.prune({ before_ms, dry_run })).map(({ repo }) => repo.replace(/(\.git)?$/, ".git"));
  assertEquals(await prune(now_ms + 1, true), names.slice(1));
  assertEquals(await prune(now_ms), [names[1]]);
  assertEquals(await prune(now_ms + 1), [names[2]]);
  assertEquals([await prune(Infinity), [...Deno.readDirSync(root)]], [[], []]);
});

Deno.test("a mirror of a hundred packs is made anew", async () => {
  await using site = await mirrored();
  const { bench, root } = site;
  await bench.stage();
  const packs = join(mirrorOf(root), "objects/pack");
  const before = Deno.statSync(mirrorOf(root)).ino;
  for (let at = 0; at < 100; at++) await Deno.writeTextFile(join(packs, `pack-${at}.idx`), "");
  const tip = await advance(bench, "x");
  await assertWhole(await bench.stage(), tip);
  assertEquals(files(join(mirrorOf(root), "objects/pack")).filter((path) => path.endsWith(".idx")).length, 1);
  assertNotEquals(Deno.statSync(packs).ino, before);
});

Deno.test("a fetch that was killed over any of git's locks: the mirror is used again as it is", async () => {
  await using site = await mirrored();
  const { bench, root } = site;
  await bench.stage();
  const mirror = mirrorOf(root);
  const { ino } = Deno.statSync(mirror);
  const tip = await advance(bench, "locked");
  const locks = ["shallow", "packed-refs", "config", "HEAD", `refs/taskd/tips/${tip}`, "objects/info/commit-graph"];
  await Deno.mkdir(join(mirror, "objects/tmp_objdir-bulk-fsync-x/pack"), { recursive: true });
  await writeFiles(mirror, Object.fromEntries(locks.map((path) => [`${path}.lock`, ""])));
  await assertWhole(await bench.stage(), tip);
  assertEquals([site.warnings, Deno.statSync(mirror).ino], [[], ino]);
  assertEquals(files(mirror).filter((path) => /tmp_|\.lock$/.test(path)), []);
});

Deno.test("calls of git that do not end, or cannot be looked for, keep tasks from the mirror alone", async () => {
  const none = () => Promise.reject(new TaskdError("sandbox_failed", "Cannot list the running processes"));
  for (const endProcesses of [() => Promise.resolve(false), none]) {
    await using site = await mirrored({ endProcesses });
    await assertWhole(await site.bench.stage(), await plainGit(site.bench.origin, "rev-parse", "main"));
    assertEquals(mirrorsIn(site.root), []);
    assert(site.warnings.length > 0);
  }
});

/** A broker's part that stages through the mirrors, in a process of its own; resolves once it has begun. */
function beginStaging({ bench, root }: Awaited<ReturnType<typeof mirrored>>, name: string) {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", new URL("./_mirror_main.ts", import.meta.url).pathname],
      ...[root, bench.origin, join(bench.root, name)],
    ],
    stdout: "piped",
  }).spawn();
  const said = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "\n";
  return {
    /** Waits until it begins such a command of git. */
    async begins(command: string): Promise<void> {
      while (!text.includes(`\n${command}\n`)) {
        const { done, value } = await said.read();
        assert(!done, "it ended");
        text += value;
      }
    },
    async kill(): Promise<void> {
      child.kill("SIGKILL");
      await Promise.all([child.status, said.cancel()]);
    },
  };
}

/** Calls of git that work in a mirror. */
async function inMirrors(root: string): Promise<RunningProcess[]> {
  const own = [`--git-dir=${root}/`, `--shallow-file ${root}/`];
  return (await listProcesses()).filter(({ command_line }) => own.some((part) => command_line.includes(part)));
}

/** A call of git has a group of its own, with the helpers that write. */
function killGroup(group: number): void {
  try {
    Deno.kill(-group, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

longTest("a broker killed in a fetch: the next one ends that fetch before it touches the mirror", async () => {
  for (const helper_alone of [false, true]) {
    await using site = await mirrored();
    const { bench, root, warnings } = site;
    let fault: Fault = "half";
    await using server = await serveGit(bench.root, () => fault);
    await writeFiles(join(bench.root, "seed"), { "large.bin": new SeededRandom(1).bytes(1_000_000) });
    const tip = await advance(bench, "large");
    await plainGit(bench.origin, "branch", "other", "main~1");
    bench.origin = `${server.origin}/acme/app.git`;
    const writers = async () =>
      (await inMirrors(root)).filter(({ command_line }) => / --shallow-file \S*\/mirrors\//.test(command_line));
    const broker = beginStaging(site, "killed");
    await broker.begins("fetch");
    await until(async () => (await writers()).length > 0);
    await broker.kill();
    if (helper_alone) {
      // Stopped, it does not see its input end.
      for (const { pid } of await writers()) Deno.kill(pid, "SIGSTOP");
      for (const { pid, group } of await inMirrors(root)) if (pid === group) Deno.kill(pid, "SIGKILL");
      await until(async () => (await inMirrors(root)).every(({ pid, group }) => pid !== group));
    }
    assert((await writers()).length > 0, "nothing outlived the broker");
    fault = "pass";
    const left: string[] = [];
    const tryRun = bench.git.tryRun.bind(bench.git);
    bench.git.tryRun = async (args, options) => {
      if (args.includes("fetch")) left.push(...(await inMirrors(root)).map(({ command_line }) => command_line));
      return await tryRun(args, options);
    };
    await assertWhole(await bench.stage(), tip);
    assertEquals([left, await inMirrors(root), warnings], [[], [], []]);
  }
});

scaledTest("a broker killed at any moment over a mirror: the next tasks are whole, no lock stays", async () => {
  await using site = await mirrored();
  const { bench, root } = site;
  const random = new SeededRandom(7);
  await plainGit(bench.origin, "branch", "other", "main");
  /** Calls of git that outlive who began them. */
  const calls = async () => (await listProcesses()).filter(({ command_line }) => command_line.includes(bench.origin));
  const rounds = scaled({ short: 2, long: 24, longest: 1_000 });
  let met_fetch = 0;
  for (let round = 0; round < rounds; round++) {
    // Anew for each round: a fetch of what the mirror has is over at once.
    await writeFiles(join(bench.root, "seed"), { "large.bin": random.bytes(2_000_000) });
    await advance(bench, `${round}`);
    const broker = beginStaging(site, `killed${round}`);
    // Most often in its fetch; else in what it does with what it has fetched, or as it removes it.
    const phase = round % 2 === 0 ? "fetch" : random.pick(["fetch", "count-objects", "read-tree", "checkout-index"]);
    await broker.begins(phase);
    if (phase === "fetch") await until(async () => (await inMirrors(root)).length > 0);
    await systemClock.sleep(random.between(0, 50));
    await broker.kill();
    const left = await calls();
    if (left.some(({ command_line }) => command_line.includes(" fetch "))) met_fetch++;
    // As a service manager ends them, or they go on.
    if (random.chance(0.5)) new Set(left.map(({ group }) => group)).forEach(killGroup);
    const where = `round ${round}`;
    const tip = await advance(bench, where);
    const whole = async () => {
      const staged = await bench.stage();
      await assertWhole(staged, tip).catch((error) => {
        throw new Error(where, { cause: error });
      });
      await Deno.remove(join(staged.git_dir, ".."), { recursive: true });
    };
    await whole();
    // Of what was killed nothing goes on, and a mirror that it has broken is made anew.
    assertEquals(await inMirrors(root), [], where);
    const { length } = site.warnings;
    await whole();
    assertEquals(site.warnings.slice(length), [], where);
    assertEquals(
      files(root).filter((path) => /tmp_|\.gone|[^0-9a-f]\w*\.lock$/.test(path.slice(root.length + 1))),
      [],
      where,
    );
  }
  if (rounds >= 20) assert(met_fetch * 3 > rounds, `of ${rounds} kills ${met_fetch} met a fetch`);
});
