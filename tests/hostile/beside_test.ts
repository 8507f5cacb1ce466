import { assert, assertEquals } from "@std/assert";
import { openStore } from "../../lib/store/open.ts";
import type { Store } from "../../lib/store/store.ts";
import { copyDirectory } from "../sim/template.ts";
import { makeMemoryDirectory } from "../sim/memory_directory.ts";
import { contentAt } from "../sim/scenarios.ts";
import { Application } from "../support/application.ts";
import { scaled, scaledTest, shortened } from "../support/long.ts";
import { at, makeDatabase, sql } from "../support/stores.ts";
import { whyNoStrace } from "../support/strace.ts";
import { SeededRandom } from "../support/writers/random.ts";
import type { Answer, Request } from "./_child.ts";
import { testSeed } from "../support/seed.ts";
import { Lines, StoppingProcess } from "./_strace.ts";

/** Calls on files: between two of them the operation knows what it has seen, and others may do what they like. */
const CALLS = "openat,close,pread64,pwrite64,fcntl,fsync,fdatasync,ftruncate,rename,renameat,renameat2," +
  "link,linkat,unlink,unlinkat,statx,fstat,newfstatat,utimensat,fchmod";
const SEED = testSeed(1);
/** `BESIDE_CALLS=all` with the long suite tries every call, which takes an hour. */
const EVERY = Deno.env.get("BESIDE_CALLS") === "all";

/** One of {@linkcode ACTS}, instead of drawn ones. */
const ONLY = Deno.env.get("BESIDE_ACT");
/** The name of one of {@linkcode OPERATIONS}, instead of all. */
const OPERATION = Deno.env.get("BESIDE_OPERATION");

/** An operation is stopped for no longer than this. */
const STOPPED_MS = 500;

/** An application: each line names a file to open, or none for the one that is open, and what to run there. */
const APPLICATION = `
import json, os, sqlite3, sys
db = None
for line in sys.stdin:
    path, timeout, statements = json.loads(line)
    try:
        if path is not None and statements != ["remove"]:
            db = sqlite3.connect("file:" + path + "?mode=rw", uri=True, isolation_level=None, timeout=timeout)
        for statement in statements:
            if statement == "close":
                if db is not None: db.close()
                db = None
            elif statement == "remove":
                for suffix in ("-wal", "-shm", ""):
                    if os.path.exists(path + suffix): os.remove(path + suffix)
            else: db.execute(statement).fetchall()
        print("done", flush=True)
    except sqlite3.Error as error:
        if db is not None: db.close()
        db = None
        print(error, flush=True)
`;

/** One process for all runs. */
class Neighbour implements AsyncDisposable {
  readonly #child = new Deno.Command("python3", { args: ["-c", APPLICATION], stdin: "piped", stdout: "piped" }).spawn();
  readonly #in = this.#child.stdin.getWriter();
  readonly #answers = new Lines(this.#child.stdout);

  /** "done", or the error that SQLite reports; the connection is closed then. */
  async run(path: string | null, timeout_s: number, ...statements: string[]): Promise<string> {
    await this.#in.write(new TextEncoder().encode(JSON.stringify([path, timeout_s, statements]) + "\n"));
    return (await this.#answers.next())!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#in.close();
    await this.#child.status;
  }
}

const INSERT = "INSERT INTO t VALUES('meanwhile')";
/** What the application does while the operation is stopped. */
const ACTS: Record<string, string[]> = {
  "commits and closes": [INSERT, "close"],
  "commits and stays": [INSERT],
  "folds its log and stays": [INSERT, "PRAGMA wal_checkpoint(TRUNCATE)"],
  "reads and stays": ["SELECT count(*) FROM t"],
  "leaves WAL mode": ["PRAGMA journal_mode=DELETE", INSERT, "close"],
  "removes the file": ["remove"],
};

/** States in which an operation finds the checkout of main. */
const STATES: Record<string, (store: Store, path: string) => Promise<void> | void> = {
  clean: () => {},
  edited: (_store, path) => sql(path, "INSERT INTO t VALUES('edit')"),
  kept: async (store, path) => {
    sql(path, "INSERT INTO t VALUES('edit')");
    await store.rollback(at("app@main@c1"));
  },
  foreign: async (store, path) => {
    const application = new Application(path);
    await application.run("SELECT count(*) FROM t");
    await store.rollback(at("app@main@c1"));
    await application.end();
  },
};

interface Operation {
  requests: Request[];
  /** May drop what is in the file before it answers. */
  forced?: boolean;
  /** The file, if it is not the checkout of main. */
  file?: string;
}

const one = (op: string, ...args: unknown[]): Operation => ({ requests: [{ op, args }] });
const MAIN = at("app");
const OPERATIONS: Record<string, Operation> = {
  "rollback": one("rollback", at("app@main@c1")),
  "rollback without safety": one("rollback", at("app@main@c1"), { safety: false }),
  "promote": one("promote", at("app@other"), MAIN),
  "undo": one("undo", MAIN),
  "checkpoint": one("checkpoint", MAIN, "k"),
  "checkout": one("checkout", MAIN),
  "forced checkout": { ...one("checkout", MAIN, { force: true }), forced: true },
  "session": {
    requests: [{ op: "session_open", args: [MAIN] }, { op: "session_flush", args: [] }, {
      op: "session_close",
      args: [],
    }],
  },
  "compact": one("compact", MAIN),
  "fork": one("fork", MAIN, "new"),
  "destroy": one("destroy", MAIN, { confirm: true }),
  "reap": { forced: true, requests: [{ op: "touch", args: [MAIN, { ttl_ms: 1 }] }, { op: "reapExpired", args: [] }] },
  "repair": one("repair", {}),
  "export": { ...one("export", at("app@other"), "$DIR/out.db", { force: true }), forced: true, file: "out.db" },
  "status": one("status", MAIN),
  "branches": one("branches", "app"),
  "diff": one("diff", MAIN, at("app@other")),
};

interface Bench {
  directory: string;
  process: StoppingProcess;
  neighbour: Neighbour;
}

async function makeTemplates(directory: string): Promise<void> {
  for (const [state, prepare] of Object.entries(STATES)) {
    using store = await openStore(`${directory}/store`);
    makeDatabase(`${directory}/source.db`, "1");
    await store.create("app", { from: `${directory}/source.db` });
    const { path } = await store.checkout(MAIN);
    for (const n of [1, 2]) {
      sql(path, `INSERT INTO t VALUES('c${n}')`);
      await store.checkpoint(MAIN, `c${n}`);
    }
    await store.fork(at("app@main@c1"), "other");
    // Something to undo.
    await store.rollback(at("app@main@c2"));
    await store.checkout(MAIN);
    await prepare(store, path);
    sql(`${directory}/source.db`, "PRAGMA journal_mode=WAL");
    await Deno.rename(`${directory}/store`, `${directory}/${state}`);
    await Deno.rename(`${directory}/source.db`, `${directory}/out-${state}.db`);
  }
}

/** Runs it; `at` is called at each stop in a call on the file or what lies beside it, with its number. */
async function runAll(
  { process, directory }: Bench,
  { requests }: Operation,
  at: (call: number, text: string) => void | Promise<void> = () => {},
): Promise<Answer> {
  let answer: Answer = { ok: true, value: null };
  let calls = 0;
  for (const { op, args } of requests) {
    const filled = JSON.parse(JSON.stringify(args).replaceAll("$DIR", directory)) as unknown[];
    answer = await process.run({ op, args: filled }, (text) => {
      if (/\/checkouts\/app\/|\/out\.db|\/\.out/.test(text)) return at(calls++, text);
    });
    if (answer.ok) continue;
    // A session whose capture failed holds its lease until it is closed.
    if (op === "session_flush") await process.run({ op: "session_close", args: [] });
    break;
  }
  return answer;
}

/** What an operation may answer that meets an application, or edits, or its own first run. */
const REFUSALS = ["dirty", "busy", "conflict", "already_exists", "not_found", "usage", "protected", "denied"];

/** And when the file was removed meanwhile. */
const GONE = ["unavailable", "capture_failed", "session_failed"];

async function withTemplate(bench: Bench, state: string): Promise<void> {
  const { directory, process } = bench;
  await process.run({ op: "close_store", args: [] });
  await Deno.remove(`${directory}/store`, { recursive: true }).catch(() => {});
  await copyDirectory(`${directory}/${state}`, `${directory}/store`);
  for (const suffix of ["-wal", "-shm"]) await Deno.remove(`${directory}/out.db${suffix}`).catch(() => {});
  await copyDirectory(`${directory}/out-${state}.db`, `${directory}/out.db`);
}

const fileOf = ({ directory }: Bench, { file }: Operation) => `${directory}/${file ?? "store/checkouts/app/main.db"}`;
const inode = (path: string) => {
  try {
    return Deno.statSync(path).ino;
  } catch {
    return undefined;
  }
};

/** Everything that can be read, by any name; whatever is found is sound. */
async function readable(bench: Bench, path: string): Promise<Set<string>> {
  const found: string[] = [];
  if (inode(path) !== undefined) found.push(await rowsOf(path));
  using store = await openStore(`${bench.directory}/store`);
  for (const { branch, checkpoints } of await store.branches("app")) {
    for (const name of ["", ...checkpoints.map(({ name }) => `@${name}`)]) {
      found.push(await contentAt(store, `app@${branch}${name}`, bench.directory) ?? "");
    }
  }
  return new Set(found.flatMap((list) => list.split(",")));
}

async function rowsOf(path: string): Promise<string> {
  const args = [`file:${path}?mode=rw`, "PRAGMA integrity_check", "SELECT v FROM t"];
  const { stdout } = await new Deno.Command("sqlite3", { args }).output();
  const [check, ...rows] = new TextDecoder().decode(stdout).trim().split("\n");
  assertEquals(check, "ok");
  return rows.join(",");
}

interface Happening {
  operation: Operation;
  state: string;
  /** The call after which the operation is stopped. */
  call: number;
  act: string;
}

/** One run, with what happens at one call; whether an application could do it. */
async function runWith(bench: Bench, { operation, state, call, act }: Happening): Promise<boolean> {
  const path = fileOf(bench, operation);
  const { neighbour } = bench;
  const statements = ACTS[act]!;
  await withTemplate(bench, state);
  let acting = Promise.resolve("no such call");
  let held: number | null | undefined;
  const answer = await runAll(bench, operation, async (number) => {
    if (number !== call) return;
    held = inode(path);
    acting = neighbour.run(path, 0, ...statements);
    // While the operation makes the index of the log, SQLite has the application wait for 10 s: it goes on with that.
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, STOPPED_MS);
    await Promise.race([acting, promise]);
    clearTimeout(timer);
  });
  const done = await acting;
  const received = JSON.stringify(answer).slice(0, 300);
  const removed = act === "removes the file";
  assert(answer.ok || [...REFUSALS, ...(removed ? GONE : [])].includes(answer.code), received);
  const acted = done === "done";
  const acknowledged = !operation.forced && !removed && (state === "edited" || state === "kept") ? ["edit"] : [];
  // One that may drop what it finds keeps what came after.
  const dropped = operation.forced && inode(path) !== held;
  if (acted && statements.includes(INSERT) && !dropped) acknowledged.push("meanwhile");
  if (acted && !removed && statements.at(-1) !== "close") {
    assertEquals(inode(path), held, `the file of an application is replaced: ${received}`);
    assertEquals(await neighbour.run(null, 2, "INSERT INTO t VALUES('after')", "close"), "done", received);
    acknowledged.push("after");
  }
  for (const next of operation.forced ? [] : [operation, one("checkout", MAIN)]) {
    const again = await runAll(bench, next);
    assert(again.ok || REFUSALS.includes(again.code), `the next run: ${JSON.stringify(again)}, after ${received}`);
  }
  const found = await readable(bench, path);
  assertEquals(acknowledged.filter((row) => !found.has(row)), [], `${done}; ${received}`);
  return acted;
}

/** The calls of the operation on files of the checkout, those after which others may do more twice. */
async function callsOf(bench: Bench, operation: Operation, state: string): Promise<number[]> {
  await withTemplate(bench, state);
  const calls: number[] = [];
  await runAll(bench, operation, (call, text) => {
    calls.push(call);
    if (!/^(statx|fstat|newfstatat|openat|pread64)/.test(text)) calls.push(call);
  });
  return calls;
}

async function tryAll(bench: Bench, operation: Operation, random: SeededRandom): Promise<void> {
  const states = operation.file ? ["clean"] : Object.keys(STATES);
  let acted = 0;
  for (const state of scaled({ short: 1, long: 0 }) ? [random.pick(states)] : states) {
    const calls = await callsOf(bench, operation, state);
    if (calls.length === 0) continue;
    const few = scaled({ short: 3, long: 3, longest: 12 });
    for (const [at, call] of (EVERY ? [...new Set(calls)] : Array.from(calls, () => random.pick(calls))).entries()) {
      // More where no application could act yet: what is drawn may be a call under a lock.
      if (!EVERY && at >= few && acted > 0) break;
      const act = ONLY ?? random.pick(Object.keys(ACTS));
      try {
        if (await runWith(bench, { operation, state, call, act })) acted++;
      } catch (error) {
        throw new Error(`a ${state} checkout, call ${call}, ${act}: ${(error as Error).message}`, { cause: error });
      }
    }
  }
  assert(acted > 0, "no application could do anything");
}

const no_strace = await whyNoStrace();

scaledTest({
  name: `a commit at any system call of an operation is kept, and so is a file that is open${no_strace}`,
  ignore: no_strace !== "",
  fn: async (t) => {
    const directory = await makeMemoryDirectory("beside-");
    try {
      await makeTemplates(directory);
      await using neighbour = new Neighbour();
      await using process = new StoppingProcess(`${directory}/store`, CALLS);
      const random = new SeededRandom(SEED);
      const operations = Object.entries(OPERATIONS).filter(([name]) => !OPERATION || name === OPERATION);
      for (const [name, operation] of shortened(operations, 2)) {
        const picks = random.fork();
        await t.step(name, () => tryAll({ directory, process, neighbour }, operation, picks));
      }
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});
