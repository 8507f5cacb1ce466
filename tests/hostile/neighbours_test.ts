import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import type { ErrorCode } from "../../lib/errors.ts";
import { acquireDaemonLock, readDaemonInfo } from "../../lib/store/daemon_lock.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { filesBelow } from "../../lib/store/workspace.ts";
import { copyDirectory } from "../sim/template.ts";
import { Bench, type Operator } from "./_bench.ts";
import { longTest } from "../support/long.ts";

const main = parseAddress("app");
const one = parseAddress("app@main@one");

/** Every directory and file of its own that a local store writes to, except objects. */
const PLACES = [
  ".taskd",
  ".taskd/tmp",
  ".taskd/locks",
  ".taskd/locks/*",
  "checkouts",
  "checkouts/app",
  "checkouts/app/main.db-wal",
  "checkouts/app/main.db-shm",
  "checkouts/app/main.db-journal",
  "checkouts/app/main.db.sum",
  "checkouts/app/main.db.session",
  "checkouts/app/main.db.shadow",
  "checkouts-ro",
  "checkouts-ro/app",
  "checkouts-ro/app/main@one.db.last-used",
  "data",
  "gc",
  "holders",
  "refs",
  "refs/app",
  "tmp",
];

const OPERATIONS: [op: string, ...args: unknown[]][] = [
  ["branches"],
  ["status", main],
  ["checkout", main],
  ["checkout", one],
  ["checkpoint", main, "two"],
  ["fork", main, "third"],
  ["touch", main, {}],
  ["compact", main],
  ["collectGarbage", { grace_ms: 0 }],
  ["reapExpired"],
  ["enforceRoCacheBudget", { budget_bytes: 1 }],
  ["session_open", parseAddress("app@other")],
  ["destroy", main, { confirm: true }],
];

/** Codes that name such a place correctly. */
const REFUSALS: ErrorCode[] = ["denied", "dirty", "not_found", "chain_gap", "gc_failed", "not_a_store"];

async function mkfifo(path: string): Promise<void> {
  const { success } = await new Deno.Command("mkfifo", { args: [path] }).output();
  assert(success);
}

async function prepared(): Promise<Bench> {
  const bench = await Bench.make();
  const operator = bench.operator();
  await operator.ok("create", "app", { from: await bench.database() });
  await operator.ok("checkpoint", main, "one");
  await operator.ok("fork", main, "other");
  await operator.ok("checkout", main);
  await operator.ok("checkout", one);
  await operator.ok("collectGarbage", { grace_ms: 0 });
  await operator.end();
  return bench;
}

/** All files below a directory (or the one file), with their content and times. */
function photograph(path: string): string[] {
  const files = Deno.lstatSync(path).isDirectory ? [...filesBelow(path, 5)] : [path];
  return files.sort().map((file) =>
    `${file} ${Deno.lstatSync(file).mtime!.getTime()} ${Deno.readFileSync(file).toHex()}`
  );
}

/** Runs everything; each operation answers, and succeeds or names the obstacle. */
async function mistreat(operator: Operator): Promise<void> {
  for (const [op, ...args] of OPERATIONS) {
    const answer = await operator.run(op, ...args);
    assert(answer !== undefined, `${op} hung or died`);
    assert(answer.ok || (REFUSALS as string[]).includes(answer.code), `${op}: ${JSON.stringify(answer)}`);
  }
}

/** Runs `work` on a copy of the bench's store for each place, `put` in its stead. */
async function atEachPlace(
  t: Deno.TestContext,
  put: (path: string, was: string | undefined) => Promise<unknown>,
  verify: () => void = () => {},
): Promise<void> {
  await using bench = await prepared();
  await copyDirectory(bench.location, `${bench.directory}/kept`);
  for (const place of PLACES) {
    await t.step(place, async () => {
      await Deno.remove(bench.location, { recursive: true });
      await copyDirectory(`${bench.directory}/kept`, bench.location);
      const paths = place.endsWith("*")
        ? Array.from({ length: 64 }, (_, index) => place.replace("*", index.toString(16).padStart(2, "0")))
        : [place];
      for (const path of paths.map((path) => `${bench.location}/${path}`)) {
        const away = `${bench.directory}/away`;
        await Deno.remove(away, { recursive: true }).catch(() => {});
        await Deno.mkdir(dirname(path), { recursive: true });
        const was = await Deno.rename(path, away).then(() => away, () => undefined);
        await put(path, was);
      }
      const operator = bench.operator();
      await mistreat(operator);
      await operator.end();
      verify();
    });
  }
}

longTest(
  "a link in place of a file the store writes is never followed",
  async (t) => {
    const outside = await Deno.makeTempDir({ prefix: "outside-" });
    try {
      let before: string[] = [];
      await atEachPlace(t, async (path, was) => {
        const target = `${outside}/target`;
        const is_directory = was !== undefined && (await Deno.lstat(was)).isDirectory;
        if (!path.includes("/locks/") || before.length === 0) {
          await Deno.remove(target, { recursive: true }).catch(() => {});
          if (is_directory) {
            await copyDirectory(was, target);
            // Old, and named as the store names what it sweeps.
            for (const name of ["precious", ".0123456789abcdef.tmp", "tmp/precious"]) {
              await Deno.mkdir(dirname(`${target}/${name}`), { recursive: true });
              await Deno.writeTextFile(`${target}/${name}`, "mine");
              await Deno.utime(`${target}/${name}`, 1, 1);
            }
          } else {
            await Deno.writeTextFile(target, "mine");
            await Deno.utime(target, 1, 1);
          }
          before = photograph(target);
        }
        await Deno.symlink(target, path);
      }, () => {
        assertEquals(photograph(`${outside}/target`), before);
        before = [];
      });
    } finally {
      await Deno.remove(outside, { recursive: true });
    }
  },
);

longTest("a FIFO in place of anything the store writes stops no operation", async (t) => {
  await atEachPlace(t, mkfifo);
});

Deno.test("create from a database whose journal is a FIFO is refused, not waited for", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  for (const suffix of ["-journal", "-wal"]) {
    const path = await bench.database();
    await mkfifo(path + suffix);
    await operator.fails("denied", "create", "app", { from: path });
  }
  await operator.end();
});

Deno.test("a daemon's lock that is a link or a FIFO is refused, and its target is not written to", async () => {
  const directory = await Deno.makeTempDir({ prefix: "lock-" });
  try {
    const lock = `${directory}/daemon.lock`;
    const target = `${directory}/target`;
    await Deno.writeTextFile(target, "mine");
    const code = (work: Promise<unknown>) => work.then(() => "ok", (error) => error.code as string);
    await Deno.symlink(target, lock);
    assertEquals(await code(acquireDaemonLock(directory)), "denied");
    await Deno.remove(lock);
    await Deno.symlink(`${target}-none`, lock);
    assertEquals(await code(acquireDaemonLock(directory)), "denied");
    await Deno.remove(lock);
    await mkfifo(lock);
    assertEquals(await code(acquireDaemonLock(directory)), "denied");
    assertEquals(await code(readDaemonInfo(directory)), "denied");
    assertEquals(await Deno.readTextFile(target), "mine");
    assertEquals([...Deno.readDirSync(directory)].map(({ name }) => name).sort(), ["daemon.lock", "target"]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
