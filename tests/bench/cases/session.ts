/**
 * Opening sessions and making writes durable.
 */

import { OUTRIGHT } from "../../support/stores.ts";
import { DatabaseSync } from "node:sqlite";
import { CaptureSession, type SessionOptions } from "../../../lib/capture/session.ts";
import type { Bench, BenchCase } from "../bench.ts";
import type { Place } from "../file_systems.ts";
import { elapsed, interleave, type Measure, sample } from "../stats.ts";
import { peers } from "../peers.ts";
import { DB, MAIN, removeShopStore, shopStore } from "./_store.ts";

/** No flush but an asked one, and never a snapshot: each figure is of one thing. */
export const QUIET: SessionOptions = { flush_every_ms: 0, snapshot_every: 1_000_000 };

/** Opening. */
export const open: BenchCase = {
  name: "open",
  title: "Open a session",
  method:
    "`session open` on a checkout that is there and clean. `fork + open + close` makes a branch, its file and a session, and ends the session.",
  places: "each",
  async run(bench, place) {
    const open_mb = bench.pick(512, 12);
    const large = await shopStore(bench, place, open_mb);
    if (large !== undefined) {
      await (await CaptureSession.open(large.store, MAIN, QUIET)).close();
      const samples = await sample(async () => {
        let session: CaptureSession | undefined;
        const ms = await elapsed(async () => session = await CaptureSession.open(large.store, MAIN, QUIET));
        await session!.close();
        return ms;
      }, { samples: bench.pick(50, 5) });
      const target = { value: 10, is: "at_most" } as const;
      bench.add(place, "taskd session open", "ms", samples, { size_mb: open_mb, target });
      await removeShopStore(large);
    }
    const size_mb = bench.pick(100, 12);
    const shop = await shopStore(bench, place, size_mb);
    if (shop === undefined) return;
    let count = 0;
    const whole: Measure = async () => {
      const branch = { db: DB, branch: `try-${++count}` };
      const ms = await elapsed(async () => {
        await shop.store.fork(MAIN, branch.branch);
        await (await CaptureSession.open(shop.store, branch, QUIET)).close();
      });
      await shop.store.destroy(branch, OUTRIGHT);
      return ms;
    };
    const subjects = { "taskd fork + open + close": whole, ...await peers(shop.file, place) };
    const taken = await interleave(subjects, { samples: bench.pick(30, 5), budget_ms: 30_000 });
    for (const [subject, samples] of Object.entries(taken)) {
      const target = subject.startsWith("taskd") ? { target: { value: 60, is: "at_most" } as const } : {};
      bench.add(place, subject, "ms", samples, { size_mb, beside: "taskd fork + open + close", ...target });
    }
    await removeShopStore(shop);
  },
};

const TRANSACTIONS: Readonly<Record<string, string>> = {
  "a product's stock": "UPDATE products SET stock = stock + 1 WHERE id = ?",
  "an order's status": "UPDATE orders SET status = status || '.' WHERE id = ?",
  "a new order": "INSERT INTO orders (customer_id, placed_at, status) VALUES (?, '2025-01-01 12:00:00', 'new')",
};

/** Flushing. */
export const flush: BenchCase = {
  name: "flush",
  title: "Flush one small transaction",
  method:
    "One transaction of an application, then a flush: the pages it changed are stored and the branch's head moves, both durable. A product shares its page " +
    "with other products' prose, an order its page with 90 others; a new order changes an index as well. The other way to make a copy elsewhere current is to " +
    "copy again.",
  places: "each",
  async run(bench, place) {
    const size_mb = bench.pick(100, 12);
    const shop = await shopStore(bench, place, size_mb);
    if (shop === undefined) return;
    const session = await CaptureSession.open(shop.store, MAIN, QUIET);
    const application = new DatabaseSync(session.checkout, { timeout: 20_000 });
    try {
      for (const [subject, sql] of Object.entries(TRANSACTIONS)) {
        await oneFlush(bench, place, { subject, size_mb, session, statement: application.prepare(sql) });
      }
    } finally {
      application.close();
      await session.close();
    }
    const copies = await interleave(await peers(shop.file, place), { samples: bench.pick(10, 3), budget_ms: 20_000 });
    for (const [subject, samples] of Object.entries(copies)) {
      bench.add(place, subject, "ms", samples, { size_mb, beside: "flush, a new order" });
    }
    await removeShopStore(shop);
  },
};

interface FlushSubject {
  subject: string;
  size_mb: number;
  session: CaptureSession;
  statement: ReturnType<DatabaseSync["prepare"]>;
}

async function oneFlush(
  bench: Bench,
  place: Place,
  { subject, size_mb, session, statement }: FlushSubject,
): Promise<void> {
  const bytes: number[] = [];
  const measure: Measure = async (round) => {
    statement.run(1 + (round + 100) * 13 % 700);
    let written = 0;
    const ms = await elapsed(async () => written = (await session.flush()).bytes);
    bytes.push(written);
    return ms;
  };
  const samples = await sample(measure, { samples: bench.pick(200, 10), warmup: 3 });
  bench.add(place, `flush, ${subject}`, "ms", samples, { size_mb, target: { value: 10, is: "at_most" } });
  bench.add(place, `stored, ${subject}`, "bytes", bytes, { size_mb, target: { value: 1_024, is: "at_most" } });
}
