/**
 * Damage to a store, one thing at a time, whatever the thing and wherever the store is: bits flipped, ends cut off, zeros,
 * files gone, two of a kind exchanged, an older version put back. After each, what is served is what was there or is
 * refused; what `verify` does not name is whole; `repair` brings back what is proved and reports the rest.
 */

import { assert, assertEquals } from "@std/assert";
import { join } from "node:path/posix";
import { LocalBackend } from "../../lib/backend/local.ts";
import { S3Backend } from "../../lib/backend/s3.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { copyStore } from "../../lib/store/copy_store.ts";
import { formatAddress } from "../../lib/store/names.ts";
import { openStore, type OpenStoreOptions } from "../../lib/store/open.ts";
import type { RepairResult } from "../../lib/store/results.ts";
import type { Store } from "../../lib/store/store.ts";
import { backendOptions, emptyS3, type S3Place } from "./s3_server.ts";
import { at, makeDatabase, rows, sql } from "./stores.ts";
import { SeededRandom } from "./writers/random.ts";

/** The rows that tell contents apart. */
export const QUERY = "SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY rowid)";

/** How a thing is damaged. */
export const DAMAGE = ["flip", "truncate", "zero", "remove", "swap", "old"] as const;
export type Damage = typeof DAMAGE[number];

/** Files of a store or its workspace that damage is done to. */
const THINGS = /^(refs|data|gc|checkouts-ro)\/|\.(shadow|sum|session)$|^(bstore|scrub)\.json$/;

/** A store that is damaged and put back. */
interface Patient extends AsyncDisposable {
  open(options?: OpenStoreOptions): Promise<Store>;
  /** What is there by name, of what damage is done to. */
  things(): Promise<Map<string, Uint8Array>>;
  /** Puts other bytes in a thing's place, its time unchanged; undefined removes it. */
  write(name: string, bytes: Uint8Array | undefined): Promise<void>;
  /** Keeps everything as it is now. */
  keep(): Promise<void>;
  /** Puts everything back as it was kept. */
  reset(): Promise<void>;
  /** A sound copy of what was kept. */
  copy: string;
}

/** Commits a row in a session and names the result. */
export async function commit(store: Store, branch: string, value: string): Promise<void> {
  const session = await CaptureSession.open(store, at(`app@${branch}`), { flush_every_ms: 0, snapshot_every: 16 });
  sql(session.checkout, `INSERT INTO t VALUES('${value}')`);
  await session.checkpoint(value);
  await session.close();
}

/** Files below a directory, sorted. */
export function filesOf(directory: string): string[] {
  return [...Deno.readDirSync(directory)].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesOf(join(directory, name)) : [join(directory, name)]
  ).sort();
}

/** Copies a directory with all times, sharing blocks where it can. */
export async function copyTree(from: string, to: string): Promise<void> {
  const { code } = await new Deno.Command("cp", { args: ["-a", from, to] }).output();
  assertEquals(code, 0);
}

/** Writes a file in place: only its bytes change, also where it is read-only. */
export function rewrite(path: string, bytes: Uint8Array): void {
  const { mtime, mode } = Deno.statSync(path);
  Deno.chmodSync(path, 0o600);
  Deno.writeFileSync(path, bytes);
  Deno.utimeSync(path, mtime!, mtime!);
  Deno.chmodSync(path, mode! & 0o777);
}

function thingsIn(directory: string): Map<string, Uint8Array> {
  const names = filesOf(directory).map((path) => path.slice(directory.length + 1)).filter((name) => THINGS.test(name));
  return new Map(names.map((name) => [name, Deno.readFileSync(join(directory, name))]));
}

function writeIn(directory: string, name: string, bytes: Uint8Array | undefined): void {
  if (bytes === undefined) Deno.removeSync(join(directory, name));
  else rewrite(join(directory, name), bytes);
}

/** A store in a directory. */
export function localPatient(directory: string): Patient {
  const [place, copy] = [join(directory, "store"), join(directory, "copy")];
  const replace = async (from: string, to: string) => {
    await Deno.remove(to, { recursive: true }).catch(() => {});
    await copyTree(from, to);
  };
  return {
    copy,
    open: (options) => openStore(place, options),
    things: () => Promise.resolve(thingsIn(place)),
    write: (name, bytes) => Promise.resolve(writeIn(place, name, bytes)),
    keep: () => replace(place, copy),
    reset: () => replace(copy, place),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** A store in a bucket, with a workspace in a directory. */
export async function bucketPatient(server: S3Place, directory: string): Promise<Patient> {
  const { prefix, backend, [Symbol.asyncDispose]: dispose } = await emptyS3(server);
  const [workspace, kept, copy] = ["work", "kept", "copy"].map((name) => join(directory, name));
  const { bucket: _bucket, prefix: _prefix, ...s3 } = backendOptions(server, prefix);
  let objects = new Map<string, Uint8Array>();
  const present = async () => {
    const keys = (await Array.fromAsync(backend.list(""))).map(({ key }) => key);
    return new Map(await Promise.all(keys.map(async (key) => [key, (await backend.get(key)).bytes] as const)));
  };
  return {
    copy: copy!,
    open: (options = {}) => openStore(`s3://${server.bucket}/${prefix}`, { workspace: workspace!, s3, ...options }),
    things: async () => new Map([...await present(), ...thingsIn(workspace!)]),
    write: async (name, bytes) => {
      if (!await backend.head(name).then(() => true, () => false)) return writeIn(workspace!, name, bytes);
      await (bytes === undefined ? backend.delete(name) : backend.put(name, bytes));
    },
    keep: async () => {
      objects = await present();
      for (const each of [kept!, copy!]) await Deno.remove(each, { recursive: true }).catch(() => {});
      await copyTree(workspace!, kept!);
      await copyStore(await S3Backend.open(backendOptions(server, prefix)), await LocalBackend.open(copy!));
    },
    reset: async () => {
      for (const [key, bytes] of await present()) {
        const before = objects.get(key);
        if (!before) await backend.delete(key);
        else if (bytes.length !== before.length || bytes.some((byte, i) => byte !== before[i])) {
          await backend.put(key, before);
        }
      }
      const there = new Set((await Array.fromAsync(backend.list(""))).map(({ key }) => key));
      for (const [key, bytes] of objects) if (!there.has(key)) await backend.put(key, bytes);
      await Deno.remove(workspace!, { recursive: true });
      await copyTree(kept!, workspace!);
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** A store with forks, checkpoints in former lineages, snapshots of their own, checkouts and cached files. */
export async function grow(store: Store, directory: string, onHalf: () => Promise<void>): Promise<void> {
  const source = join(directory, "source.db");
  makeDatabase(source, "begin");
  sql(
    source,
    "CREATE TABLE filler(b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n" +
      " WHERE i<40) INSERT INTO filler SELECT hex(i*7919)||printf('%.300c','x') FROM n",
  );
  await store.create("app", { from: source });
  for (const value of ["m1", "m2", "m3"]) await commit(store, "main", value);
  await store.fork(at("app@main@m2"), "a");
  for (const value of ["a1", "a2"]) await commit(store, "a", value);
  await store.collectGarbage({ grace_ms: 0 });
  await onHalf();
  await store.fork(at("app@a@a1"), "b");
  await commit(store, "b", "b1");
  await store.compact(at("app@b"));
  await store.rollback(at("app@main@m1"));
  await commit(store, "main", "m4");
  await store.checkout(at("app@main@m2"));
  await store.diff(at("app@a@a1"), at("app"));
  for (let i = 0; i < 3; i++) await store.collectGarbage({ grace_ms: 0 });
  await store.scrub({ scrub_every_ms: 1e9 });
  assertEquals((await store.verifyAll()).findings, []);
}

/** What reading damage is refused with. */
const REFUSED = ["corrupt", "chain_gap", "unsupported_format"] as const;

/** The content of every point that can be read, by its address; read in two ways, which agree. */
export async function contents(store: Store, directory: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const { db, branch, checkpoints, problem } of await store.branches()) {
    if (problem !== undefined) continue;
    for (const checkpoint of [undefined, ...checkpoints.map(({ name }) => name)]) {
      const address = checkpoint === undefined ? { db, branch } : { db, branch, checkpoint };
      const out = join(directory, "out.db");
      try {
        await store.export(address, out, { force: true });
        found.set(formatAddress(address), rows(out, QUERY));
        if (checkpoint === undefined) continue;
        const { path } = await store.checkout(address);
        assertEquals(rows(path, QUERY), found.get(formatAddress(address)), formatAddress(address));
      } catch (error) {
        if (!hasCode(error, ...REFUSED)) throw error;
      }
    }
  }
  return found;
}

/** What a point may hold: what it held, and where an older record was put back, also what it held then. */
interface Truth {
  before: Map<string, string>;
  older: Map<string, string> | undefined;
}

function assertTrue(served: Map<string, string>, { before, older }: Truth, what: string): void {
  for (const [name, content] of served) {
    if (older?.get(name) === content) continue;
    assertEquals(content, before.get(name), `${what}: ${name}`);
  }
}

/** What a repair has left must be what was there, or what the repair says that it is. */
async function checkRepaired(store: Store, directory: string, truth: Truth, repaired: {
  result: RepairResult;
  what: string;
  /** Branches that are simply gone. */
  gone: Set<string>;
}): Promise<void> {
  const { result, what, gone } = repaired;
  const after = await contents(store, directory);
  const lost = new Set<string>(gone);
  for (const { db, branch, lost_checkpoints, lost: transactions, txid } of result.moved) {
    for (const name of lost_checkpoints) lost.add(`${db}@${branch}@${name}`);
    if (!transactions) continue;
    lost.add(`${db}@${branch}`);
    assert(transactions.first_txid === txid + 1 && transactions.last_txid >= transactions.first_txid, what);
    const now = after.get(`${db}@${branch}`)!;
    assert(truth.before.get(`${db}@${branch}`)!.startsWith(now), `${what}: ${branch} is ${now}`);
    after.delete(`${db}@${branch}`);
  }
  for (const { needed_by } of result.left) for (const name of needed_by) lost.add(name);
  for (const name of truth.before.keys()) {
    if (after.has(name) || lost.has(name) || lost.has(branchOf(name))) continue;
    // What a ref that was pieced together lacks, the report says.
    const pieced = result.restored.some(({ where, lost }) => lost !== undefined && nameOf(where) === branchOf(name));
    assert(name.split("@").length > 2 && pieced || truth.older && !truth.older.has(name), `${what}: ${name} is gone`);
  }
  const kept = new Map([...after].filter(([name]) => !name.includes("-pre-repair")));
  assertTrue(kept, truth, what);
  const { findings } = await store.verifyAll();
  const unexplained = findings.filter(({ needed_by, what }) =>
    what !== "sidecar" && !needed_by.every((name) => name.includes("-pre-repair") || result.left.length > 0)
  );
  assertEquals(unexplained, [], what);
}

/** What the logs of the branches list is there, and holds what the database once held. */
async function checkLogs(store: Store, directory: string, truth: Truth, what: string): Promise<void> {
  const out = join(directory, "out.db");
  const whole = [...truth.before.values(), ...truth.older?.values() ?? []];
  for (const { db, branch, problem } of await store.branches()) {
    // What keeps the damage for a person.
    if (problem !== undefined || branch.includes("-pre-repair")) continue;
    let points: { txid: number }[] = [];
    try {
      ({ points } = await store.log({ db, branch }));
    } catch (error) {
      assert(hasCode(error, ...REFUSED), `${what}: the log of ${branch}: ${error}`);
      assert(await store.verify({ db, branch }).then(({ ok }) => !ok), `${what}: the log of ${branch}: ${error}`);
    }
    for (const { txid } of points) {
      const checkpoint = `txid:${txid}`;
      try {
        await store.export({ db, branch, checkpoint }, out, { force: true });
      } catch (error) {
        const { ok } = await store.verify({ db, branch });
        assert(!ok && hasCode(error, ...REFUSED), `${what}: ${branch}@${checkpoint}: ${error}`);
        continue;
      }
      const content = rows(out, QUERY);
      assert(whole.some((each) => each.startsWith(content)), `${what}: ${branch}@${checkpoint} holds ${content}`);
    }
  }
}

/** Other bytes for a thing; undefined for none, the same where this damage changes nothing. */
function damaged(bytes: Uint8Array, damage: Damage, random: SeededRandom, other: Uint8Array): Uint8Array | undefined {
  const place = random.between(0, Math.max(0, bytes.length - 1));
  switch (damage) {
    case "flip":
      return bytes.length === 0 ? bytes : bytes.with(place, bytes[place]! ^ (1 << random.between(0, 7)));
    case "truncate":
      return bytes.slice(0, place);
    case "zero":
      return bytes.slice().fill(0, place, random.chance(0.3) ? undefined : place + random.between(1, 600));
    case "remove":
      return undefined;
    case "swap":
    case "old":
      return other;
  }
}

/** What can be exchanged for another: its folder's and its ending's. */
const kindOf = (name: string) => `${/^[^/]*/.exec(name)} ${/(base\.json|\.\w+)$/.exec(name)?.[0]}`;

/** What damage came to. */
export type RotTally = Record<"found" | "refused" | "unread" | "restored" | "lost", number>;

/** Damages a store `times` times, and has it read, verified, repaired and written. */
export async function rot(
  patient: Patient,
  directory: string,
  { times, seed, kinds = DAMAGE, only = /./, classes = [] }: {
    /** Beside the one thing, another of each of these is damaged at once. */
    classes?: readonly RegExp[];
    times: number;
    seed: number;
    kinds?: readonly Damage[];
    /** What damage is done to, by name. */
    only?: RegExp;
  },
): Promise<RotTally> {
  let older = new Map<string, string>();
  let old = new Map<string, Uint8Array>();
  {
    using store = await patient.open();
    await grow(store, directory, async () => {
      older = await contents(store, directory);
      old = await patient.things();
    });
  }
  await patient.keep();
  const things = await patient.things();
  using opened = await patient.open();
  const before = await contents(opened, directory);
  const random = new SeededRandom(seed);
  const tally: RotTally = { found: 0, refused: 0, unread: 0, restored: 0, lost: 0 };
  for (let i = 0; i < times; i++) {
    await patient.reset();
    const damage = random.pick(kinds);
    const names = [...things.keys()].filter((name) => {
      if (!only.test(name)) return false;
      if (damage === "old") return old.has(name) && String(old.get(name)) !== String(things.get(name));
      return damage !== "swap" || [...things.keys()].some((other) => other !== name && kindOf(other) === kindOf(name));
    });
    const name = random.pick(names);
    const other = random.pick([...things.keys()].filter((each) => each !== name && kindOf(each) === kindOf(name)));
    let what = `trial ${i} of seed ${seed}: ${damage} ${name}${damage === "swap" ? ` ${other}` : ""}`;
    const bytes = things.get(name)!;
    const next = damaged(bytes, damage, random, damage === "swap" ? things.get(other)! : old.get(name)!);
    if (next && String(next) === String(bytes)) continue;
    await patient.write(name, next);
    if (damage === "swap") await patient.write(other, bytes);
    const beside = damage === "swap" || damage === "old" ? [] : classes;
    const also = beside.map((each) => random.pick([...things.keys()].filter((other) => each.test(other))));
    for (const more of new Set(also)) {
      if (more === name) continue;
      const way = random.pick(["flip", "truncate", "zero"] as const);
      await patient.write(more, damaged(things.get(more)!, way, random, bytes));
      what += `, ${way} ${more}`;
    }
    const truth = { before, older: damage === "old" ? older : undefined };
    const with_copy = random.chance(0.3);
    const gone = new Set(damage === "remove" && name.startsWith("refs/") ? [nameOf(name)] : []);
    try {
      await examine(patient, directory, { truth, gone, tally, what, with_copy, several: also.length > 0 });
    } catch (error) {
      if (error instanceof TaskdError) throw new Error(`${what}: ${error.code}: ${error.message}`, { cause: error });
      throw error instanceof Error && !error.message.includes(what) ? new Error(what, { cause: error }) : error;
    }
  }
  return tally;
}

const branchOf = (address: string) => address.split("@").slice(0, 2).join("@");
const nameOf = (key: string) => key.replace(/^refs\/(.*)\/(.*)\.json$/, "$1@$2");

interface Case {
  truth: Truth;
  gone: Set<string>;
  tally: RotTally;
  what: string;
  with_copy: boolean;
  /** More than one thing was damaged at once. */
  several: boolean;
}

async function examine(patient: Patient, directory: string, { truth, gone, tally, what, with_copy, several }: Case) {
  let findings = 0;
  try {
    using store = await patient.open({ create: false });
    assertTrue(await contents(store, directory), truth, what);
    findings = (await store.verifyAll()).findings.length;
    if (findings === 0) {
      tally.unread++;
      const served = await contents(store, directory);
      assertTrue(served, truth, what);
      if (!truth.older) {
        for (const name of truth.before.keys()) {
          assert(served.has(name) || gone.has(branchOf(name)), `${what}: ${name} is gone`);
        }
      }
      assertEquals((await store.repair()).restored, [], what);
    }
  } catch (error) {
    if (!hasCode(error, "corrupt", "not_a_store", "unsupported_layout")) throw error;
    tally.refused++;
    findings = 1;
  }
  using store = await patient.open({ damaged: true });
  if (findings > 0) {
    tally.found++;
    const options = with_copy ? { from: patient.copy } : {};
    const dry = await store.repair({ dry_run: true, ...options });
    const result = await store.repair(options);
    const planned = dry.restored.map(({ where }) => where);
    // Of several, some are seen only once others are whole.
    if (!several) assertEquals(result.restored.map(({ where }) => where).slice(0, planned.length), planned, what);
    const lost = result.restored.filter(({ lost }) =>
          lost !== undefined
        ).length + result.moved.length + result.left.filter(({ what }) => what !== "sidecar").length > 0;
    tally[lost ? "lost" : "restored"]++;
    await checkRepaired(store, directory, truth, { result, what, gone });
    await checkLogs(store, directory, truth, what);
  }
  const served = await contents(store, directory);
  for (let i = 0; i < 3; i++) {
    // Where a ref cannot be read, it may need anything.
    await store.collectGarbage({ grace_ms: 0 }).catch((error) => assert(hasCode(error, "gc_failed"), what));
  }
  assertEquals(await contents(store, directory), served, `${what}: after garbage collection`);
  const main = served.get("app@main");
  if (main === undefined) return;
  try {
    await commit(store, "main", "more");
  } catch (error) {
    // Where the records beside a checkout are gone too, nothing proves what it continues: it is left as it is, and said.
    if (several && hasCode(error, "dirty")) return;
    throw error;
  }
  assertEquals((await contents(store, directory)).get("app@main"), `${main},more`, `${what}: after a commit`);
}
