import { assertEquals } from "@std/assert";
import { Application } from "../../tests/support/application.ts";
import { at, makeDatabase, openAt, withDirectory } from "../../tests/support/stores.ts";
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
