import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { callAtRest } from "../../lib/protocol/at_rest.ts";
import type { CallableOp, OpAnswer, OpArgs, OpName } from "../../lib/protocol/messages.ts";
import { object, OPS } from "../../lib/protocol/operations.ts";
import { openStore } from "../../lib/store/open.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

type Call = <O extends CallableOp>(op: O, args: OpArgs<O>) => Promise<OpAnswer<O>>;

/** Calls through `call`, checks every answer against the table, and notes the operation in `seen`. */
function checked(call: Call, seen: Set<OpName>): Call {
  return async (op, args) => {
    const answer = await call(op, args);
    v.parse(object<object>("answer", OPS[op].answer).schema, answer, { message: (issue) => `${op}: ${issue.message}` });
    seen.add(op);
    return answer;
  };
}

function write(path: string, sql: string): void {
  using db = new DatabaseSync(path);
  db.exec(sql);
}

/** Every operation that a store can do by itself, on the database `app` with the checkpoint `one`. */
async function useBranches(call: Call, place: Place): Promise<void> {
  await call("fork", { db: "app", new_branch: "dev", at: "one", ttl_ms: 60_000 });
  const { path } = await call("checkout", { db: "app", branch: "dev" });
  write(path, "UPDATE t SET x = 2; CREATE TABLE u (y BLOB); INSERT INTO u VALUES (x'00ff')");
  await call("checkpoint", { db: "app", branch: "dev", name: "two", note: "changed" });
  const { tables } = await call("diff", { a: "app", b: "app@dev", rows: 10 });
  assertEquals(tables.map(({ table, change }) => [table, change]), [["t", "changed"], ["u", "added"]]);
  assertEquals((await call("diff-rows", { a: "app", b: "app@dev", table: "t", rows: 1 })).rows.length, 1);
  await call("checkout-at", { db: "app", branch: "dev", checkpoint: "two" });
  await call("touch", { db: "app", branch: "dev", ttl_ms: null });
  await call("protect", { db: "app", branch: "dev", on: false });
  const merged = await call("merge", { db: "app", branch: "dev", into: "main" });
  assertEquals([merged.merged, merged.definitions], [true, ["u"]]);
  await call("revert", { db: "app", merge: merged.merge! });
  assertEquals((await call("merges", { db: "app" })).merges.length, 2);
  assertEquals((await call("log", { db: "app", limit: 1 })).points.map(({ op }) => op), ["revert"]);
  assertEquals((await call("reset", { db: "app", branch: "dev", safety: false })).parent, "main");
  write((await call("checkout", { db: "app" })).path, "UPDATE t SET x = 3");
  write((await call("checkout", { db: "app", branch: "dev" })).path, "UPDATE t SET x = 4");
  await call("checkpoint", { db: "app", branch: "dev", name: "three" });
  assertEquals((await call("merge", { db: "app", branch: "dev", into: "main" })).conflicts_total, 1);
  await call("promote", { db: "app", branch: "dev", onto: "main" });
  await call("rollback", { db: "app", to: "one", safety: false });
  await call("compact", { db: "app", branch: "dev" });
  await call("export", { db: "app", path: `${place.directory}/out.db` });
  assertEquals((await call("verify", { db: "app" })).intact, true);
  assertEquals((await call("verify-all", { fast: true })).intact, true);
  assertEquals((await call("repair", { db: "app", dry_run: true })).restored, []);
  await call("lease", { db: "app" });
  await call("gc", { grace_ms: 0, dry_run: true });
  await call("databases", {});
  assert((await call("branches", { db: "app" })).branches.length >= 3);
  await call("status", { db: "app", branch: "dev" });
  await call("destroy", { db: "app", branch: "dev", confirm: true });
  assertEquals((await call("undoable", { db: "app", branch: "dev" })).entries.map(({ op }) => op), ["destroy"]);
  assertEquals((await call("undo", { db: "app", branch: "dev" })).undone, "destroy");
}

Deno.test("the daemon's answers match the table of operations", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  const seen = new Set<OpName>(["subscribe"]);
  const call = checked((op, args) => client.call(op, args), seen);
  const source = `${place.directory}/source.db`;
  write(source, "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t (x) VALUES (1)");
  await call("create", { db: "app", from: source });
  await call("checkpoint", { db: "app", name: "one" });
  await useBranches(call, place);
  await call("open", { db: "app" });
  await call("flush", { db: "app" });
  assertEquals((await call("status", { db: "app", branch: "main" })).sessions.length, 1);
  assert("session" in await call("rollback", { db: "app", to: "one", reopen: true }));
  await call("close", { db: "app" });
  await call("shutdown", {});
  assertEquals([...seen].sort(), Object.keys(OPS).sort());
});

Deno.test("the answers of a store at rest match the table of operations", async () => {
  await using place = new Place();
  using store = await openStore(place.store);
  const at_rest = { store, location: place.store };
  const call = checked((op, args) => callAtRest(at_rest, op, args), new Set());
  await call("create", { db: "app" });
  write(
    (await call("checkout", { db: "app" })).path,
    "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t (x) VALUES (1)",
  );
  await call("checkpoint", { db: "app", name: "one" });
  await useBranches(call, place);
  for (const op of ["open", "flush", "close"] as const) {
    const error = await assertRejects(() => callAtRest(at_rest, op, { db: "app" }), TaskdError);
    assertEquals(error.code, "daemon_unreachable");
  }
  assertEquals(
    (await assertRejects(() => callAtRest(at_rest, "status", { branch: "main" }), TaskdError)).code,
    "invalid_request",
  );
});

Deno.test("repair over the socket takes a copy from where the daemon reaches, and says so of others", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  assertEquals((await client.call("repair", { from: place.store })).left, []);
  for (
    const [from, code] of [
      ["s3://elsewhere/copy", "invalid_request"],
      ["s3://", "invalid_request"],
      ["copy", "invalid_request"],
      [`${place.directory}/none`, "not_a_store"],
    ] as const
  ) {
    assertEquals((await assertRejects(() => client.call("repair", { from }), TaskdError)).code, code, from);
  }
});
