/**
 * The database that the demo's agent works on: invoices whose stored sums are as wrong as the program, in a branch store
 * of their own.
 */

import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import type { Client } from "../../lib/client/client.ts";
import { type DaemonProcess, type OwnProcessOptions, runOwn, startStore } from "./own_process.ts";

export const INVOICES = "invoices";
export const CORRECTION = "UPDATE invoices SET cents = CAST(round(price * 100) AS INTEGER) * quantity " +
  "WHERE cents <> CAST(round(price * 100) AS INTEGER) * quantity";

/** Prices and quantities; as binary fractions, most of the prices are a little less than they look. */
const ROWS = [[19.99, 3], [4.35, 2], [8.2, 5], [12.5, 2], [1.15, 10]] as const;

export class Invoices implements AsyncDisposable {
  /** The sum of all invoices as it should be. */
  static readonly right_cents = ROWS.reduce(
    (total, [price, quantity]) => total + Math.round(price * 100) * quantity,
    0,
  );
  readonly socket: string;
  readonly #dir: string;
  readonly #store: string;
  readonly #own: OwnProcessOptions;
  #daemon: DaemonProcess<Client> | undefined;

  private constructor(dir: string, own: OwnProcessOptions) {
    this.#dir = dir;
    this.#own = own;
    this.#store = join(dir, "store");
    this.socket = join(dir, "store.sock");
  }

  /** Builds the database in `dir`, takes it into a store, and starts the daemon of that. */
  static async start(dir: string, own: OwnProcessOptions): Promise<Invoices> {
    const invoices = new Invoices(dir, own);
    const file = join(dir, "invoices.db");
    const db = new DatabaseSync(file);
    db.exec("CREATE TABLE invoices (id INTEGER PRIMARY KEY, price REAL, quantity INTEGER, cents INTEGER)");
    const insert = db.prepare("INSERT INTO invoices (price, quantity, cents) VALUES (?, ?, ?)");
    for (const [price, quantity] of ROWS) insert.run(price, quantity, Math.trunc(price * 100) * quantity);
    db.close();
    await runOwn(["create", INVOICES, "--from", file, "--store", invoices.#store], own);
    invoices.#daemon = await startStore({ store: invoices.#store, socket: invoices.socket, ...own });
    return invoices;
  }

  /** What the invoices of a branch sum up to, in cents. */
  async cents(branch: string): Promise<number> {
    const folder = await Deno.makeTempDir({ dir: this.#dir, prefix: "export-" });
    const file = join(folder, "invoices.db");
    await runOwn(["export", `${INVOICES}@${branch}`, file, "--store", this.#store], this.#own);
    const db = new DatabaseSync(file);
    try {
      return Number(db.prepare("SELECT sum(cents) AS cents FROM invoices").get()!.cents);
    } finally {
      db.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
  }
}
