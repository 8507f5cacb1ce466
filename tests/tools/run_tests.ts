/**
 * Runs the tests, twice as many files at a time as there are cores: most of their time they wait for programs, servers
 * and disks. Those of containers come after the others. Of all tests, what failed is repeated once at the end.
 * With `--long` the long forms alone: every file that has some, and of each only those.
 *
 * Types are not checked again: that is a gate of its own, `deno task ok`.
 *
 * The default suite keeps its temporary files in memory where it may: what programs do there is the same, and neither
 * a disk's flushes nor its search for an inode that was not freed just now costs time. The long forms use the disk.
 *
 *     deno task test                 # all tests; arguments go to `deno test`
 *     deno task test lib/sqlite      # those of a folder or a file
 *     deno task test:long            # all long forms
 *     deno task test:long tests/s3   # those of a folder or a file
 *     deno task test:long --longest lib/store/repair_test.ts   # with numbers that take more than an hour
 */

import { existsSync } from "node:fs";
import { dirname } from "node:path/posix";
import { pathToFileURL } from "node:url";
import { runTests, type TestPass, type TestProcess } from "./_test_processes.ts";
import { leftovers, machineState } from "./_leftovers.ts";
import { LONG_MARK, LONG_VARIABLE, LONGEST_VALUE } from "../support/long.ts";

/** Where tests are. */
const PLACES = ["tests", "broker", "cli", "daemon", "lib"];
/** Few enough for all cores to be busy to the end. */
const FILES_PER_GROUP = 12;
const ROOT = new URL("../../", import.meta.url).pathname;
const in_house = Deno.env.get("TASKD_HOUSE") === "1";
/** Beyond it something is wrong that a repetition hides. */
const MAX_FLAKY = 8;
/** The memory in bytes that must be available: what tests that run at a time fill, several times over. */
const ENOUGH_MEMORY = 8 * 2 ** 30;
/** How a file names the module that defines long tests, and the one of containers. */
const IMPORTS_LONG = /from "[./\w]*\/long\.ts"/;
const IMPORTS_PODMAN = /from "[./\w]*\/podman\.ts"/;
/** Rooms whose tests ask a package registry. */
const ASK_REGISTRY = ["tests/docs", "tests/package"];
/** What tests start as programs, each with its packages, which its group has no network to get. */
const STARTED = ["cli/main.ts", "tests/broker_types/main.ts", "tests/broker/gateway/clients/main.ts"];
/**
 * Runs a command with a network of its own, in a house: loopback, and an address as a network card has it (of TEST-NET-1,
 * RFC 5737). Its bridges, firewall rules and ports are no one else's, and end with it.
 */
const OWN_NETWORK = [
  ...["unshare", "--net", "bash", "-c"],
  "ip link set lo up && ip link add lan0 type veth peer name lan1 && ip addr add 192.0.2.1/24 dev lan0 && " +
  'ip link set lan0 up && ip link set lan1 up && exec "$@"',
  "network",
];
const IMPORTS = /from "(\.{1,2}\/[^"]+)"/g;

interface TestRun {
  passes: TestPass[];
  /** See {@linkcode TestRunOptions.max_flaky}. */
  max_flaky?: number;
  /** Of each `deno test`. */
  args: string[];
  env: Record<string, string>;
}

function* testFiles(path: string): Generator<string> {
  if (Deno.statSync(path).isFile) return yield path;
  for (const { name, isDirectory } of Deno.readDirSync(path)) {
    if (isDirectory ? !name.startsWith(".") : name.endsWith("_test.ts")) yield* testFiles(`${path}/${name}`);
  }
}

/** A module's text; empty for a specifier that only stands in the text of a test. */
function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** Whether a file of tests, or a suite that it calls, imports what the pattern names. */
function imports(pattern: RegExp, file: string): boolean {
  const text = textOf(file);
  if (pattern.test(text)) return true;
  const folder = new URL(".", `file://${file}`);
  return Array.from(text.matchAll(IMPORTS), ([, specifier]) => new URL(specifier!, folder).pathname)
    .some((path) => path.startsWith(`${ROOT}tests/`) && pattern.test(textOf(path)));
}

/** Long forms compute more than they wait: as many at a time as there are cores. */
function longRun(words: readonly string[], jobs: number): TestRun {
  const named = words.filter((word) => word !== "--longest");
  const places = named.length > 0 ? named : PLACES;
  const files = places.flatMap((place) => [...testFiles(`${ROOT}${place}`)]).filter((file) =>
    imports(IMPORTS_LONG, file)
  );
  const mark = `/${LONG_MARK.replace(/[()]/g, "\\$&")}/`;
  return {
    passes: [{ processes: files.map((file) => ({ name: file.slice(ROOT.length), modules: [file] })), jobs }],
    args: ["--filter", mark],
    env: { [LONG_VARIABLE]: named.length < words.length ? LONGEST_VALUE : "1" },
  };
}

/**
 * Mounts a folder in memory for temporary files; undefined where the environment names one, or that needs more rights
 * or memory. Not in /dev/shm: below /dev Deno gives no permission but all of them.
 */
async function folderInMemory(): Promise<string | undefined> {
  if (Deno.env.has("TMPDIR") || Deno.systemMemoryInfo().available < ENOUGH_MEMORY) return undefined;
  const folder = await Deno.makeTempDir({ prefix: "t-" });
  if (await succeeds("mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", folder)) return folder;
  await Deno.remove(folder);
}

async function succeeds(program: string, ...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args, stdout: "null", stderr: "null" }).output()).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Brings the packages of what tests start, where they are not there yet. */
async function fetchPackages(): Promise<void> {
  for (const path of STARTED) {
    const own = `${ROOT}${dirname(path)}/deno.json`;
    const config = existsSync(own) ? own : `${ROOT}deno.json`;
    await succeeds(Deno.execPath(), "cache", "--config", config, `${ROOT}${path}`);
  }
  // What the lock file names is looked up when it is needed, once.
  await succeeds(Deno.execPath(), "run", "-A", `${ROOT}cli/main.ts`, "version");
}

/** Examples in comments and pages are tests of their own. */
function* withExamples(path: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(path)) {
    const file = `${path}/${name}`;
    if (isDirectory) yield* withExamples(file);
    else if (/(?<!_test)\.(?:ts|mts|md)$/.test(name) && /^(?: \* )?```ts/m.test(textOf(file))) yield file;
  }
}

/**
 * Modules, in `folder`, each of which imports some of these test files of one folder. Tests run one after the other in a
 * module, which loads and compiles the program once for all of them: that is a fifth of the suite's time.
 */
function grouped(name: string, tests: readonly string[], folder: string): TestProcess[] {
  const groups = Map.groupBy(tests, (file) => dirname(file));
  return [...groups].flatMap(([place, files]) => {
    const group = `${place.slice(ROOT.length)}${name}`;
    const count = Math.ceil(files.length / FILES_PER_GROUP);
    return Array.from({ length: count }, (_, number) => {
      const path = `${folder}/${group.replaceAll(/\W/g, "_")}_${number}_test.ts`;
      const members = files.filter((_, index) => index % count === number);
      Deno.writeTextFileSync(path, members.map((file) => `import "${pathToFileURL(file)}";\n`).join(""));
      const asks = ASK_REGISTRY.some((room) => group.startsWith(room));
      const within = in_house && !asks ? OWN_NETWORK : [];
      return { name: `${group} ${number}`, modules: [path], files: members, within };
    });
  });
}

/** What was named, or all: those that wait for others first, so that none of them is left for the end. */
function defaultRun(words: readonly string[], folder: string, jobs: number): TestRun {
  const args = words.filter((word) => word.startsWith("-"));
  // In one process, so that also what one file does is shown as `deno test` shows it.
  if (args.length < words.length) {
    const processes = [{ name: "tests", modules: [] }];
    return { passes: [{ processes, jobs: 1 }], args: ["--doc", ...words], env: { DENO_JOBS: `${jobs}` } };
  }
  const documented = [...PLACES.slice(1), "docs"].flatMap((place) => [...withExamples(`${ROOT}${place}`)]);
  const examples = { name: "examples", modules: [...documented, `${ROOT}mod.ts`] };
  const files = PLACES.flatMap((place) => [...testFiles(`${ROOT}${place}`)]);
  const [containers, others] = [true, false].map((are) =>
    files.filter((file) => imports(IMPORTS_PODMAN, file) === are)
  );
  return {
    passes: [
      { processes: [...grouped("", others!, folder), examples], jobs },
      { processes: grouped(" in containers", containers!, folder), jobs: Math.ceil(jobs / 2) },
    ],
    max_flaky: MAX_FLAKY,
    args: ["--doc", ...args],
    env: {},
  };
}

const [first, ...rest] = Deno.args;
const long = first === "--long";
const folder = long ? undefined : await folderInMemory();
const groups = await Deno.makeTempDir({ prefix: "t-" });
const stop = new AbortController();
// An interrupt ends the tests; what is mounted goes after them.
for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => stop.abort());
const jobs = Number(Deno.env.get("DENO_JOBS") ?? navigator.hardwareConcurrency * (long ? 1 : 2));
const { passes, env, ...run } = long ? longRun(rest, jobs) : defaultRun(Deno.args, groups, jobs);
if (in_house) await fetchPackages();
const before = in_house ? machineState() : undefined;
const passed = await runTests(passes, {
  ...run,
  env: { ...env, ...(folder === undefined ? {} : { TMPDIR: folder }) },
  cwd: ROOT,
  signal: stop.signal,
  atEnd: () => before === undefined ? [] : leftovers(before).map((line) => `left behind: ${line}`),
  print: (line) => console.log(line),
});
await Deno.remove(groups, { recursive: true });
// What a test left running may hold a file in it.
if (folder !== undefined && await succeeds("umount", "--lazy", folder)) await Deno.remove(folder);
Deno.exit(passed ? 0 : 1);
