/**
 * The branch store's half of the demo, on a shop, a real daemon and a stock SQLite client: an application writes, a
 * migration is tried on a branch, compared and promoted, and a crash loses nothing.
 */

import { join } from "@std/path/join";
import type { Client } from "../../lib/client/client.ts";
import type { DiffResult } from "../../lib/store/results.ts";
import type { JsonValue } from "../../lib/sqlite/diff_result.ts";
import { valueText } from "../../lib/sqlite/diff_text.ts";
import { type DaemonProcess, runOwn, startStore } from "./own_process.ts";
import { claim, formatCount, formatSize, type Narrator } from "./narrator.ts";
import { countOrders, placeOrders } from "./orders.ts";
import { buildShop, type Shop } from "./shop.ts";
import { runSql, type SqlProgram } from "./sql_client.ts";

export interface DataFacts {
  size_bytes: number;
  stored_bytes: number;
  /** Orders that the application placed under a session. */
  orders: number;
  /** The price of a product before the migration was promoted, and after it. */
  price: { before: string; promoted: string };
  /** Where what was before is kept. */
  safety_branch: string;
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
const BRANCH = "cents";
/** Turns every price into whole cents. */
const MIGRATION = ["products", "order_items"].map((table) =>
  `UPDATE ${table} SET price = CAST(round(price * 100) AS INTEGER)`
);

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
    const change = await this.#migrate(checkout);
    const crash = await this.#crash(shop, checkout);
    return { size_bytes: shop.size_bytes, stored_bytes, orders, ...change, ...crash };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
  }

  async #begin(): Promise<{ shop: Shop; stored_bytes: number }> {
    const file = join(this.#options.dir, "shop.db");
    const shop = await this.#narrator.step(
      "Build a shop",
      () => buildShop(file, this.#options.size_mb),
      ({ size_bytes, rows }) =>
        `${formatSize(size_bytes)}: ${formatCount(rows.customers)} customers, ${formatCount(rows.orders)} orders`,
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
    const { program } = this.#options;
    const { checkout } = await this.#narrator.step(
      "Open a live session",
      () => this.#client.call("open", { db: DB }),
      () => "shop@main is a plain SQLite file that any program may open",
    );
    const until = performance.now() + WRITING_MS;
    const orders = await this.#narrator.step(
      `${program.name} places orders`,
      () => placeOrders(program, { path: checkout, shop, status: "morning" }, () => performance.now() > until),
      (count) => `${formatCount(count)} transactions, and the daemon reads along in the write-ahead log`,
    );
    return { checkout, orders };
  }

  async #migrate(checkout: string): Promise<Pick<DataFacts, "price" | "safety_branch">> {
    await this.#narrator.step(
      "Fork a branch",
      () => this.#client.call("fork", { db: DB, new_branch: BRANCH }),
      ({ mode }) => `${BRANCH}: ${mode === "shared" ? "no page copied" : "copied"}`,
    );
    await this.#narrator.step("Prices to cents, on it", async () => {
      const branch = await this.#client.call("open", { db: DB, branch: BRANCH });
      await this.#ask(branch.checkout, MIGRATION);
      await this.#client.call("close", { db: DB, branch: BRANCH });
    }, () => "the application's branch is as it was");
    const diff = await this.#narrator.step(
      "Compare it with main",
      () => this.#client.call("diff", { a: `${DB}@main`, b: `${DB}@${BRANCH}`, rows: 3 }),
      ({ pages_changed }) => `${formatCount(pages_changed)} pages differ`,
    );
    this.#showDiff(diff);
    const [before] = await this.#ask(checkout, [PRICE]);
    const { safety_branch } = await this.#narrator.step(
      "Promote it onto main",
      () => this.#client.call("promote", { db: DB, branch: BRANCH, onto: "main", reopen: true }),
      ({ safety_branch }) => `under the application's feet; undo stays at ${safety_branch}`,
    );
    const [promoted] = await this.#ask(checkout, [PRICE]);
    this.#narrator.detail(`the price of product 1: ${before}, promoted ${promoted}`);
    claim(Number(promoted) === Math.round(Number(before) * 100), `the price ${before} is ${promoted} cents`);
    return { price: { before: before!, promoted: promoted! }, safety_branch: safety_branch! };
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

/** The columns that differ: `price 79.9 -> 7990`. */
function sideBySide(before: Record<string, JsonValue> = {}, after: Record<string, JsonValue> = {}): string {
  return Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => `${name} ${valueText(before[name])} -> ${valueText(after[name])}`).join(", ");
}
