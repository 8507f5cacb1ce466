/** Merges into a database that other programs write to all the while: nothing of either is lost, and none has to wait long. */

import { assert, assertEquals } from "@std/assert";
import { mergeUnder, revertUnder } from "../../lib/capture/merge.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { scaled, scaledTest } from "../support/long.ts";
import { at, openAt, rows, sql, stored, withDirectory } from "../support/stores.ts";

/** Inserts and changes rows of its own until its input ends, and prints how many it has committed. */
const WRITER = `
import sqlite3, sys, threading
path, name = sys.argv[1], sys.argv[2]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
db = sqlite3.connect(path, timeout=5, isolation_level=None)
done = 0
while not ended.is_set():
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO sales(writer, n) VALUES (?, ?)", (name, done))
    db.execute("UPDATE orders SET seen = seen + 1 WHERE id = ?", (done % 100,))
    db.execute("COMMIT")
    done += 1
    ended.wait(0.002)
print(done)
`;

function startWriter(path: string, name: string) {
  const child = new Deno.Command("python3", {
    args: ["-c", WRITER, path, name],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  return async () => {
    await child.stdin.close();
    const { success, stdout, stderr } = await child.output();
    assert(success, new TextDecoder().decode(stderr));
    return Number(new TextDecoder().decode(stdout));
  };
}

scaledTest(
  "merges and reverts beside writers in other processes lose nothing of either",
  () =>
    withDirectory(async (directory) => {
      const store = await openAt(directory);
      try {
        await store.create("app");
        const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 100, snapshot_every: 16 });
        try {
          sql(
            session.checkout,
            "CREATE TABLE orders(id INTEGER PRIMARY KEY, state, seen INTEGER)",
            "CREATE TABLE sales(id INTEGER PRIMARY KEY, writer, n)",
            "CREATE INDEX by_state ON orders(state)",
            "WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 99)" +
              " INSERT INTO orders SELECT n, 'new', 0 FROM i",
          );
          await session.flush();
          const writers = Array.from({ length: 4 }, (_, n) => startWriter(session.checkout, `w${n}`));
          const rounds = scaled({ short: 5, long: 60, longest: 300 });
          for (let round = 0; round < rounds; round++) {
            await session.flushPending();
            await store.fork(at("app"), `try${round}`);
            const { path } = await store.checkout(at(`app@try${round}`));
            sql(path, `UPDATE orders SET state = 'r${round}' WHERE id % 5 = ${round % 5}`);
            await store.checkpoint(at(`app@try${round}`), "done");
            const merged = await mergeUnder(store, session, at(`app@try${round}`));
            assertEquals([merged.merged, merged.conflicts], [true, []]);
            if (round % 3 !== 2) continue;
            const reverted = await revertUnder(store, session, merged.merge!);
            assertEquals([reverted.merged, reverted.conflicts], [true, []]);
          }
          const committed = await Promise.all(writers.map((stop) => stop()));
          const total = committed.reduce((sum, count) => sum + count);
          assert(total > 0);
          const expected = Array.from({ length: 100 }, (_, id) => {
            const last = Array.from({ length: rounds }, (_, round) => round)
              .filter((round) => round % 5 === id % 5 && round % 3 !== 2).at(-1);
            return last === undefined ? "new" : `r${last}`;
          }).join(",");
          const read = [
            "SELECT state FROM orders ORDER BY id",
            "SELECT count(*) FROM sales",
            "SELECT sum(seen) FROM orders",
            "PRAGMA integrity_check",
          ];
          const here = read.map((query) => rows(session.checkout, query));
          assertEquals(here, [expected, `${total}`, `${total}`, "ok"]);
          await session.flush();
          for (const [i, query] of read.entries()) assertEquals(await stored(store, "app", query), here[i]);
        } finally {
          await session.close();
        }
      } finally {
        store.close();
      }
    }),
);
