/**
 * The branch store's half of the demo, on a real shop, a real daemon and a stock SQLite client:
 * an application writes, three migrations are tried on branches, the right one is
 * promoted, taken back and promoted again, and a crash loses nothing.
 */

import { join } from "@std/path/join";
import type { Client } from "../../lib/client/client.ts";
import type { DiffResult } from "../../lib/store/results.ts";
import type { JsonValue } from "../../lib/sqlite/diff_result.ts";
import { valueText } from "../../lib/sqlite/diff_text.ts";
import { type DaemonProcess, runOwn, startStore } from "./own_process.ts";
import { CHECKS, faultsOf, type Migration, MIGRATIONS } from "./migrations.ts";
import { claim, formatCount, formatSize, type Narrator } from "./narrator.ts";
import { countOrders, placeOrders } from "./orders.ts";
import { buildShop, type Shop } from "./shop.ts";
import { runSql, type SqlProgram } from "./sql_client.ts";

export interface DataFacts {
  size_bytes: number;
  stored_bytes: number;
  /** Orders that the application placed under a session. */
  orders: number;
  /** What was wrong with each migration; empty for the right one. */
  faults: Record<string, string[]>;
  winner: string;
  /** A price before, promoted, rolled back, and promoted again. */
  price: { before: string; promoted: string; rolled_back: string; again: string };
  /** Orders acknowledged to the application over the crash. */
  acknowledged: number;
  /** Of those, found in the checkout after the restart. */
  recovered: number;
  /** Of those, found in the store after one flush. */
  durable: number;
}

export interface DataStoryOptions {
  dir: string;
  size_mb: number;
  program: SqlProgram;
  narrator: Narrator;
  /** Ends it at once: whatever is under way fails, and its processes end. */
  signal: AbortSignal;
  entry: string;
}

// How long the application writes in the first scene, and how much in the last before the daemon is killed.
const WRITING_MS = 500;
const ORDERS_BEFORE_CRASH = 200;
const PRICE = "SELECT price FROM products WHERE id = 1";
const DB = "shop";

/** Runs it. Everything it starts has ended when the promise settles. */
export async function tellDataStory(options: DataStoryOptions): Promise<DataFacts> {
  await using story = new DataStory(options);
  return await story.tell();
}

class DataStory implements AsyncDisposable {
  readonly #options: DataStoryOptions;
  readonly #narrator: Narrator;
  readonly #store: string;
  #daemon: DaemonProcess<Client> | undefined;

  constructor(options: DataStoryOptions) {
    this.#options = options;
    this.#narrator = options.narrator;
    this.#store = join(options.dir, "store");
  }

  async tell(): Promise<DataFacts> {
    const { shop, stored_bytes } = await this.#begin();
    const { checkout, orders } = await this.#write(shop);
    const { faults, winner } = await this.#compete(checkout);
    const price = await this.#promote(checkout, winner);
    const crash = await this.#crash(shop, checkout);
    return { size_bytes: shop.size_bytes, stored_bytes, orders, faults, winner, price, ...crash };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
  }

  async #begin(): Promise<{ shop: Shop; stored_bytes: number }> {
    const file = join(this.#options.dir, "shop.db");
    const shop = await this.#narrator.step(
      "Build a shop",
      () => buildShop(file, { size_mb: this.#options.size_mb }),
      ({ size_bytes, rows }) =>
        `${formatSize(size_bytes)}: ${formatCount(rows.customers!)} customers, ${formatCount(rows.orders!)} orders, ` +
        `${formatCount(rows.reviews!)} reviews with full-text search`,
    );
    const words = ["create", DB, "--from", file, "--store", this.#store, "--json"];
    const { stored_bytes } = await this.#narrator.step(
      "Put it under taskd",
      async () => JSON.parse(await runOwn(words, this.#options)) as { stored_bytes: number },
      (created) => `shop@main, ${formatSize(created.stored_bytes)} in the store`,
    );
    await this.#start("Start the daemon");
    return { shop, stored_bytes };
  }

  async #write(shop: Shop): Promise<{ checkout: string; orders: number }> {
    const { checkout } = await this.#narrator.step(
      "Open a live session",
      () => this.#client.call("open", { db: DB }),
      () => "shop@main is a plain SQLite file that any program may open",
    );
    const until = performance.now() + WRITING_MS;
    const orders = await this.#narrator.step(
      `${this.#options.program.name} places orders`,
      () =>
        placeOrders(
          this.#options.program,
          { path: checkout, shop, status: "morning" },
          () => performance.now() > until,
        ),
      (count) => `${formatCount(count)} transactions, and the daemon reads along in the write-ahead log`,
    );
    await this.#narrator.step(
      "Checkpoint it",
      () => this.#client.call("checkpoint", { db: DB, name: "before" }),
      ({ pages, stored_bytes }) =>
        pages === 0
          ? "named before; the flush timer had stored everything already"
          : `named before: ${formatCount(pages)} changed pages, ${formatSize(stored_bytes)}`,
    );
    return { checkout, orders };
  }

  async #compete(checkout: string): Promise<{ faults: Record<string, string[]>; winner: string }> {
    const names = MIGRATIONS.map((migration) => migration.name);
    await this.#narrator.step(
      "Fork three branches",
      () => allOf(names.map((new_branch) => this.#client.call("fork", { db: DB, new_branch }))),
      (forks) => `${names.join(", ")}: ${forks.every((fork) => fork.mode === "shared") ? "no page copied" : "copied"}`,
    );
    const before = await this.#ask(checkout, CHECKS.map((check) => check.before));
    const outcomes = await this.#narrator.step(
      "Prices to cents, 3 ways",
      () => allOf(MIGRATIONS.map((migration) => this.#migrate(migration, before))),
      () => "each on its own branch, all at once, none with an error",
    );
    const faults: Record<string, string[]> = {};
    for (const [index, { name, idea }] of MIGRATIONS.entries()) {
      faults[name] = outcomes[index]!;
      const verdict = faults[name].length === 0 ? "right" : `wrong: ${faults[name].join(", ")}`;
      const tone = faults[name].length === 0 ? "good" : "bad";
      this.#narrator.detail(`${name.padEnd(9)} ${idea.padEnd(44)} ${verdict}`, tone);
    }
    const right = names.filter((name) => faults[name]!.length === 0);
    claim(right.length === 1, `one migration is right, and the checks pass ${right.length}`);
    return { faults, winner: right[0]! };
  }

  async #migrate({ name, statements }: Migration, before: readonly string[]): Promise<string[]> {
    const { checkout } = await this.#client.call("open", { db: DB, branch: name });
    await this.#ask(checkout, statements);
    const after = await this.#ask(checkout, CHECKS.map(({ before, after = before }) => after));
    await this.#client.call("close", { db: DB, branch: name });
    return faultsOf(before, after);
  }

  async #promote(checkout: string, winner: string): Promise<DataFacts["price"]> {
    const [before] = await this.#ask(checkout, [PRICE]);
    const diff = await this.#narrator.step(
      `Compare ${winner} with main`,
      () => this.#client.call("diff", { a: `${DB}@main`, b: `${DB}@${winner}`, rows: 3 }),
      ({ pages_changed }) => `${formatCount(pages_changed)} pages differ`,
    );
    this.#showDiff(diff);
    const promote = () => this.#client.call("promote", { db: DB, branch: winner, onto: "main", reopen: true });
    await this.#narrator.step(
      `Promote ${winner} onto main`,
      promote,
      ({ safety_branch }) => `under the application's feet; undo stays at ${safety_branch}`,
    );
    const [promoted] = await this.#ask(checkout, [PRICE]);
    const { rolled_back, session } = await this.#narrator.step(
      "Roll back, promote again",
      async () => {
        await this.#client.call("rollback", { db: DB, to: "before", reopen: true });
        const [rolled_back] = await this.#ask(checkout, [PRICE]);
        return { rolled_back, session: (await promote()).session };
      },
      () => "nothing is ever overwritten, so both take a moment",
    );
    claim(session?.checkout === checkout, `the session is open again on ${checkout}`);
    const [again] = await this.#ask(checkout, [PRICE]);
    this.#narrator.detail(
      `the price of product 1: ${before}, promoted ${promoted}, rolled back ${rolled_back}, promoted ${again}`,
    );
    const cents = String(Math.round(Number(before) * 100));
    claim(promoted === cents && again === cents, `promoting changes the price to ${cents} cents`);
    claim(rolled_back === before, `rolling back restores the price ${before}`);
    return { before: before!, promoted: promoted!, rolled_back: rolled_back!, again: again! };
  }

  #showDiff(diff: DiffResult): void {
    for (const { table, rows_changed, rows_added, rows_removed, rows } of diff.tables) {
      if (rows_changed + rows_added + rows_removed === 0) continue;
      const example = rows?.[0];
      const shown = example === undefined ? "" : `, such as ${sideBySide(example.before, example.after)}`;
      this.#narrator.detail(
        `${table.padEnd(12)} ${
          formatCount(rows_changed)
        } changed, ${rows_added} added, ${rows_removed} removed${shown}`,
      );
    }
  }

  async #crash(shop: Shop, checkout: string): Promise<Pick<DataFacts, "acknowledged" | "recovered" | "durable">> {
    const status = "crash";
    let acknowledged = 0;
    let stop = false;
    const underWay = Promise.withResolvers<void>();
    const writing = placeOrders(this.#options.program, { path: checkout, shop, status }, (sofar) => {
      acknowledged = sofar;
      if (sofar === ORDERS_BEFORE_CRASH) underWay.resolve();
      return stop;
    });
    try {
      // Whichever comes first: a client that fails must not leave the story waiting.
      await Promise.race([underWay.promise, writing]);
      await this.#narrator.step(
        `kill -9 ${this.#daemon!.pid}`,
        () => this.#daemon!.kill(),
        () => `the daemon dies at order ${formatCount(acknowledged)}; ${this.#options.program.name} keeps writing`,
      );
      await this.#start("Start it again");
      await this.#narrator.step(
        "Open the session again",
        () => this.#client.call("open", { db: DB }),
        ({ epoch }) =>
          `at order ${formatCount(acknowledged)}, in epoch ${epoch}: what the dead one left half done is void`,
      );
    } finally {
      stop = true;
      await Promise.allSettled([writing]);
    }
    acknowledged = await writing;
    const [recovered] = await this.#ask(checkout, [countOrders(status)]);
    await this.#narrator.step(
      "Flush",
      () => this.#client.call("flush", { db: DB }),
      ({ kind, bytes }) =>
        kind === "none" ? "the timer was faster" : `a ${kind} of ${formatSize(bytes)} is durable in the store`,
    );
    const exported = join(this.#options.dir, "exported.db");
    const [durable] = await this.#narrator.step(
      "Restore from the store",
      async () => {
        await runOwn(["export", DB, exported, "--store", this.#store], this.#options);
        return await this.#ask(exported, [countOrders(status), "PRAGMA integrity_check"]);
      },
      ([count, integrity]) => `${formatCount(Number(count))} orders, integrity ${integrity}`,
    );
    claim(Number(recovered) === acknowledged, `${acknowledged} acknowledged orders are there, and ${recovered} are`);
    claim(Number(durable) === acknowledged, `${acknowledged} acknowledged orders are durable, and ${durable} are`);
    this.#narrator.detail(
      `acknowledged ${formatCount(acknowledged)}, in the branch ${formatCount(Number(recovered))}, ` +
        `in the store ${formatCount(Number(durable))}: nothing is lost`,
      "good",
    );
    await this.#narrator.step("Stop the daemon", () => this.#daemon!.stop(), () => "sessions flushed and closed");
    return { acknowledged, recovered: Number(recovered), durable: Number(durable) };
  }

  async #start(title: string): Promise<void> {
    const { dir, entry, signal } = this.#options;
    const daemon = {
      store: this.#store,
      socket: join(dir, "taskd.sock"),
      flags: ["--flush-every", "1s"],
      entry,
      signal,
    };
    await this.#narrator.step(title, async () => {
      this.#daemon = await startStore(daemon);
    }, () => `process ${this.#daemon!.pid}`);
  }

  get #client() {
    return this.#daemon!.client;
  }

  async #ask(path: string, statements: readonly string[]): Promise<string[]> {
    const [, ...rows] = await runSql(this.#options.program, path, ["PRAGMA busy_timeout = 20000", ...statements]);
    return rows;
  }
}

/** Waits until all have ended, even when one fails: nothing runs on behind a failure. */
async function allOf<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

/** The columns that differ: `price 79.9 -> 7990`. */
function sideBySide(before: Record<string, JsonValue> = {}, after: Record<string, JsonValue> = {}): string {
  return Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => `${name} ${valueText(before[name])} -> ${valueText(after[name])}`).join(", ");
}
