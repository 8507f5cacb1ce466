import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { copyAside } from "../../tests/support/cut_off.ts";
import { LONG, scaled, scaledTest, shortened } from "../../tests/support/long.ts";
import { Scene } from "../../tests/support/session.ts";
import { at, openAt, sql, withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { LocalBackend } from "../backend/local.ts";
import { type Clock, systemClock } from "../clock.ts";
import { exists } from "../fs.ts";
import { sha256Hex } from "../sha256.ts";
import { hasCode, type TaskdError } from "../errors.ts";
import { LEASE_TTL_MS } from "../store/lease.ts";
import { pointAt } from "../store/context.ts";
import { keepContent } from "../store/ops/keep.ts";
import type { Store } from "../store/store.ts";
import { listVersion } from "../store/tombstones.ts";
import { filesBelow } from "../store/workspace.ts";
import { CaptureSession } from "./session.ts";

const SEEDS = Number(Deno.env.get("RECOVER_SEEDS") ?? scaled({ short: 40, long: 16, longest: 100 }));
const CHECKOUT = "checkouts/app/main.db";
const FRAME_BYTES = 24 + 4096;
/** The branch of an earlier recovery, which keeps other content than any later one finds. */
const EARLIER = "main-pre-recovery";

/** All files as they were at one moment, and what had been acknowledged by then. */
interface Moment {
  directory: string;
  flushed: number[];
}

/** Rows that a client finds in a file; undefined when it cannot be read. Changes the file. */
function rowsIn(path: string): Set<number> | undefined {
  try {
    const database = new DatabaseSync(path, { timeout: 5_000 });
    try {
      return new Set(database.prepare("SELECT v FROM t").all().map(({ v }) => Number(v)));
    } finally {
      database.close();
    }
  } catch {
    return undefined;
  }
}

async function rowsOf(store: Store, address: string, directory: string): Promise<Set<number>> {
  const file = `${directory}/out.db`;
  await store.export(at(address), file, { force: true });
  return rowsIn(file)!;
}

/** A session and an application, random in every way; answers the moments that were kept. */
async function live(random: SeededRandom, root: string): Promise<Moment[]> {
  const scene = await Scene.make(`${root}/live`, await LocalBackend.open(`${root}/live`));
  const { context } = scene.store;
  const since = await listVersion(context.backend);
  assertEquals(
    (await keepContent(context, await pointAt(context, at("app")), { op: "recovery", since })).branch,
    EARLIER,
  );
  const session = await scene.open({ snapshot_every: random.between(2, 8) });
  const application = new DatabaseSync(session.checkout);
  application.exec(`PRAGMA synchronous=${random.pick(["OFF", "NORMAL", "FULL"])}`);
  application.exec("CREATE TABLE t(v INTEGER PRIMARY KEY); CREATE TABLE u(v)");
  const moments: Moment[] = [];
  let [next, flushed] = [1, 0];
  const keep = async () => {
    const directory = `${root}/moment-${moments.length}`;
    await copyAside(`${root}/live`, directory);
    moments.push({ directory, flushed: Array.from({ length: flushed }, (_, i) => i + 1) });
  };
  for (let step = 0; step < 24; step++) {
    const what = random.between(1, 12);
    if (what <= 5) application.exec(`INSERT INTO t VALUES(${next++})`);
    else if (what <= 7) application.exec(`INSERT INTO u VALUES(hex(randomblob(${random.between(10, 9_000)})))`);
    else if (what === 8) application.exec(random.pick(["DELETE FROM u WHERE rowid % 2", "VACUUM", "DELETE FROM u"]));
    else if (what === 9) await scene.pass(random.between(100, 3_000));
    else {
      await session.flush();
      flushed = next - 1;
    }
    if (random.between(1, 3) === 1) await keep();
  }
  application.exec(`INSERT INTO t VALUES(${next++})`);
  await session.flush();
  flushed = next - 1;
  if (random.between(1, 2) === 1) application.exec(`INSERT INTO t VALUES(${next++})`);
  await keep();
  application.close();
  await session.close();
  scene.store.close();
  return moments;
}

/** Connections that are open during an audit. */
const applications: DatabaseSync[] = [];

type Loss = (files: string, random: SeededRandom, earlier: string) => Promise<void> | void;

async function putBack(suffix: string, files: string, earlier: string): Promise<void> {
  const path = `${files}/${CHECKOUT}${suffix}`;
  if (exists(path)) Deno.removeSync(path);
  if (exists(`${earlier}/${CHECKOUT}${suffix}`)) await copyAside(`${earlier}/${CHECKOUT}${suffix}`, path);
}

const sidecars: Record<string, Loss> = {
  "sidecars as they were": () => {},
  "sidecars lost": (files) => {
    for (const suffix of [".sum", ".session"]) {
      if (exists(`${files}/${CHECKOUT}${suffix}`)) Deno.removeSync(`${files}/${CHECKOUT}${suffix}`);
    }
  },
  "sidecars empty": (files) => {
    for (const suffix of [".sum", ".session"]) Deno.writeTextFileSync(`${files}/${CHECKOUT}${suffix}`, "");
  },
  "sidecars older": async (files, _random, earlier) => {
    for (const suffix of [".sum", ".session"]) await putBack(suffix, files, earlier);
  },
};

/** Of these all that the application committed is there, and is taken up. */
const intact: Record<string, Loss> = {
  "nothing lost": () => {},
  "an application was first": (files) => sql(`${files}/${CHECKOUT}`, "INSERT INTO t VALUES(900)"),
  "an application is there": (files, random) => {
    const application = new DatabaseSync(`${files}/${CHECKOUT}`);
    for (let id = 900; id < 900 + random.between(1, 40); id++) application.exec(`INSERT INTO t VALUES(${id})`);
    applications.push(application);
  },
  "index lost": (files) => Deno.removeSync(`${files}/${CHECKOUT}-shm`),
};

const losses: Record<string, Loss> = {
  ...intact,
  "log cut at a frame": (files, random) => {
    const path = `${files}/${CHECKOUT}-wal`;
    const frames = Math.max(0, Math.floor((Deno.statSync(path).size - 32) / FRAME_BYTES));
    Deno.truncateSync(path, 32 + FRAME_BYTES * random.between(0, frames));
  },
  "log cut anywhere": (files, random) => {
    const path = `${files}/${CHECKOUT}-wal`;
    Deno.truncateSync(path, random.between(0, Deno.statSync(path).size));
  },
  "log removed": (files) => Deno.removeSync(`${files}/${CHECKOUT}-wal`),
  "log older": (files, _random, earlier) => putBack("-wal", files, earlier),
  "main file older": (files, _random, earlier) => putBack("", files, earlier),
  "main file and log older": async (files, _random, earlier) => {
    for (const suffix of ["", "-wal"]) await putBack(suffix, files, earlier);
  },
  "main file with a hole": (files, random) => {
    using file = Deno.openSync(`${files}/${CHECKOUT}`, { write: true });
    const pages = Math.floor(file.statSync().size / 4096);
    file.seekSync(random.between(0, Math.max(0, pages - 1)) * 4096, Deno.SeekMode.Start);
    file.writeSync(new Uint8Array(4096));
  },
  "main file empty": (files) => Deno.truncateSync(`${files}/${CHECKOUT}`, 0),
};

/** Time that passes quickly for who waits, and before the next opening takes what leases last. */
function hurried(): Clock & { passLease(): void; unhurried(): Clock } {
  let ahead_ms = 0;
  return {
    now: () => systemClock.now() + ahead_ms,
    monotonic: () => systemClock.monotonic() + ahead_ms,
    sleep: async (ms, signal) => {
      await systemClock.sleep(ms / 20, signal);
      // Whole, as the system's clock has them.
      ahead_ms += Math.ceil(ms - ms / 20);
    },
    passLease: () => ahead_ms += LEASE_TTL_MS,
    unhurried: () => {
      const now_ms = ahead_ms;
      return {
        now: () => systemClock.now() + now_ms,
        monotonic: () => systemClock.monotonic() + now_ms,
        sleep: (ms, signal) => systemClock.sleep(ms, signal),
      };
    },
  };
}

/** What there is of a checkout, as bytes; nothing may change it but an opening that goes through. */
function bytesOf(files: string): string {
  return ["", "-wal"].map((suffix) => {
    const path = `${files}/${CHECKOUT}${suffix}`;
    return exists(path) ? sha256Hex(Deno.readFileSync(path)) : "none";
  }).join(" ");
}

/** Branches of a recovery, beside the one that was there before any, and copies of files that it set aside. */
async function keptIn(files: string, clock?: Clock): Promise<{ branches: string[]; aside: string[] }> {
  using store = await openAt(files, clock === undefined ? {} : { clock });
  const branches = (await store.branches("app")).map(({ branch }) => branch);
  return {
    branches: branches.filter((branch) => /-found|-pre-recovery/.test(branch) && branch !== EARLIER),
    aside: [...filesBelow(`${files}/damaged`, 8)].filter((path) => path.endsWith("main.db")),
  };
}

/** At most one of each. */
function assertOnce(what: string, { branches, aside }: { branches: string[]; aside: string[] }): void {
  for (const kind of ["-found", "-pre-recovery"]) {
    assert(branches.filter((branch) => branch.includes(kind)).length <= 1, `${what}: ${branches}`);
  }
  assert(aside.length <= 1, `${what}: ${aside}`);
}

/** Opens it twice while an application has it open; answers whether it was refused, with nothing changed and nothing kept. */
async function refuse(what: string, files: string): Promise<boolean> {
  // Another process, which is killed: SQLite folds no log then.
  const application = new Deno.Command("sqlite3", {
    args: [`${files}/${CHECKOUT}`],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  })
    .spawn();
  const input = application.stdin.getWriter();
  await input.write(new TextEncoder().encode("SELECT 1 FROM sqlite_schema LIMIT 1; SELECT 1;\n"));
  await application.stdout.getReader().read();
  const found = bytesOf(files);
  const clock = hurried();
  let refused = false;
  for (let tries = 0; tries < 2; tries++) {
    using store = await openAt(files, { clock });
    try {
      await (await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 })).close();
      break;
    } catch (error) {
      assert(hasCode(error, "busy", "dirty"), `${what}: ${error}`);
      assertEquals(bytesOf(files), found, `${what}: refused as ${error}, and the checkout changed`);
      assertEquals(await keptIn(files, clock), { branches: [], aside: [] }, `${what}: refused as ${error}`);
      refused = true;
    }
  }
  application.kill("SIGKILL");
  await application.status;
  await input.abort().catch(() => {});
  return refused;
}

interface Failure {
  /** Of the calls to the backend that an opening makes, the one that fails. */
  step: number;
  kind: "before" | "after";
  clock: ReturnType<typeof hurried>;
}

/** Fails two openings at the same step, unless they go through; false where none comes to that step. */
async function failTwice(what: string, files: string, { step, kind, clock }: Failure): Promise<boolean> {
  const found = bytesOf(files);
  for (let tries = 0; tries < 2; tries++) {
    // The lease that an earlier opening left would refuse this one before its fault.
    clock.passLease();
    let calls = -Infinity;
    const plan: FaultPlan = () => ++calls === step ? { kind, code: "unavailable" } : undefined;
    using store = await openAt(files, { clock, wrap: (inner) => new FaultyBackend(inner, plan) });
    calls = 0;
    const log: string[] = [];
    (store.context as { log: (line: string) => void }).log = (line) => log.push(line);
    let done = false;
    try {
      const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 });
      done = true;
      // Once more where the fault met that: a session that is left open goes on.
      await session.close().catch(() => session.close());
    } catch (error) {
      done ||= hasCode(error, "dirty");
    }
    if (calls < step) return tries > 0;
    if (done || tries > 0 || bytesOf(files) === found) continue;
    // It failed after the head was put back, which is all that may change.
    const changed = `${files}-changed`;
    await copyAside(`${files}/checkouts/app`, changed);
    const head = await rowsOf(store, "app", changed);
    assertEquals(rowsIn(`${changed}/main.db`), head, `${what}: failed, and the checkout changed: ${log}`);
  }
  return true;
}

/** Opens a session on what is left; nothing that was flushed may be gone, nor anything that the checkout had. */
async function audit(
  what: string,
  { files, flushed, scratch, intact, boot, clock }: {
    files: string;
    flushed: number[];
    scratch: string;
    intact: boolean;
    boot?: string;
    /** That of openings that failed here before. */
    clock?: Clock;
  },
): Promise<string> {
  await copyAside(`${files}/checkouts/app`, `${scratch}/seen`);
  const seen = rowsIn(`${scratch}/seen/main.db`);
  using store = await openAt(files, clock === undefined ? {} : { clock });
  if (boot !== undefined) store.context.boot = () => Promise.resolve(boot);
  const options = { flush_every_ms: 0, snapshot_every: 16 };
  let session: CaptureSession;
  try {
    session = await CaptureSession.open(store, at("app"), options);
  } catch (error) {
    assert(
      hasCode(error, "dirty", ...(applications.length > 0 && boot !== undefined ? ["busy"] as const : [])),
      `${what}: ${error}`,
    );
    assertEquals(rowsIn(`${files}/${CHECKOUT}`), seen, `${what}: refused, and the checkout changed`);
    const head = await rowsOf(store, "app", scratch);
    for (const row of flushed) assert(head.has(row), `${what}: refused, row ${row} is not in the head`);
    return String((error as TaskdError).code);
  }
  const { recovery } = session;
  what = `${what}: ${JSON.stringify(recovery)}`;
  await session.flush();
  const head = await rowsOf(store, "app", scratch);
  assertEquals(rowsIn(session.checkout), head, `${what}: the checkout is not what is stored`);
  const kept = recovery?.safety_branch ? await rowsOf(store, `app@${recovery.safety_branch}`, scratch) : new Set();
  for (const row of flushed) assert(head.has(row), `${what}: row ${row} was flushed and is gone`);
  if (intact) { for (const row of seen!) assert(head.has(row), `${what}: row ${row} is not taken up`); }
  if (recovery?.set_aside === undefined) {
    for (const row of seen ?? []) assert(head.has(row) || kept.has(row), `${what}: row ${row} of the checkout is gone`);
  }
  const application = new DatabaseSync(session.checkout);
  application.exec("INSERT INTO t VALUES(1000)");
  application.close();
  await session.close();
  assert((await rowsOf(store, "app", scratch)).has(1000), `${what}: it does not go on`);
  assertEquals((await store.verify(at("app"))).problems, [], what);
  const again = await CaptureSession.open(store, at("app"), options);
  assertEquals(again.recovery, undefined, `${what}: and again at the next opening`);
  await again.close();
  return [recovery?.outcome ?? "clean", recovery?.safety_branch].join(" ");
}

scaledTest({
  name: "a checkout that lost something never replaces what was flushed, and keeps what is new",
  fn: async (t) => {
    const outcomes: Record<string, number> = {};
    const cases = Object.entries(losses).flatMap((loss) =>
      Object.entries(sidecars).map((spoil) => [loss, spoil] as const)
    );
    for (const seed of shortened(Array.from({ length: SEEDS }, (_, i) => i + 1), 1)) {
      await t.step(`seed ${seed}`, () =>
        withDirectory(async (root) => {
          const random = new SeededRandom(seed);
          const moments = await live(random, root);
          for (const [[name, lose], [beside, spoil]] of cases) {
            await withDirectory(async (scratch) => {
              const files = `${scratch}/files`;
              const { directory, flushed } = moments.at(-1)!;
              await copyAside(directory, files);
              const earlier = random.pick(moments.slice(0, -1)).directory;
              await lose(files, random, earlier);
              await spoil(files, random, earlier);
              const boot = random.pick([undefined, "another start of the machine"]);
              const what = `seed ${seed}, ${name}, ${beside}, ${boot ?? "the same start"}`;
              const case_ = { files, flushed, scratch, intact: name in intact && boot === undefined };
              const outcome = await audit(what, { ...case_, ...(boot === undefined ? {} : { boot }) });
              for (const application of applications.splice(0)) application.close();
              const key = `${name}, ${boot === undefined ? "same" : "another"} start: ${outcome}`;
              outcomes[key] = (outcomes[key] ?? 0) + 1;
            });
          }
        }));
    }
    if (Deno.env.has("RECOVER_OUTCOMES")) console.log(outcomes);
  },
});

scaledTest({
  name: "an opening that is refused or fails keeps what it finds once, and changes no file",
  fn: async (t) => {
    const which = LONG ? /older|cut|hole|first/ : /first|log cut at|hole/;
    const cases = Object.entries(losses).filter(([name]) => which.test(name));
    const met: Record<string, number> = { refused: 0, "-found": 0, "-pre-recovery": 0, aside: 0 };
    for (const seed of shortened([26, 1], 1)) {
      await t.step(`seed ${seed}`, () =>
        withDirectory(async (root) => {
          const random = new SeededRandom(seed);
          const moments = await live(random, root);
          const { directory, flushed } = moments.at(-1)!;
          for (const [name, lose] of cases) {
            await withDirectory(async (scratch) => {
              const files = `${scratch}/files`;
              await copyAside(directory, files);
              await lose(files, random, random.pick(moments.slice(0, -1)).directory);
              await copyAside(`${files}/checkouts/app`, `${scratch}/found`);
              const seen = rowsIn(`${scratch}/found/main.db`) ?? new Set();
              await copyAside(files, `${scratch}/refused`);
              if (await refuse(`seed ${seed}, ${name}`, `${scratch}/refused`)) met.refused!++;
              const stride = scaled({ short: 7, long: 5, longest: 1 });
              for (const kind of ["before", "after"] as const) {
                for (let step = random.between(1, stride);; step += stride) {
                  const what = `seed ${seed}, ${name}, failed ${kind} step ${step}`;
                  const tried = `${scratch}/tried`;
                  await copyAside(files, tried);
                  const clock = hurried();
                  const more = await failTwice(what, tried, { step, kind, clock });
                  clock.passLease();
                  await audit(what, { files: tried, flushed, scratch, intact: false, clock: clock.unhurried() });
                  const kept = await keptIn(tried, clock);
                  assertOnce(what, kept);
                  for (const branch of kept.branches) met[branch.endsWith("-found") ? "-found" : "-pre-recovery"]!++;
                  met.aside! += kept.aside.length;
                  using store = await openAt(tried, { clock });
                  const there = new Set<number>();
                  for (const branch of ["main", ...kept.branches]) {
                    for (const row of await rowsOf(store, `app@${branch}`, scratch)) there.add(row);
                  }
                  if (kept.aside.length === 0) {
                    for (const row of seen) assert(there.has(row), `${what}: row ${row} of the checkout is gone`);
                  }
                  store.close();
                  for (const each of [tried, `${tried}-changed`, `${scratch}/seen`]) {
                    await Deno.remove(each, { recursive: true }).catch(() => {});
                  }
                  if (!more) break;
                }
              }
            });
          }
        }));
    }
    for (const [what, times] of Object.entries(met)) assert(times > 0, `${what}: never; ${JSON.stringify(met)}`);
  },
});
