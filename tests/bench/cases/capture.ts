/**
 * What a session costs the application, and whether it keeps up.
 */

import { CaptureSession } from "../../../lib/capture/session.ts";
import type { Bench, BenchCase } from "../bench.ts";
import { commitOn } from "../committer_process.ts";
import type { Place } from "../file_systems.ts";
import { interleave, type Measure, sample } from "../stats.ts";
import { MAIN, removeShopStore, type ShopStore, shopStore } from "./_store.ts";
import { QUIET } from "./session.ts";

const PER_SECOND = 5_000;
// How often lag is looked at while the application writes, and while it is awaited to be nil.
const POLL_MS = 10;
const AWAIT_MS = 1;
const AWAIT_LIMIT_MS = 30_000;

/** Keeping up. */
export const capture: BenchCase = {
  name: "capture",
  title: "Keep up with an application",
  method:
    `An application in another process commits ${PER_SECOND} transactions of two rows each second; the session flushes every 5 s. Lag is the bytes ` +
    "committed and not yet captured; `lag back to 0` is counted from the last commit.",
  places: "each",
  async run(bench, place) {
    const size_mb = bench.pick(100, 12);
    const shop = await shopStore(bench, place, size_mb);
    if (shop === undefined) return;
    const session = await CaptureSession.open(shop.store, MAIN, { flush_every_ms: 5_000, snapshot_every: 1_000_000 });
    const lag: number[] = [];
    const rates: number[] = [];
    const settled = await sample(async () => {
      const burst = await watchBurst(session, bench.pick(10_000, 1_500), lag);
      rates.push(burst.rate);
      return burst.settled_ms;
    }, { samples: bench.pick(4, 3), warmup: 0 });
    await session.close();
    const reached = { value: PER_SECOND * 0.98, is: "at_least" } as const;
    bench.add(place, "transactions committed", "tx/s", rates, { size_mb, target: reached });
    bench.add(place, "lag while they run", "bytes", lag, { size_mb });
    bench.add(place, "lag back to 0", "ms", settled, { size_mb, target: { value: 100, is: "at_most" } });
    await removeShopStore(shop);
  },
};

async function watchBurst(
  session: CaptureSession,
  duration_ms: number,
  lag: number[],
): Promise<{ rate: number; settled_ms: number }> {
  let watch: ReturnType<typeof setInterval> | undefined;
  const committed = await commitOn(
    session.checkout,
    { synchronous: "NORMAL", duration_ms, per_second: PER_SECOND },
    () => {
      watch = setInterval(() => lag.push(session.status().capture_lag_bytes), POLL_MS);
    },
  );
  clearInterval(watch);
  const limit = performance.now() + AWAIT_LIMIT_MS;
  while (session.status().capture_lag_bytes > 0) {
    if (performance.now() > limit) throw new Error("The session does not catch up");
    await new Promise((resolve) => setTimeout(resolve, AWAIT_MS));
  }
  const now_ms = performance.timeOrigin + performance.now();
  return { rate: committed.transactions / (committed.duration_ms / 1_000), settled_ms: now_ms - committed.ended_at_ms };
}

/** The application's own rate. */
export const commits: BenchCase = {
  name: "commits",
  title: "The application's own commit rate",
  method: "An application commits as fast as it can, with a session open and without, in turns.",
  places: "each",
  async run(bench, place) {
    const size_mb = bench.pick(100, 12);
    const shop = await shopStore(bench, place, size_mb);
    if (shop === undefined) return;
    for (const synchronous of ["FULL", "NORMAL"] as const) {
      await compareRates(bench, place, { shop, size_mb, synchronous });
    }
    await removeShopStore(shop);
  },
};

interface RateSubject {
  shop: ShopStore;
  size_mb: number;
  synchronous: "FULL" | "NORMAL";
}

async function compareRates(bench: Bench, place: Place, { shop, size_mb, synchronous }: RateSubject): Promise<void> {
  const { path } = await shop.store.checkout(MAIN, { force: true });
  const options = { synchronous, duration_ms: bench.pick(3_000, 500), per_second: 0 };
  const rate = async () => {
    const { transactions, duration_ms } = await commitOn(path, options);
    return transactions / (duration_ms / 1_000);
  };
  const under: Measure = async () => {
    const session = await CaptureSession.open(shop.store, MAIN, { ...QUIET, flush_every_ms: 30_000 });
    // What the round before wrote without a session is stored first: it is not part of the question.
    await session.flush();
    const reached = await rate();
    await session.close();
    return reached;
  };
  const [without, with_session] = [`${synchronous}, no session`, `${synchronous}, session open`];
  const taken = await interleave({ [without]: rate, [with_session]: under }, { samples: bench.pick(10, 3) });
  for (const [subject, samples] of Object.entries(taken)) bench.add(place, subject, "tx/s", samples, { size_mb });
  const shares = taken[with_session]!.map((value, round) => 100 * value / taken[without]![round]!);
  const target = { value: 95, is: "at_least" } as const;
  bench.add(place, `${synchronous}, share kept`, "%", shares, { size_mb, target });
}
