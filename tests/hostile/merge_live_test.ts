/** Merges into a database that other programs write to all the while: nothing of either is lost, and none has to wait long. */

import { assert, assertEquals } from "@std/assert";
import { mergeUnder, revertUnder } from "../../lib/capture/merge.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { systemClock } from "../../lib/clock.ts";
import { scaled, scaledTest } from "../support/long.ts";
import { at, openAt, rows, sql, stored, withDirectory } from "../support/stores.ts";

const INSERT = "INSERT INTO sales(writer, n) VALUES (?, ?)";
const UPDATE = "UPDATE orders SET seen = seen + 1 WHERE id = ?";

/**
 * Programs that insert and change rows of their own until SIGTERM, and print how many times they have committed. The shell
 * opens the database anew each time; the others stay connected.
 */
const WRITERS: Readonly<Record<string, { count: number; command: string; args: string[] }>> = {
  python: {
    count: 3,
    command: "python3",
    args: [
      "-c",
      `
import signal, sqlite3, sys, threading
path, name = sys.argv[1], sys.argv[2]
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
db = sqlite3.connect(path, timeout=5, isolation_level=None)
done = 0
while not ended.is_set():
    db.execute("BEGIN IMMEDIATE")
    db.execute("${INSERT}", (name, done))
    db.execute("${UPDATE}", (done % 100,))
    db.execute("COMMIT")
    done += 1
    ended.wait(0.002)
print(done)
`,
    ],
  },
  shell: {
    count: 3,
    command: "sh",
    args: [
      "-c",
      `
trap 'ended=1' TERM
done=0
while [ -z "$ended" ]; do
  sqlite3 -batch -cmd ".timeout 5000" "$1" "BEGIN IMMEDIATE; ${INSERT.replace("?, ?", "'$2', $done")};
    ${UPDATE.replace("?", "$done % 100")}; COMMIT" || exit 1
  done=$((done + 1))
  sleep 0.01
done
echo $done
`,
      "sh",
    ],
  },
  "node:sqlite": {
    count: 2,
    command: Deno.execPath(),
    args: [
      "eval",
      `
import { DatabaseSync } from "node:sqlite";
const [path, name] = Deno.args;
let ended = false;
Deno.addSignalListener("SIGTERM", () => ended = true);
const db = new DatabaseSync(path, { timeout: 5_000 });
const [insert, update] = [db.prepare("${INSERT}"), db.prepare("${UPDATE}")];
let done = 0;
for (; !ended; done++) {
  db.exec("BEGIN IMMEDIATE");
  insert.run(name, done);
  update.run(done % 100);
  db.exec("COMMIT");
  await new Promise((resolve) => setTimeout(resolve, 2));
}
db.close();
console.log(done);
Deno.exit();
`,
    ],
  },
};

/** All of them; `stop` resolves with how often each has committed. */
function startWriters(path: string): Disposable & { count: number; stop: () => Promise<number[]> } {
  const children = Object.entries(WRITERS).flatMap(([program, { count, command, args }]) =>
    Array.from({ length: count }, (_, n) => {
      const name = `${program} ${n}`;
      const piped = { stdout: "piped", stderr: "piped" } as const;
      return { name, child: new Deno.Command(command, { args: [...args, path, name], ...piped }).spawn() };
    })
  );
  const running = new Set(children.map(({ child }) => child));
  return {
    count: children.length,
    stop: () =>
      Promise.all(children.map(async ({ name, child }) => {
        child.kill();
        const { success, stdout, stderr } = await child.output();
        running.delete(child);
        assert(success, `${name}: ${new TextDecoder().decode(stderr)}`);
        return Number(new TextDecoder().decode(stdout));
      })),
    [Symbol.dispose]: () => running.forEach((child) => child.kill("SIGKILL")),
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
          using writers = startWriters(session.checkout);
          // Each is at work before the first merge.
          while (Number(rows(session.checkout, "SELECT count(DISTINCT writer) FROM sales")) < writers.count) {
            await systemClock.sleep(20);
          }
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
          const committed = await writers.stop();
          const total = committed.reduce((sum, count) => sum + count);
          assertEquals(committed.filter((count) => count === 0), []);
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
