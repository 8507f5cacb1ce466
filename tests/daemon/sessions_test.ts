import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Client } from "../../lib/client/client.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { CallableOp, OpArgs } from "../../lib/protocol/messages.ts";
import { Application } from "../support/application.ts";
import { rows } from "../support/stores.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

async function refusal<O extends CallableOp>(client: Client, op: O, args: OpArgs<O>): Promise<TaskdError> {
  return await assertRejects(() => client.call(op, args), TaskdError, undefined, `${op} ${JSON.stringify(args)}`);
}

// conformance: 2.one_session 8.concurrency
Deno.test("a branch has one session: the second open is refused and names the holder", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  using second = await daemon.connect();
  await client.call("create", { db: "app" });
  const attempts = await Promise.allSettled([client.call("open", { db: "app" }), second.call("open", { db: "app" })]);
  const opened = attempts.filter((attempt) => attempt.status === "fulfilled");
  const refused = attempts.filter((attempt) => attempt.status === "rejected");
  assertEquals([opened.length, refused.length, refused[0]?.reason.code], [1, 1, "lease_held"]);
  const { holder } = opened[0]!.value;
  const error = await refusal(second, "open", { db: "app" });
  assertEquals(error.code, "lease_held");
  assert(error.message.includes(holder) && error.hint?.includes("taskd path app@main"), error.message);
  const { sessions } = await client.call("status", {});
  assertEquals(sessions.map(({ db, branch, state, holder }) => ({ db, branch, state, holder })), [
    { db: "app", branch: "main", state: "active", holder },
  ]);
});

Deno.test("operations that would change a branch under a live session are refused with a hint", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("checkpoint", { db: "app", name: "one" });
  await client.call("fork", { db: "app", new_branch: "dev" });
  await client.call("open", { db: "app" });
  const refused = [
    ["rollback", { db: "app", to: "one" }],
    ["promote", { db: "app", branch: "dev", onto: "main" }],
    ["compact", { db: "app" }],
    ["repair", { db: "app" }],
    ["destroy", { db: "app", branch: "main" }],
    ["checkout", { db: "app", force: true }],
  ] as const;
  for (const [op, args] of refused) {
    const error = await refusal(client, op, args);
    const reopen = op === "rollback" || op === "promote" ? ", or add --reopen" : "";
    const hint = `Close it first: taskd session close app@main${reopen}`;
    assertEquals([op, error.code, error.hint], [op, "lease_held", hint]);
  }
  const { path, source } = await client.call("checkout", { db: "app" });
  const { checkout } = (await client.call("status", { db: "app", branch: "main" })).sessions[0]!;
  assertEquals([path, source], [checkout!, "kept"]);
  await client.call("close", { db: "app" });
  await client.call("rollback", { db: "app", to: "one" });
});

Deno.test("rollback with reopen closes the session, goes back, and opens it again", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("checkpoint", { db: "app", name: "one" });
  const before = await client.call("open", { db: "app" });
  const { session } = await client.call("rollback", { db: "app", to: "one", reopen: true });
  assertEquals(session?.checkout, before.checkout);
  assert(session!.epoch > before.epoch);
  // When it cannot be done, the session is there again all the same.
  assertEquals((await refusal(client, "rollback", { db: "app", to: "none", reopen: true })).code, "not_found");
  assertEquals((await client.call("status", {})).sessions.map(({ state }) => state), ["active"]);
});

Deno.test("rollback with reopen is refused while an application has the file open, or waits", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("checkpoint", { db: "app", name: "one" });
  const { checkout } = await client.call("open", { db: "app" });
  const application = new Application(checkout);
  await application.run("CREATE TABLE t(v)");
  const { code, message } = await refusal(client, "rollback", { db: "app", to: "one", reopen: true });
  assertEquals([code, message.includes(`python3 (process ${application.pid}) has `)], ["busy", true]);
  assertEquals((await client.call("status", {})).sessions.map(({ state }) => state), ["active"]);
  await application.run("INSERT INTO t VALUES('kept')");
  const going = client.call("rollback", { db: "app", to: "one", reopen: true, wait_ms: 60_000 });
  await application.end();
  const { checkout_refreshed, safety_branch } = await going;
  assertEquals([checkout_refreshed, safety_branch], [true, "main-pre-rollback"]);
  const file = `${place.directory}/kept.db`;
  await client.call("export", { db: "app", branch: safety_branch!, path: file });
  assertEquals(rows(file), "kept");
  const undone = await client.call("undo", { db: "app", reopen: true });
  assertEquals([undone.undone, undone.session?.checkout, rows(checkout)], ["rollback", checkout, "kept"]);
});

Deno.test("close names the programs that still have the file open, whose commits are captured no more", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const application = new Application(checkout);
  await application.run("CREATE TABLE t(v)");
  const { open_in } = await client.call("close", { db: "app" });
  assertEquals(open_in, [`python3 (process ${application.pid})`]);
  await application.run("INSERT INTO t VALUES('later')");
  await client.call("open", { db: "app" });
  await application.end();
  assertEquals([(await client.call("close", { db: "app" })).open_in, rows(checkout)], [undefined, "later"]);
});

Deno.test("operations on a session need one", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  for (const op of ["flush", "close"] as const) {
    assertEquals((await refusal(client, op, { db: "app" })).code, "no_session");
  }
  assertEquals((await refusal(client, "open", { db: "none" })).code, "not_found");
  assertEquals((await client.call("status", {})).sessions, []);
});

// conformance: 6.type.session_opened 6.type.session_closed 6.same_events
Deno.test("events report a session's life in order, the same to every subscriber", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const [one, two] = [await daemon.events(), await daemon.events()];
  const { holder, epoch } = await client.call("open", { db: "app" });
  await client.call("close", { db: "app" });
  await Promise.all([one.of("session_closed"), two.of("session_closed")]);
  assertEquals(one.seen, two.seen);
  const opened = one.seen[0]!;
  assertEquals([opened.v, opened.type, opened.db, opened.branch], [1, "session_opened", "app", "main"]);
  assertEquals(opened.detail as unknown, { holder, epoch });
  assertEquals(await daemon.stop(), 0);
  await Promise.all([one.ended, two.ended]);
});
