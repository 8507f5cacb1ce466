/**
 * An application for benchmarks, run as a process: it commits small transactions,
 * as fast as it can or at a rate, and says what it did.
 *
 * `committer.ts <database> <synchronous> <duration_ms> <per_second>` with 0 for as fast as it can.
 * It prints `ready`, waits for a line on stdin, then prints one line of JSON.
 */

import { DatabaseSync } from "node:sqlite";

/** What it did. */
export interface Committed {
  transactions: number;
  duration_ms: number;
  /** Milliseconds since 1970 of the last commit. */
  ended_at_ms: number;
  /** Milliseconds since 1970 of each commit, and how long its transaction took. */
  at_ms: number[];
  took_ms: number[];
}

if (import.meta.main) await main();

async function main(): Promise<void> {
  const [path, synchronous, duration, rate] = Deno.args;
  const db = new DatabaseSync(path!, { timeout: 20_000 });
  db.exec(`PRAGMA synchronous = ${synchronous}`);
  const products = Number(db.prepare("SELECT max(id) AS count FROM products").get()!.count);
  const update = db.prepare("UPDATE products SET stock = stock + 1 WHERE id = ?");
  const insert = db.prepare(
    "INSERT INTO orders (customer_id, placed_at, status) VALUES (?, '2025-01-01 12:00:00', 'new')",
  );
  const commit = (number: number) => {
    db.exec("BEGIN IMMEDIATE");
    update.run(1 + (number * 7_919) % products);
    insert.run(1 + number % 1_000);
    db.exec("COMMIT");
  };
  console.log("ready");
  await Deno.stdin.read(new Uint8Array(16));
  console.log(JSON.stringify(commitFor(Number(duration), Number(rate), commit)));
  db.close();
}

function commitFor(duration_ms: number, per_second: number, commit: (number: number) => void): Committed {
  const start = performance.now();
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const at_ms: number[] = [];
  const took_ms: number[] = [];
  let transactions = 0;
  for (;;) {
    const elapsed_ms = performance.now() - start;
    if (elapsed_ms >= duration_ms) break;
    if (per_second > 0 && transactions >= elapsed_ms * per_second / 1_000) Atomics.wait(pause, 0, 0, 0.2);
    else {
      const began = performance.now();
      commit(++transactions);
      const ended = performance.now();
      at_ms.push(performance.timeOrigin + ended);
      took_ms.push(ended - began);
    }
  }
  return {
    transactions,
    duration_ms: performance.now() - start,
    ended_at_ms: performance.timeOrigin + performance.now(),
    at_ms,
    took_ms,
  };
}
