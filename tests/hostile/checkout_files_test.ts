import { assert, assertEquals } from "@std/assert";
import type { ErrorCode } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { openStore } from "../../lib/store/open.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { sqlite3Write } from "../support/writers/oracle.ts";
import { Writer } from "../support/writers.ts";
import { Bench, contentOf } from "./_bench.ts";
import { longTest } from "../support/long.ts";

const main = parseAddress("app");
const noXfs = await whyNotMountable("xfs");

/** What an operation may say about a checkout that is not a plain database file. */
const STRANGE: ErrorCode[] = ["not_a_database", "corrupt", "denied", "dirty", "not_found", "busy", "already_exists"];

/** Something put where the checkout was. */
const OBSTACLES: Record<string, (path: string, bench: Bench) => Promise<unknown>> = {
  "a link to another database": async (path, bench) => Deno.symlink(await bench.database(), path),
  "a dangling link": (path) => Deno.symlink("/nowhere/at/all", path),
  "a FIFO": mkfifo,
  "a directory": (path) => Deno.mkdir(path),
  "a full directory": async (path) => {
    await Deno.mkdir(path);
    await Deno.writeTextFile(`${path}/precious`, "mine");
  },
  "text": (path) => Deno.writeTextFile(path, "hello\n".repeat(1000)),
  "an empty file": (path) => Deno.writeFile(path, new Uint8Array(0)),
};

async function mkfifo(path: string): Promise<void> {
  const { success } = await new Deno.Command("mkfifo", { args: [path] }).output();
  assert(success);
}

async function bench(): Promise<{ bench: Bench; checkout: string }> {
  const bench = await Bench.make();
  const operator = bench.operator();
  await operator.ok("create", "app", { from: await bench.database() });
  await operator.ok("fork", main, "other");
  const { path } = await operator.ok("checkout", main);
  await bench.expect(operator, "app@main");
  await bench.expect(operator, "app@other");
  await operator.end();
  return { bench, checkout: String(path) };
}

/** Runs `op`; it may succeed, or fail with one of the codes, but it answers. */
async function survives(bench: Bench, op: string, ...args: unknown[]): Promise<string> {
  const operator = bench.operator();
  const answer = await operator.run(op, ...(op === "branches" ? [] : args));
  assert(answer !== undefined, `${op} hung or died`);
  if (!answer.ok) assert((STRANGE as string[]).includes(answer.code), `${op}: ${answer.code}: ${answer.message}`);
  await operator.end();
  return answer.ok ? "ok" : answer.code;
}

longTest("something else in the checkout's place is never written through, taken over or captured", async (t) => {
  const { bench: store, checkout } = await bench();
  await using _ = store;
  for (const [name, put] of Object.entries(OBSTACLES)) {
    await t.step(name, async () => {
      for (const op of ["checkpoint", "session_open", "checkout", "status", "branches"]) {
        await Deno.rename(checkout, `${checkout}.away`);
        await put(checkout, store);
        const target = await linkTarget(checkout);
        const before = target && contentOf(target);
        const outcome = await survives(
          store,
          op,
          main,
          ...(op === "checkpoint" ? ["never"] : []),
        );
        assert(op !== "checkpoint" || outcome !== "ok", "a checkpoint captured it");
        assert(op !== "session_open" || outcome !== "ok", "a session opened on it");
        if (target) assertEquals(contentOf(target), before, "the link's target was changed");
        await Deno.remove(checkout, { recursive: true }).catch(() => {});
        await Deno.rename(`${checkout}.away`, checkout);
      }
    });
  }
  await store.audit();
});

longTest("checkout --force replaces a strange file by the branch's content", async (t) => {
  const { bench: store, checkout } = await bench();
  await using _ = store;
  for (const [name, put] of Object.entries(OBSTACLES)) {
    if (name === "a full directory") continue;
    await t.step(name, async () => {
      await Deno.remove(checkout, { recursive: true });
      await put(checkout, store);
      const target = await linkTarget(checkout);
      const before = target && contentOf(target);
      if (await survives(store, "checkout", main, { force: true }) === "ok") {
        assert((await Deno.lstat(checkout)).isFile, "it is still there");
        assertEquals(contentOf(checkout), store.expected.get("app@main"));
      } else {
        await Deno.remove(checkout, { recursive: true });
        assertEquals(await survives(store, "checkout", main), "ok");
      }
      if (target) assertEquals(contentOf(target), before, "the link's target was changed");
    });
  }
  await store.audit();
});

async function linkTarget(path: string): Promise<string | undefined> {
  if (!(await Deno.lstat(path)).isSymlink) return undefined;
  const target = await Deno.readLink(path);
  return await Deno.stat(target).then(() => target, () => undefined);
}

longTest("a spoilt or missing sidecar costs time, never content", async (t) => {
  const { bench: store, checkout } = await bench();
  await using _ = store;
  const spoil: Record<string, (path: string) => Promise<unknown>> = {
    "missing": () => Promise.resolve(),
    "empty": (path) => Deno.writeTextFile(path, ""),
    "not JSON": (path) => Deno.writeTextFile(path, "{"),
    "of another kind": (path) => Deno.writeTextFile(path, `{"chain_id":5}`),
    "a dangling link": (path) => Deno.symlink("/nowhere/at/all", path),
    "a FIFO": mkfifo,
  };
  let serial = 0;
  for (const sidecar of [`${checkout}.sum`, `${checkout}.shadow`]) {
    for (const [name, put] of Object.entries(spoil)) {
      await t.step(`${sidecar.slice(-7)} ${name}`, async () => {
        await sqlite3Write(checkout, `INSERT INTO t(body) VALUES('edit ${serial}')`);
        const edited = contentOf(checkout);
        await Deno.remove(sidecar, { recursive: true }).catch(() => {});
        await put(sidecar);
        for (const op of ["status", "branches", "checkout"]) {
          await survives(store, op, main);
          assertEquals(contentOf(checkout), edited, `${op} lost a local edit`);
        }
        const outcome = await survives(store, "checkpoint", main, `cp${serial++}`);
        assertEquals(contentOf(checkout), edited, "checkpoint lost a local edit");
        const operator = store.operator();
        const stored = await store.read(operator, "app@main");
        if (outcome === "ok") assertEquals(stored, edited);
        else assertEquals(stored, store.expected.get("app@main"));
        await Deno.remove(sidecar, { recursive: true }).catch(() => {});
        await operator.ok("checkout", main, { force: true });
        await store.expect(operator, "app@main");
        await operator.end();
      });
    }
  }
  await store.audit();
});

Deno.test("the checkouts directory as a link or a file is refused, and nothing is written outside", async (t) => {
  const { bench: store } = await bench();
  await using _ = store;
  const directory = `${store.location}/checkouts`;
  const outside = `${store.directory}/outside`;
  await Deno.mkdir(`${outside}/app`, { recursive: true });
  const kinds: Record<string, () => Promise<unknown>> = {
    "a link elsewhere": () => Deno.symlink(outside, directory),
    "a file": () => Deno.writeTextFile(directory, ""),
    "a FIFO": () => mkfifo(directory),
  };
  for (const [name, put] of Object.entries(kinds)) {
    await t.step(name, async () => {
      await Deno.rename(directory, `${directory}.away`);
      await put();
      for (const op of ["checkout", "status", "branches", "session_open"]) await survives(store, op, main);
      assertEquals([...Deno.readDirSync(`${outside}/app`)].map((entry) => entry.name), []);
      await Deno.remove(directory);
      await Deno.rename(`${directory}.away`, directory);
    });
  }
  await store.audit();
});

Deno.test({
  name: `what lies behind the last page of a checkout is in no checkpoint of it${noXfs}`,
  ignore: noXfs !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (directory) => {
      using store = await openStore(directory);
      await store.create("app");
      const { path } = await store.checkout(main);
      await sqlite3Write(path, "CREATE TABLE t(v); INSERT INTO t VALUES(zeroblob(100000));");
      await Deno.writeFile(path, new Uint8Array(8192).fill(7), { append: true });
      assertEquals((await store.checkpoint(main, "c")).kind, "snapshot");
      assertEquals((await store.verify(main)).problems, []);
    }),
});

// conformance: 2.files_rebuilt
Deno.test("checkouts-ro and checkouts may be deleted at any time", async () => {
  const { bench: store, checkout } = await bench();
  await using _ = store;
  const operator = store.operator();
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('x')");
  await operator.ok("checkpoint", main, "one");
  await store.expect(operator, "app@main");
  await store.expect(operator, "app@main@one");
  const clean = async (name: string) => {
    await Deno.remove(`${store.location}/${name}`, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  };
  for (const op of ["checkout", "checkpoint", "fork", "rollback", "promote", "compact", "status", "branches"]) {
    await clean("checkouts-ro");
    if (op === "checkpoint") await operator.ok("checkpoint", main, "two");
    else if (op === "fork") await operator.ok("fork", main, "third");
    else if (op === "rollback") await operator.ok("rollback", { ...main, checkpoint: "one" }, { safety: false });
    else if (op === "promote") await operator.ok("promote", main, parseAddress("app@other"), { safety: false });
    else await operator.ok(op, ...(op === "branches" ? [] : [main]));
  }
  store.expected.set("app@other", store.expected.get("app@main")!);
  const { path } = await operator.ok("checkout", { ...main, checkpoint: "one" });
  await clean("checkouts-ro");
  const again = await operator.ok("checkout", { ...main, checkpoint: "one" });
  assertEquals(again.path, path);
  assertEquals(contentOf(String(path)), store.expected.get("app@main@one"));
  await clean("checkouts");
  await operator.ok("checkout", main);
  await operator.ok("status", main);
  await operator.end();
  await store.audit(["app@third"]);
});

Deno.test("a reader that holds the log open costs a checkpoint nothing, nor the edits after it", async () => {
  const { bench: store, checkout } = await bench();
  await using _ = store;
  const operator = store.operator();
  const reader = await Writer.start("python", checkout);
  try {
    await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('one')");
    assertEquals((await reader.run({ seq: 1, kind: "reader", sql: [], reader: "begin" })).result, "ack");
    for (const name of ["two", "three"]) {
      await sqlite3Write(checkout, `INSERT INTO t(body) VALUES('${name}')`);
      await operator.ok("checkpoint", main, name);
    }
  } finally {
    await reader.kill();
  }
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('four')");
  await operator.ok("checkpoint", main, "four");
  await store.expect(operator, "app@main");
  assertEquals(store.expected.get("app@main"), contentOf(checkout));
  await operator.end();
  await store.audit();
});
