/**
 * What a session costs an application that checkpoints and vacuums its database itself.
 */

import { CaptureSession } from "../../../lib/capture/session.ts";
import type { Bench, BenchCase } from "../bench.ts";
import { commitOn } from "../committer_process.ts";
import type { Place } from "../file_systems.ts";
import { interleave, nearestRank } from "../stats.ts";
import { Maintenance } from "../../support/maintenance.ts";
import { MAIN, removeShopStore, type ShopStore, shopStore } from "./_store.ts";
import { QUIET } from "./session.ts";

const WRITERS = 4;
const PER_SECOND = 100;
const BUSY_TIMEOUT_MS = 10_000;

const SCRIPTS = ["FULL", "RESTART", "TRUNCATE"].map((mode) => `PRAGMA wal_checkpoint(${mode})`).concat("VACUUM");

/** Beside an application's checkpoints. */
export const beside: BenchCase = {
  name: "beside",
  title: "An application that checkpoints and vacuums",
  method:
    `${WRITERS} processes commit ${PER_SECOND} transactions of two rows each second; one more runs a checkpoint or VACUUM each second or without a pause, ` +
    `with a session that flushes every 5 s and without, in turns. A commit is timed from BEGIN IMMEDIATE, so it has SQLite's own waiting in it.`,
  places: "plain",
  async run(bench, place) {
    for (const size_mb of bench.pick([12, 100], [12])) {
      const shop = await shopStore(bench, place, size_mb);
      if (shop === undefined) continue;
      for (const script of SCRIPTS) {
        for (const pause_ms of [1_000, 0]) await compare(bench, place, { shop, size_mb, script, pause_ms });
      }
      await removeShopStore(shop);
    }
  },
};

interface Subject {
  shop: ShopStore;
  size_mb: number;
  script: string;
  pause_ms: number;
}

/** What one round's writers saw. */
interface Round {
  took_ms: number[];
  at_ms: number[];
  stepped_aside: number;
}

async function compare(bench: Bench, place: Place, { shop, size_mb, script, pause_ms }: Subject): Promise<void> {
  const { path } = await shop.store.checkout(MAIN, { force: true });
  const duration_ms = bench.pick(6_000, 1_000);
  const name = `${/\((\w+)\)/.exec(script)?.[1] ?? script} ${pause_ms > 0 ? "each second" : "back to back"}`;
  const rounds: Record<"without" | "beside", Round[]> = { without: [], beside: [] };
  const write = async (): Promise<Round> => {
    const maintenance = new Maintenance(path, { script, pause_ms, busy_timeout_ms: BUSY_TIMEOUT_MS });
    const options = { synchronous: "NORMAL", duration_ms, per_second: PER_SECOND } as const;
    const all = await Promise.all(Array.from({ length: WRITERS }, () => commitOn(path, options)));
    await maintenance.end();
    return { took_ms: all.flatMap((one) => one.took_ms), at_ms: all.flatMap((one) => one.at_ms), stepped_aside: 0 };
  };
  await interleave({
    without: async (round) => {
      const seen = await write();
      return round < 0 ? 0 : rounds.without.push(seen);
    },
    beside: async (round) => {
      let stepped_aside = 0;
      const onEvent = ({ type }: { type: string }) => void (type === "stepped_aside" && stepped_aside++);
      const session = await CaptureSession.open(shop.store, MAIN, { ...QUIET, flush_every_ms: 5_000, onEvent });
      // What the round before wrote without a session is stored first: it is not part of the question.
      await session.flush();
      const seen = { ...await write(), stepped_aside };
      await session.close();
      return round < 0 ? 0 : rounds.beside.push(seen);
    },
  }, { samples: bench.pick(5, 3), budget_ms: 120_000 });
  const shares = rounds.beside.map(({ at_ms }, round) => 100 * at_ms.length / rounds.without[round]!.at_ms.length);
  bench.add(place, `${name}, commits kept`, "%", shares, { size_mb, target: { value: 80, is: "at_least" } });
  for (const [of, what] of [["no session", "without"], ["session open", "beside"]] as const) {
    const add = (figure: string, value: (round: Round) => number) =>
      bench.add(place, `${name}, ${of}, ${figure}`, "ms", rounds[what].map(value), { size_mb });
    add("median commit", ({ took_ms }) => nearestRank(took_ms, 0.5));
    add("p99 of commits", ({ took_ms }) => nearestRank(took_ms, 0.99));
    add("longest commit", ({ took_ms }) => nearestRank(took_ms, 1));
    add("longest pause of all writers", ({ at_ms }) => longestPause(at_ms));
  }
  const aside = rounds.beside.map(({ stepped_aside }) => stepped_aside);
  bench.add(place, `${name}, session out of the way`, "times", aside, { size_mb });
}

function longestPause(at_ms: readonly number[]): number {
  const sorted = at_ms.toSorted((a, b) => a - b);
  return sorted.reduce((longest, at, i) => Math.max(longest, at - (sorted[i - 1] ?? at)), 0);
}
