import { assert, assertEquals, assertRejects } from "@std/assert";
import { fails, insert, inSession, raiseDoubt, type Scene, unavailable } from "../../tests/support/session.ts";
import { at, rows, stored } from "../../tests/support/stores.ts";
import { unprove } from "../../tests/support/tails.ts";
import { Writer } from "../../tests/support/writers.ts";
import type { FaultPlan } from "../../tests/support/faulty_backend.ts";
import { TaskdError } from "../errors.ts";
import { LEASE_TTL_MS } from "../store/lease.ts";
import { formatTxid } from "../store/names.ts";
import type { CaptureSession } from "./session.ts";

Deno.test("a flush stores what was committed, counts its commits, and says what is durable", () =>
  inSession(async ({ store, events }, session) => {
    const before = session.txid;
    insert(session, 1, 2, 3);
    const { txid, kind, pages, bytes } = await session.flush();
    assertEquals([txid, kind, pages > 0, bytes > 0, session.txid], [before + 3, "segment", true, true, before + 3]);
    assertEquals(await stored(store, "app"), "1,2,3");
    assertEquals(events.map(({ type, detail }) => [type, (detail as { kind?: string }).kind]), [["flushed", "manual"]]);
  }));

Deno.test("an explicit flush of nothing writes nothing and emits an event", () =>
  inSession(async ({ events, uploads }, session) => {
    const nothing = { txid: session.txid, kind: "none", pages: 0, bytes: 0 } as const;
    assertEquals(await session.flushPending(), nothing);
    assertEquals([events.length, uploads.length], [0, 0]);
    assertEquals(await session.flush(), nothing);
    assertEquals([events.map(({ type }) => type), uploads.length], [["flushed"], 0]);
  }));

// conformance: 8.flush_every
Deno.test("the timer flushes what is pending, and skips a tick when nothing is", () =>
  inSession(async (scene, session) => {
    await scene.pass(31_000);
    assertEquals(scene.types, "");
    insert(session, 1);
    await scene.pass(31_000);
    assertEquals(scene.events.map(({ detail }) => (detail as { kind?: string }).kind), ["auto"]);
    assertEquals(await stored(scene.store, "app"), "1");
    await scene.pass(61_000);
    assertEquals(scene.types, "flushed");
  }, { flush_every_ms: 30_000 }));

Deno.test("a timer's flush waits for the whole interval after the one before", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    await scene.pass(31_000);
    assertEquals(scene.types, "flushed");
    insert(session, 2);
    await scene.pass(25_000);
    assertEquals(scene.types, "flushed");
    await scene.pass(6_000);
    assertEquals(scene.types, "flushed flushed");
  }, { flush_every_ms: 30_000 }));

Deno.test("a requested full copy does not wait for the timer's interval", () =>
  inSession(async (scene, session) => {
    raiseDoubt(session);
    assertEquals(session.status().rebases, 1);
    await scene.pass(2_000);
    assertEquals(scene.types, "flushed");
  }, { flush_every_ms: 30_000 }));

// conformance: 8.flush_every
Deno.test("without a timer durability advances only when asked", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    await scene.pass(120_000, 1000);
    assertEquals([scene.types, scene.uploads.length], ["", 0]);
    assertEquals(session.status().capture_lag_bytes, 0);
  }));

// conformance: 8.snapshot_every
Deno.test("after snapshot_every segments a snapshot follows, and the count begins anew", () =>
  inSession(async ({ store }, session) => {
    const kinds: string[] = [];
    for (let i = 0; i < 8; i++) {
      insert(session, i);
      kinds.push((await session.flush()).kind[1]!);
    }
    // One segment was stored before: s-e-gment, s-n-apshot.
    assertEquals(kinds.join(""), "eeneeene");
    assertEquals(await stored(store, "app"), "0,1,2,3,4,5,6,7");
    assertEquals((await store.verify(at("app"))).ok, true);
  }, { snapshot_every: 3 }));

Deno.test("a failed flush loses nothing: the next one stores everything, also what came since", async (t) => {
  const faults: [string, FaultPlan][] = [
    ["the upload fails", unavailable("put")],
    ["the ref cannot be written", unavailable("replace")],
    ["the ref is written and its answer lost", ({ method, count }) => {
      if (method === "replace") return { kind: "after", code: "ambiguous" };
      return method === "get" && count > 3 ? { kind: "before", code: "unavailable" } : undefined;
    }],
  ];
  for (const [name, plan] of faults) {
    await t.step(name, () =>
      inSession(async (scene, session) => {
        for (let round = 0; round < 3; round++) {
          insert(session, `${round}a`, `${round}b`);
          scene.plan = plan;
          const { code } = await assertRejects(() => session.flush(), TaskdError);
          assert(["unavailable", "ambiguous"].includes(code), code);
          assertEquals(scene.events.at(-1)?.type, "flush_failed");
          assertEquals((scene.events.at(-1)?.detail as { code?: string }).code, code);
          assertEquals(session.status().state, "active");
          scene.plan = () => undefined;
          if (round === 1) continue;
          insert(session, `${round}c`);
          await session.flush();
          assertEquals(await stored(scene.store, "app"), rows(session.checkout));
        }
      }));
  }
});

Deno.test("a log that cannot be followed means a full copy: counted, logged, and complete", () =>
  inSession(async (scene, session) => {
    insert(session, 1, 2);
    raiseDoubt(session);
    raiseDoubt(session);
    assertEquals(session.status().rebases, 1);
    assert(scene.log.some((line) => line.includes("starting over from a full copy")), scene.log.join("\n"));
    assertEquals((await session.flush()).kind, "snapshot");
    assertEquals(await stored(scene.store, "app"), "1,2");
    insert(session, 3);
    assertEquals((await session.flush()).kind, "segment");
    assertEquals(await stored(scene.store, "app"), "1,2,3");
  }));

Deno.test("a commit that SQLite counts and the log does not prove is stored all the same", async (t) => {
  /** The first commit in a log that starts over, with a frame that no checksum vouches for. */
  const commitUnproved = async (scene: Scene, session: CaptureSession) => {
    await scene.pass(5_000);
    insert(session, "unproved");
    unprove(session.checkout, 32);
    session.status();
  };
  await t.step("asked for", () =>
    inSession(async (scene, session) => {
      await commitUnproved(scene, session);
      assertEquals((await session.flush()).kind, "snapshot");
      assertEquals(await stored(scene.store, "app"), "unproved");
    }));
  await t.step("by the timer", () =>
    inSession(async (scene, session) => {
      await commitUnproved(scene, session);
      await scene.pass(2_000);
      assertEquals(scene.types, "flushed");
      assertEquals(await stored(scene.store, "app"), "unproved");
      assertEquals(session.status().rebases, 1);
    }, { flush_every_ms: 1_000 }));
});

Deno.test("a failed upload is never taken for a later one, however many commits each had", async (t) => {
  for (const [first, second] of [[2, 1], [5, 1], [1, 3], [3, 0]] as const) {
    for (const method of ["replace", "put"]) {
      await t.step(
        `${method} fails on ${first} commits, then a full copy of ${second} more`,
        () =>
          inSession(async (scene, session) => {
            for (let i = 0; i < first; i++) insert(session, `lost ${i}`);
            scene.plan = unavailable(method);
            await fails("unavailable", session.flush());
            for (let i = 0; i < second; i++) insert(session, `more ${i}`);
            raiseDoubt(session);
            await fails("unavailable", session.flush());
            scene.plan = () => undefined;
            // Every number of commits up to the failed ones' has its turn.
            for (let i = 0; i < first + second + 2; i++) {
              await session.flush();
              assertEquals(await stored(scene.store, "app"), rows(session.checkout));
              insert(session, `then ${i}`);
            }
            assertEquals(new Set(scene.uploads).size, scene.uploads.length, "a key was written twice");
          }),
      );
    }
  }
});

Deno.test("a full copy that is asked for during a full copy is still made", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    raiseDoubt(session);
    const reached = Promise.withResolvers<void>();
    scene.plan = ({ method }) => {
      if (method !== "put") return undefined;
      reached.resolve();
      return { kind: "delay", delay_ms: 1_000 };
    };
    const flushing = session.flush();
    await reached.promise;
    scene.plan = () => undefined;
    insert(session, 2);
    session.status();
    raiseDoubt(session);
    await scene.pass(2_000);
    await flushing.catch(() => {});
    insert(session, 3);
    await session.flush();
    assertEquals(await stored(scene.store, "app"), "1,2,3");
    assertEquals(session.status().rebases, 2);
  }));

Deno.test("a flush that takes longer than a lease lasts keeps its lease", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    scene.plan = ({ method }) => method === "put" ? { kind: "delay", delay_ms: 4 * LEASE_TTL_MS } : undefined;
    const flushing = session.flush();
    await scene.pass(5 * LEASE_TTL_MS, 1_000);
    assertEquals((await flushing).kind, "segment");
    assertEquals(session.status().state, "active");
    assertEquals(await stored(scene.store, "app"), "1");
  }));

// conformance: 6.type.fenced
Deno.test("a session whose lease was taken over is fenced once, writes nothing more and closes", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    const { refs } = scene.store.context;
    await refs.update("app", "main", (ref) => ({
      ...ref,
      epoch: ref.epoch + 1,
      lease: { holder: "other:0123456789abcdef:01234567", expires_at: "2030-01-01T00:00:00.000Z" },
    }));
    await fails("fenced", session.flush());
    await fails("session_failed", session.flush());
    await fails("session_failed", session.checkpoint("one"));
    assertEquals(session.status().state, "error");
    assertEquals(session.status().error?.code, "fenced");
    // Each that was refused counts.
    const events = "flush_failed fenced flush_failed flush_failed";
    assertEquals(scene.types, events);
    await session.close();
    assertEquals(scene.types, `${events} session_closed`);
    const { ref } = await refs.read("app", "main");
    assertEquals([ref.lease?.holder.split(":")[0], ref.txid], ["other", session.txid]);
    assertEquals(rows(session.checkout), "1");
  }));

Deno.test("a session that could not renew in time takes its lease again and goes on", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    scene.plan = unavailable("get", "replace");
    await scene.pass(10 * LEASE_TTL_MS, 1_000);
    assertEquals(session.status().state, "active");
    await fails("unavailable", session.flush());
    scene.plan = () => undefined;
    await session.flush();
    assertEquals(scene.types, "flush_failed lease_retaken flushed");
    assertEquals(await stored(scene.store, "app"), "1");
    await fails("lease_held", scene.open());
  }));

Deno.test("a session in error reports what of the log is not captured, and its timer's flushes fail", () =>
  inSession(async (scene, session) => {
    insert(session, 1);
    await session.flush();
    insert(session, 2);
    await scene.pass(1_000, 100);
    const { refs } = scene.store.context;
    await refs.update("app", "main", (ref) => ({
      ...ref,
      epoch: ref.epoch + 1,
      lease: { holder: "other:0123456789abcdef:01234567", expires_at: "2030-01-01T00:00:00.000Z" },
    }));
    await fails("fenced", session.flush());
    const before = session.status().capture_lag_bytes;
    assert(before > 0);
    for (let value = 3; value < 30; value++) insert(session, value);
    const after = session.status().capture_lag_bytes;
    assert(after > before && after <= session.status().wal_bytes, `${before} then ${after}`);
    const failed = () => scene.types.split(" ").filter((type) => type === "flush_failed").length;
    const counted = failed();
    await scene.pass(95_000, 1_000);
    assertEquals(failed() - counted, 3);
  }, { flush_every_ms: 30_000 }));

Deno.test("an idle session holds its lease for as long as it is open", () =>
  inSession(async (scene, session) => {
    await scene.pass(10 * LEASE_TTL_MS, 1_000);
    insert(session, 1);
    await session.flush();
    await fails("lease_held", scene.open());
    assertEquals(scene.types, "flushed");
  }));

Deno.test("a live checkpoint names what is durable after its flush, and refuses before it flushes", () =>
  inSession(async ({ store, uploads }, session) => {
    insert(session, 1);
    const { txid, kind, pages } = await session.checkpoint("one", { note: "first" });
    assertEquals([txid, kind, pages > 0], [session.txid, "segment", true]);
    insert(session, 2);
    uploads.length = 0;
    await fails("already_exists", session.checkpoint("one"));
    assertEquals(uploads, []);
    assertEquals(
      (await assertRejects(() => Promise.resolve().then(() => session.checkpoint("No")), TaskdError)).code,
      "invalid_name",
    );
    const again = await session.checkpoint("two");
    assertEquals((await session.checkpoint("three")).pages, 0);
    assertEquals(again.txid, session.txid);
    assertEquals([await stored(store, "app@main@one"), await stored(store, "app@main@two")], ["1", "1,2"]);
  }));

// conformance: 2.metrics.bstore_checkpoint_duration_seconds 6.type.flushed
Deno.test("a live checkpoint emits the event of its flush, also when it had nothing to store", () =>
  inSession(async ({ events }, session) => {
    insert(session, 1);
    const { txid } = await session.checkpoint("one");
    await session.checkpoint("two");
    const flushes = events.map(({ type, detail }) => [type, (detail as { txid?: number }).txid]);
    assertEquals(flushes, [["flushed", txid], ["flushed", txid]]);
  }));

Deno.test("writers in other processes are captured while they write, through folds of the log", () =>
  inSession(async (scene, session) => {
    const writers = [await Writer.start("python", session.checkout), await Writer.start("shell", session.checkout)];
    try {
      for (let round = 1; round <= 6; round++) {
        const jobs = writers.map((writer, n) =>
          writer.run({ seq: round, kind: "transaction", sql: [`INSERT INTO t VALUES('${n}-${round}')`] })
        );
        for (const outcome of await Promise.all(jobs)) assertEquals(outcome.result, "ack", outcome.text);
        await scene.pass(1_500);
        if (round % 2 === 0) await session.flush();
      }
    } finally {
      for (const writer of writers) await writer.end();
    }
    await session.flush();
    assertEquals(await stored(scene.store, "app"), rows(session.checkout));
    assertEquals(rows(session.checkout, "SELECT count(*) FROM t"), "12");
    assertEquals(session.status().rebases, 0);
  }));

Deno.test("status() reports the present lag and counts it as seen", () =>
  inSession(async (scene, session) => {
    assertEquals(session.status().capture_lag_bytes, 0);
    insert(session, 1);
    assert(session.status().capture_lag_bytes > 4096);
    assertEquals(session.status().capture_lag_bytes, 0);
    scene.clock.advance(2_000);
    assertEquals(session.status().durable_age_seconds, 2);
    await session.flush();
    assertEquals(session.status().durable_age_seconds, 0);
  }));

Deno.test("a session's objects carry the epoch of its lease, and its flush touches the branch", () =>
  inSession(async (scene, session) => {
    const { touched_at } = await scene.store.status(at("app"));
    await scene.pass(5_000, 1_000);
    insert(session, 1);
    await session.flush();
    assertEquals(scene.uploads.map((key) => key.split("/")[2]), [formatTxid(session.epoch)]);
    assertEquals(Date.parse((await scene.store.status(at("app"))).touched_at) - Date.parse(touched_at), 5_000);
  }));

Deno.test("a requested full copy is stored by the timer also without further commits", () =>
  inSession(async (scene, session) => {
    raiseDoubt(session);
    await scene.pass(2_000);
    assertEquals([scene.types, scene.uploads.length], ["flushed", 1]);
    assertEquals(session.status().rebases, 1);
  }, { flush_every_ms: 1_000 }));
