/**
 * Every operation of the store once, on one prepared store, with what must hold before
 * and after it: the table that fault injection, crashes, kills, full and read-only disks
 * all run over.
 */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { CaptureSession } from "../../lib/capture/session.ts";
import { type ErrorCode, hasCode } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import type { Store } from "../../lib/store/store.ts";

/** Content by address: the rows of the one table, or undefined where the branch must not exist. */
export type Contents = Record<string, string | undefined>;

/** One operation. */
export interface Scenario {
  name: string;
  /** Method of {@linkcode Store} and its JSON-ready arguments; `$DIR` stands for the test's directory. */
  op: Exclude<keyof Store, symbol>;
  args: unknown[];
  /** What is different afterwards. */
  changes: Contents;
  /** What a repetition may answer when the first attempt had done its work. */
  repeated?: ErrorCode[];
}

/** What {@linkcode prepare} leaves. */
export const PREPARED: Contents = {
  "app@main": "1,2,3",
  "app@main@one": "1,2",
  "app@main@two": "1,2,3",
  "app@side": "1,2,5,6",
  "app@side@s1": "1,2,5",
  "app@side@s2": "1,2,5,6",
  "app@other": "1,2,3",
};

const at = (text: string) => parseAddress(text);

/** The operations. `main` has a checkout with an edit that no checkpoint holds; the others are clean. */
export const SCENARIOS: Scenario[] = [
  {
    name: "create",
    op: "create",
    args: ["fresh", { from: "$DIR/fresh.db" }],
    changes: { "fresh@main": "f" },
    repeated: ["already_exists"],
  },
  {
    name: "create empty",
    op: "create",
    args: ["fresh"],
    changes: { "fresh@main": "(empty)" },
    repeated: ["already_exists"],
  },
  { name: "checkout", op: "checkout", args: [at("app@other")], changes: {} },
  { name: "checkout of a checkpoint", op: "checkout", args: [at("app@main@one")], changes: {} },
  {
    name: "checkpoint",
    op: "checkpoint",
    args: [at("app@main"), "three"],
    changes: { "app@main": "1,2,3,4", "app@main@three": "1,2,3,4" },
    repeated: ["already_exists"],
  },
  {
    name: "fork",
    op: "fork",
    args: [at("app@side"), "new"],
    changes: { "app@new": "1,2,5,6" },
    repeated: ["already_exists"],
  },
  {
    name: "fork of a checkpoint",
    op: "fork",
    args: [at("app@main@one"), "new"],
    changes: { "app@new": "1,2" },
    repeated: ["already_exists"],
  },
  {
    name: "materialized fork",
    op: "fork",
    args: [at("app@side"), "new", { materialize: true }],
    changes: { "app@new": "1,2,5,6" },
    repeated: ["already_exists"],
  },
  {
    name: "rollback",
    op: "rollback",
    args: [at("app@side@s1")],
    changes: { "app@side": "1,2,5", "app@side-pre-rollback": "1,2,5,6" },
  },
  {
    name: "rollback without safety, materialized",
    op: "rollback",
    args: [at("app@side@s1"), { safety: false, materialize: true }],
    changes: { "app@side": "1,2,5" },
  },
  {
    name: "promote",
    op: "promote",
    args: [at("app@side"), at("app@other")],
    changes: { "app@other": "1,2,5,6", "app@other-pre-promote": "1,2,3" },
  },
  { name: "compact", op: "compact", args: [at("app@side")], changes: {} },
  { name: "compact beside an edited checkout", op: "compact", args: [at("app@main")], changes: {} },
  {
    name: "destroy",
    op: "destroy",
    args: [at("app@other")],
    changes: { "app@other": undefined, "app@other-pre-destroy": "1,2,3" },
    repeated: ["not_found"],
  },
  {
    name: "destroy without safety",
    op: "destroy",
    args: [at("app@other"), { safety: false }],
    changes: { "app@other": undefined },
    repeated: ["not_found"],
  },
  { name: "touch", op: "touch", args: [at("app@side"), { ttl_ms: 60_000 }], changes: {} },
  { name: "protect", op: "protect", args: [at("app@side"), true], changes: {} },
  { name: "export", op: "export", args: [at("app@side"), "$DIR/out.db", { force: true }], changes: {} },
  { name: "diff", op: "diff", args: [at("app@side"), at("app@main@one"), { rows: 3 }], changes: {} },
  { name: "verify", op: "verify", args: [at("app@side")], changes: {} },
  { name: "status", op: "status", args: [at("app@side")], changes: {} },
];

/** The arguments with `$DIR` filled in. */
export function scenarioArgs(scenario: Scenario, directory: string): unknown[] {
  return JSON.parse(JSON.stringify(scenario.args).replaceAll("$DIR", directory)) as unknown[];
}

/** Runs the scenario's operation on `store`. */
export function run(scenario: Scenario, store: Store, directory: string): Promise<unknown> {
  const method = store[scenario.op] as (...args: unknown[]) => Promise<unknown>;
  return Reflect.apply(method, store, scenarioArgs(scenario, directory));
}

/** Fills an empty store as {@linkcode PREPARED} says, and `directory` with the files the operations read. */
export async function prepare(store: Store, directory: string): Promise<void> {
  insertValue(`${directory}/first.db`, "1", true);
  insertValue(`${directory}/fresh.db`, "f", true);
  await store.create("app", { from: `${directory}/first.db` });
  const main = (await store.checkout(at("app@main"))).path;
  insertValue(main, "2");
  await store.checkpoint(at("app@main"), "one");
  insertValue(main, "3");
  await store.checkpoint(at("app@main"), "two");
  await store.fork(at("app@main@one"), "side");
  await store.fork(at("app@main"), "other");
  const side = (await store.checkout(at("app@side"))).path;
  insertValue(side, "5");
  await store.checkpoint(at("app@side"), "s1");
  // By a session, so that the chain has a segment: at rest, a file system that cannot clone only ever gets snapshots.
  const session = await CaptureSession.open(store, at("app@side"), { flush_every_ms: 0, snapshot_every: 16 });
  insertValue(side, "6");
  await session.checkpoint("s2");
  await session.close();
  insertValue(main, "4");
}

/** Adds a row to the one table of the database at `path`. */
export function insertValue(path: string, value: string, create = false): void {
  const database = new DatabaseSync(path);
  try {
    database.exec("PRAGMA busy_timeout=5000");
    if (create) database.exec("CREATE TABLE t(v TEXT)");
    database.prepare("INSERT INTO t VALUES(?)").run(value);
  } finally {
    database.close();
  }
}

/** The content of `address`; undefined where it does not exist. Integrity is checked on the way. */
export async function contentAt(store: Store, address: string, directory: string): Promise<string | undefined> {
  const file = `${directory}/read-${crypto.randomUUID()}.db`;
  try {
    await store.export(at(address), file);
  } catch (error) {
    if (hasCode(error, "not_found")) return undefined;
    throw error;
  }
  try {
    return contentOf(file, address);
  } finally {
    await Deno.remove(file);
  }
}

/** The content of a database's file, which `what` names. Integrity is checked on the way. */
export function contentOf(file: string, what: string): string {
  const database = new DatabaseSync(file);
  try {
    assertEquals(database.prepare("PRAGMA integrity_check").get()?.integrity_check, "ok", what);
    const table = database.prepare("SELECT count(*) AS n FROM sqlite_schema").get();
    if (table?.n === 0) return "(empty)";
    const rows = database.prepare("SELECT v FROM t ORDER BY rowid").all();
    return rows.map((row) => String(row.v)).join(",");
  } finally {
    database.close();
  }
}

/** After an attempt of unknown outcome: everything is as before or as after, nothing is in between. */
export async function assertBeforeOrAfter(store: Store, scenario: Scenario, directory: string): Promise<void> {
  for (const address of new Set([...Object.keys(PREPARED), ...Object.keys(scenario.changes)])) {
    const content = await contentAt(store, address, directory);
    const allowed = address in scenario.changes ? [PREPARED[address], scenario.changes[address]] : [PREPARED[address]];
    assert(
      allowed.includes(content),
      `${scenario.name}: ${address} holds ${content}, may hold ${allowed.join(" or ")}`,
    );
  }
  await assertNoOthers(store, scenario, directory);
}

/** After success: everything is as promised. */
export async function assertAfter(store: Store, scenario: Scenario, directory: string): Promise<void> {
  for (const [address, content] of Object.entries({ ...PREPARED, ...scenario.changes })) {
    assertEquals(await contentAt(store, address, directory), content, `${scenario.name}: ${address}`);
  }
  await assertNoOthers(store, scenario, directory);
}

/** A repeated rollback, promote or destroy keeps what it finds once more: under a further number, and it is one of the heads there were. */
const SAFETY_FORK = /^(app@(?:side|other))-pre-(?:rollback|promote|destroy)(?:-\d+)?$/;

async function assertNoOthers(store: Store, scenario: Scenario, directory: string): Promise<void> {
  const known: Contents = { ...PREPARED, ...scenario.changes };
  const strangers: string[] = [];
  for (const { db, branch } of await store.branches()) {
    const name = `${db}@${branch}`;
    if (name in known) continue;
    const of = SAFETY_FORK.exec(name)?.[1];
    const content = of === undefined ? undefined : await contentAt(store, name, directory);
    if (of === undefined || ![PREPARED[of], scenario.changes[of]].includes(content)) strangers.push(name);
  }
  assertEquals(strangers, [], `${scenario.name}: branches of no operation`);
}
