import { assert, assertEquals } from "@std/assert";
import { Application } from "../../tests/support/application.ts";
import { at, makeDatabase, openAt, stored, withDirectory } from "../../tests/support/stores.ts";
import { type Clock, systemClock } from "../clock.ts";
import { SAFETY_TTL_MS } from "../store/time_to_live.ts";
import { CaptureSession } from "./session.ts";

const ROUNDS = 3;

/**
 * What an application does as a session closes, and between that and the next opening; `kept` are the branches that each
 * such opening adds.
 */
const BESIDE: Record<string, { at_close: string; between: string; kept: number }> = {
  "is idle": { at_close: "", between: "", kept: 0 },
  "reads at the close": { at_close: "BEGIN; SELECT count(*) FROM t", between: "COMMIT", kept: 0 },
  "leaves no moment for a last look": { at_close: "BEGIN IMMEDIATE", between: "ROLLBACK", kept: 0 },
  "leaves none, and folds its log": {
    at_close: "BEGIN IMMEDIATE",
    between: "ROLLBACK; PRAGMA wal_checkpoint(TRUNCATE)",
    kept: 0,
  },
  "writes meanwhile": { at_close: "", between: "INSERT INTO t VALUES('meanwhile')", kept: 0 },
  "writes, and folds its log": {
    at_close: "BEGIN IMMEDIATE",
    between: "INSERT INTO t VALUES('meanwhile'); COMMIT; PRAGMA wal_checkpoint(TRUNCATE)",
    kept: 1,
  },
};

async function openAndClose(name: string): Promise<void> {
  const { at_close, between, kept } = BESIDE[name]!;
  await withDirectory(async (directory) => {
    makeDatabase(`${directory}/source.db`, "begin");
    using store = await openAt(`${directory}/store`);
    await store.create("app", { from: `${directory}/source.db` });
    const application = new Application((await store.checkout(at("app"))).path);
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 4 });
        assertEquals((await store.branches()).length, 1 + kept * round, `an application that ${name}, round ${round}`);
        await application.run("INSERT INTO t VALUES('captured')");
        await session.flush();
        await application.run(at_close);
        await session.close();
        await application.run(between);
      }
    } finally {
      await application.end();
    }
  });
}

Deno.test("an opening keeps the head as a branch only where the checkout differs from it", async () => {
  // All at once: a session waits a second for an application that has the write lock.
  await Promise.all(Object.keys(BESIDE).map(openAndClose));
});

Deno.test("heads kept at openings pile up for their time to live and no longer", async () => {
  await withDirectory(async (directory) => {
    const step_ms = 2 * 24 * 3600 * 1000;
    const most = Math.ceil(SAFETY_TTL_MS / step_ms);
    let ahead_ms = 0;
    const clock: Clock = {
      now: () => systemClock.now() + ahead_ms,
      monotonic: () => systemClock.monotonic() + ahead_ms,
      sleep: (ms, signal) => systemClock.sleep(ms, signal),
    };
    makeDatabase(`${directory}/source.db`, "begin");
    using store = await openAt(`${directory}/store`, { clock });
    await store.create("app", { from: `${directory}/source.db` });
    const application = new Application((await store.checkout(at("app"))).path);
    const kept: string[] = [];
    try {
      for (let round = 0; round < most + 3; round++) {
        const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 4 });
        const { recovery } = session;
        assertEquals(recovery?.outcome, round === 0 ? undefined : "kept_both");
        if (recovery?.safety_branch !== undefined) kept.push(recovery.safety_branch);
        // No row of a flush is in the checkout any more when it is taken up: only what is kept has it.
        for (const [index, branch] of kept.slice(-most).entries()) {
          const flushed = kept.length - Math.min(kept.length, most) + index;
          const rows = await stored(store, `app@${branch}`);
          assert(rows.includes(`flushed ${flushed};`), `round ${round}: ${branch} has ${rows}`);
        }
        await application.run(`INSERT INTO t VALUES('flushed ${round}' || char(59))`);
        await session.flush();
        await application.run("BEGIN IMMEDIATE");
        await session.close();
        await application.run("DELETE FROM t WHERE v LIKE 'flushed%'; COMMIT; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        ahead_ms += step_ms;
        await store.reapExpired();
        const count = (await store.branches("app")).length - 1;
        assert(count <= most, `round ${round}: ${count} branches`);
      }
    } finally {
      await application.end();
    }
    ahead_ms += SAFETY_TTL_MS;
    await store.reapExpired();
    assertEquals((await store.branches("app")).map(({ branch }) => branch), ["main"]);
  });
});
