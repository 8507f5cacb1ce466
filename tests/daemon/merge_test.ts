import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { type Client, subscribe } from "../../lib/client/client.ts";
import type { AnyDaemonEvent, OpArgs } from "../../lib/protocol/messages.ts";
import { Application } from "../support/application.ts";
import { rows, sql } from "../support/stores.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

const MANUAL = { flush_every_ms: 0 };
const ORDERS = "SELECT id || ':' || state FROM orders ORDER BY id";

/** `app@main` with three orders, its fork `try`, in which order 2 is mended, and a session of `main`. */
async function shop(client: Client): Promise<{ checkout: string; fork: string }> {
  await client.call("create", { db: "app" });
  const { path } = await client.call("checkout", { db: "app" });
  sql(
    path,
    "CREATE TABLE orders(id INTEGER PRIMARY KEY, state, note)",
    "INSERT INTO orders VALUES (1,'new',''), (2,'new',''), (3,'new','')",
  );
  await client.call("checkpoint", { db: "app", name: "one" });
  await client.call("fork", { db: "app", new_branch: "try" });
  const { path: fork } = await client.call("checkout", { db: "app", branch: "try" });
  sql(fork, "UPDATE orders SET state='mended' WHERE id=2");
  await client.call("checkpoint", { db: "app", branch: "try", name: "mended" });
  const { checkout } = await client.call("open", { db: "app" });
  return { checkout, fork };
}

async function withDaemon(work: (client: Client, place: Place) => Promise<void>): Promise<void> {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await work(client, place);
}

Deno.test("a merge goes into an open database, and a revert takes out only that", () =>
  withDaemon(async (client, place) => {
    const { checkout } = await shop(client);
    const application = new Application(checkout);
    try {
      await application.run("INSERT INTO orders VALUES (4,'new','')");
      const merged = await client.call("merge", { db: "app", branch: "try", into: "main" });
      assertEquals([merged.merged, merged.conflicts_total, merged.tables.length], [true, 0, 1]);
      // The same connection goes on, and sees it.
      await application.run("UPDATE orders SET note=state WHERE id=2");
      assertEquals(rows(checkout, "SELECT note FROM orders WHERE id=2"), "mended");
      await application.run("INSERT INTO orders VALUES (5,'new','')");
      const { merges } = await client.call("merges", { db: "app" });
      assertEquals(merges.map(({ merge, from, in_force }) => [merge, from, in_force]), [
        [merged.merge, "app@try", true],
      ]);
      const reverted = await client.call("revert", { db: "app", merge: merged.merge! });
      assertEquals([reverted.merged, reverted.from], [true, "app@try"]);
      await application.run("INSERT INTO orders VALUES (6,'new','')");
    } finally {
      await application.end();
    }
    assertEquals(rows(checkout, ORDERS), "1:new,2:new,3:new,4:new,5:new,6:new");
    assertEquals(rows(checkout, "SELECT note FROM orders WHERE id=2"), "mended");
    await client.call("flush", { db: "app" });
    await client.call("export", { db: "app", path: `${place.directory}/out.db` });
    assertEquals(rows(`${place.directory}/out.db`, ORDERS), "1:new,2:new,3:new,4:new,5:new,6:new");
    assertEquals((await client.call("merges", { db: "app" })).merges.map(({ in_force }) => in_force), [true, false]);
    assertEquals((await client.call("status", {})).sessions.map(({ state }) => state), ["active"]);
  }));

Deno.test("a conflict with what an application wrote changes nothing, and a decision settles it", () =>
  withDaemon(async (client) => {
    const { checkout } = await shop(client);
    sql(checkout, "UPDATE orders SET state='sent' WHERE id=2");
    const request = { db: "app", branch: "try", into: "main" } as const;
    const { txid } = (await client.call("flush", { db: "app" }))!;
    for (const check of [true, false]) {
      const refused = await client.call("merge", { ...request, check });
      assertEquals([refused.merged, refused.merge, refused.txid], [false, undefined, txid]);
      assertEquals(refused.conflicts, [{
        kind: "changed_twice",
        table: "orders",
        key: { id: 2 },
        column: "state",
        base: { state: "new" },
        ours: { state: "sent" },
        theirs: { state: "mended" },
      }]);
    }
    assertEquals(rows(checkout, ORDERS), "1:new,2:sent,3:new");
    const elsewhere = { table: "orders", key: { id: 1 }, take: "ours" } as const;
    const stale = client.call("merge", { ...request, prefer: "ours", resolutions: [elsewhere] });
    assertEquals((await assertRejects(() => stale, TaskdError)).code, "invalid_request");
    const resolutions = [{ table: "orders", key: { id: 2 }, column: "state", take: "theirs" } as const];
    assertEquals((await client.call("merge", { ...request, resolutions })).merged, true);
    assertEquals(rows(checkout, ORDERS), "1:new,2:mended,3:new");
  }));

Deno.test("what a live branch committed until now is merged, and edits of one at rest are named", () =>
  withDaemon(async (client) => {
    const { checkout, fork } = await shop(client);
    sql(checkout, "INSERT INTO orders VALUES (4,'live','')");
    assertEquals((await client.call("merge", { db: "app", into: "try" })).merged, true);
    assertEquals(rows(fork, ORDERS), "1:new,2:mended,3:new,4:live");
    sql(fork, "INSERT INTO orders VALUES (5,'edit','')");
    const { left_out, tables } = await client.call("merge", { db: "app", branch: "try", into: "main" });
    assertEquals([left_out, tables[0]?.rows_added ?? 0], [["app@try"], 0]);
  }));

Deno.test("reset gives a branch its parent's head, also that of a live one, and keeps what it held", () =>
  withDaemon(async (client) => {
    const { checkout, fork } = await shop(client);
    sql(checkout, "INSERT INTO orders VALUES (4,'live','')");
    const reset = await client.call("reset", { db: "app", branch: "try" });
    assertEquals([reset.parent, reset.safety_branch], ["main", "try-pre-promote"]);
    assertEquals(rows(fork, ORDERS), "1:new,2:new,3:new,4:live");
    const orphan = client.call("reset", { db: "app", branch: "main" });
    assertEquals((await assertRejects(() => orphan, TaskdError)).code, "conflict");
  }));

Deno.test("requests that cannot be a merge are refused by name, and change nothing", () =>
  withDaemon(async (client) => {
    const { checkout } = await shop(client);
    await client.call("create", { db: "other" });
    await client.call("fork", { db: "app", new_branch: "two" });
    const cases = [
      [{ db: "app", into: "main" }, "invalid_request"],
      [{ db: "app", branch: "none", into: "main" }, "not_found"],
      [{ db: "app", branch: "try", into: "none" }, "not_found"],
      [{ db: "app", branch: "try", checkpoint: "none", into: "main" }, "not_found"],
      [{ db: "app", branch: "try", into: "main", prefer: "mine" }, "invalid_request"],
      [{ db: "app", branch: "try", into: "main", resolutions: [{ table: "orders" }] }, "invalid_request"],
    ] as unknown as [OpArgs<"merge">, string][];
    for (const [request, code] of cases) {
      const error = await assertRejects(() => client.call("merge", request), TaskdError);
      assertEquals(error.code, code, JSON.stringify(request));
    }
    for (const merge of [undefined, "0000"]) {
      const request = { db: "app", ...(merge === undefined ? {} : { merge }) };
      assertEquals((await assertRejects(() => client.call("revert", request), TaskdError)).code, "not_found");
    }
    assertEquals(rows(checkout, ORDERS), "1:new,2:new,3:new");
    // A checkpoint of the branch itself is one of its own past: nothing to bring.
    const own = await client.call("merge", { db: "app", checkpoint: "one", into: "main" });
    assertEquals([own.merged, own.tables], [true, []]);
  }));

Deno.test("undo takes back a merge that came last, live too, and then what came before it", () =>
  withDaemon(async (client) => {
    const { checkout } = await shop(client);
    await client.call("close", { db: "app" });
    sql(checkout, "INSERT INTO orders VALUES (4,'new','')");
    await client.call("rollback", { db: "app", to: "one" });
    await client.call("open", { db: "app" });
    const { merge } = await client.call("merge", { db: "app", branch: "try", into: "main" });
    sql(checkout, "INSERT INTO orders VALUES (5,'new','')");
    const { entries } = await client.call("undoable", { db: "app" });
    assertEquals(entries.map((entry) => [entry.op, entry.merge]), [["merge", merge], ["rollback", undefined]]);
    const older = client.call("undo", { db: "app", expected: entries[1]!.safety_branch! });
    assertEquals((await assertRejects(() => older, TaskdError)).code, "conflict");
    const undone = await client.call("undo", { db: "app" });
    assertEquals([undone.undone, undone.safety_branch], ["merge", undefined]);
    assertEquals(rows(checkout, ORDERS), "1:new,2:new,3:new,5:new");
    assertEquals((await client.call("undo", { db: "app", reopen: true })).undone, "rollback");
    assertEquals(rows(checkout, ORDERS), "1:new,2:new,3:new,4:new");
  }));

Deno.test("undo of a merge whose rows were changed since is refused, and says how to decide", () =>
  withDaemon(async (client) => {
    const { checkout } = await shop(client);
    const { merge } = await client.call("merge", { db: "app", branch: "try", into: "main" });
    sql(checkout, "UPDATE orders SET state='sent' WHERE id=2");
    const refused = await assertRejects(() => client.call("undo", { db: "app" }), TaskdError);
    assertEquals(refused.code, "conflict");
    assertMatch(refused.hint!, new RegExp(`taskd revert app@main ${merge}`));
    assertEquals(rows(checkout, ORDERS), "1:new,2:sent,3:new");
  }));

Deno.test("a merge that a rollback has taken away is not in force, and is no base of the next", () =>
  withDaemon(async (client) => {
    await shop(client);
    await client.call("merge", { db: "app", branch: "try", into: "main" });
    const { checkout } = await client.call("rollback", { db: "app", to: "one", reopen: true }).then(({ session }) =>
      session!
    );
    assertEquals((await client.call("merges", { db: "app" })).merges.map(({ in_force }) => in_force), [false]);
    assertEquals((await assertRejects(() => client.call("revert", { db: "app" }), TaskdError)).code, "not_found");
    assertEquals((await client.call("merge", { db: "app", branch: "try", into: "main" })).merged, true);
    assertEquals(rows(checkout, ORDERS), "1:new,2:mended,3:new");
  }));

Deno.test("who asks for more events receives merges", () =>
  withDaemon(async (client, place) => {
    await shop(client);
    const left = new AbortController();
    const subscribed = Promise.withResolvers<void>();
    const seen: AnyDaemonEvent[] = [];
    const reading = (async () => {
      const options = { onSubscribed: subscribed.resolve, signal: left.signal, more: true };
      for await (const event of subscribe(place.socket, options)) seen.push(event);
    })().catch(() => {});
    await subscribed.promise;
    const { merge } = await client.call("merge", { db: "app", branch: "try", into: "main" });
    // Nothing more to bring, and no event.
    assertEquals((await client.call("merge", { db: "app", branch: "try", into: "main" })).merge, undefined);
    await client.call("revert", { db: "app" });
    const found = () => seen.flatMap((event) => event.type === "merged" ? [event.detail] : []);
    while (found().length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    left.abort();
    await reading;
    const [first, second] = found();
    assertEquals([first!.merge, first!.rows, first!.from, first!.reverts], [merge, 1, "app@try", undefined]);
    assertEquals([second!.rows, second!.reverts, found().length], [1, true, 2]);
    assertMatch(second!.merge, /^[0-9a-f]{8}$/);
    assert(first!.locked_ms >= 0);
  }));
