/**
 * Bringing what one branch changed into another that has moved, beside `sqldiff` and the shell.
 */

import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import { mergeBranches } from "../../../lib/capture/merge.ts";
import { CaptureSession } from "../../../lib/capture/session.ts";
import { OUTRIGHT } from "../../support/stores.ts";
import type { BenchCase } from "../bench.ts";
import { output, run } from "../process.ts";
import { elapsed, interleave, type Measure } from "../stats.ts";
import { DB, MAIN, removeShopStore, type ShopStore, shopStore } from "./_store.ts";
import { QUIET } from "./session.ts";

const ROWS = 1_000;

/** Merging. */
export const merge: BenchCase = {
  name: "merge",
  title: "Merge what a branch changed",
  method: `A branch changes ${ROWS} orders, and the branch that it was forked from changes other ones meanwhile. ` +
    "`taskd merge` compares from the fork, row by row and value by value, and stores the result. By hand: `sqldiff` of the file as " +
    "it was and as it became, and the shell runs what it prints on the file that moved, where it overwrites what both have changed.",
  places: "plain",
  async run(bench, place) {
    const by_hand = await output("sqldiff", ["--help"]) !== undefined;
    if (!by_hand) bench.skip("sqldiff and sqlite3", "they are not installed");
    for (const size_mb of bench.pick([100, 1_024], [12])) {
      const shop = await shopStore(bench, place, size_mb);
      if (shop === undefined) continue;
      const locked: number[] = [];
      const subjects: Record<string, Measure> = {
        "taskd merge": async (round) => {
          const from = { db: DB, branch: `agent-${round + 10}` };
          await shop.store.fork(MAIN, from.branch);
          await change(shop, from, round, 0);
          await change(shop, MAIN, round, 1);
          let lock_ms = 0;
          const ms = await elapsed(async () => lock_ms = (await mergeBranches(shop.store, from, MAIN)).locked_ms);
          if (round >= 0) locked.push(lock_ms);
          await shop.store.destroy(from, OUTRIGHT);
          return ms;
        },
      };
      if (by_hand) subjects["sqldiff and sqlite3"] = await patching(shop.file, join(place.dir, `by-hand-${size_mb}`));
      const taken = await interleave(subjects, { samples: bench.pick(8, 3), budget_ms: 120_000 });
      for (const [subject, samples] of Object.entries(taken)) {
        bench.add(place, subject, "ms", samples, { size_mb, beside: "taskd merge" });
      }
      const target = { value: 50, is: "at_most" } as const;
      bench.add(place, "taskd merge, write lock held", "ms", locked, { size_mb, target });
      await removeShopStore(shop);
    }
  },
};

/** Changes rows that no other `part` of a round changes, and stores that. */
async function change({ store }: ShopStore, address: typeof MAIN, round: number, part: number): Promise<void> {
  const session = await CaptureSession.open(store, address, QUIET);
  try {
    edit(session.checkout, round, part);
  } finally {
    await session.close();
  }
}

function edit(path: string, round: number, part: number): void {
  using db = new DatabaseSync(path, { timeout: 20_000 });
  const [step, offset] = [Math.floor(countOf(db) / ROWS), 2 * (round + 1) + part];
  db.prepare("UPDATE orders SET status = ? WHERE id % ? = ?").run(`r${round}.${part}`, step, offset % step);
}

function countOf(db: DatabaseSync): number {
  return Number(db.prepare("SELECT count(*) AS n FROM orders").get()!.n);
}

/** The file as it was, as a branch made it, and as the application has it: a patch from the first two onto the third. */
async function patching(file: string, dir: string): Promise<Measure> {
  await Deno.mkdir(dir);
  const [was, became, moved] = ["was", "became", "moved"].map((name) => join(dir, `${name}.db`)) as [
    string,
    string,
    string,
  ];
  for (const path of [was, moved]) await Deno.copyFile(file, path);
  return async (round) => {
    await Deno.copyFile(was, became);
    edit(became, round, 0);
    edit(moved, round, 1);
    return await elapsed(() =>
      run("sh", ["-ec", 'sqldiff --transaction "$1" "$2" | sqlite3 "$3"', "sh", was, became, moved])
    );
  };
}
