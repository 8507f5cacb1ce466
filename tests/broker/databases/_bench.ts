/**
 * A broker together with a branch store: a real daemon in its own process, a database `shop` with a table of items, and
 * what tests ask both.
 */

import { DatabaseSync } from "node:sqlite";
import type { TaskRecord, TrustBrief } from "../../../broker/task/schema.ts";
import type { DecideRequest } from "../../../broker/task/database_schema.ts";
import type { Stage } from "../../../broker/task/stages.ts";
import { changesOf, openConflicts, resultsOf } from "../../../broker/databases/evidence.ts";
import { type PushRequest, readDigest } from "../../../broker/task/decisions.ts";
import type { Client } from "../../../lib/client/client.ts";
import { DaemonProcess, Place } from "../../daemon/daemon_process.ts";
import type { Scripted } from "../../support/model_server.ts";
import { type BenchOptions, BrokerBench, until } from "../engine/bench.ts";
import { StoreProxy } from "./_store_proxy.ts";

/** The schema and rows of `shop`. */
export const SHOP = `
  CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price INTEGER);
  INSERT INTO items VALUES (1, 'tea', 300), (2, 'coffee', 450), (3, 'cocoa', 400);`;

/** What the agent does to the data. */
export const RAISE = "UPDATE items SET price = 500 WHERE id = 2; INSERT INTO items VALUES (4, 'mate', 350)";

/** The agent runs `statements` on `shop` one after the other, writes `file` when there is one, and ends. */
export function agentDoes(statements: string[], file?: string): Scripted[] {
  return [
    ...statements.map((statement): Scripted => ({ calls: [["sql", { database: "shop", statement }]] })),
    ...(file === undefined ? [] : [{ calls: [["write", { path: file, content: "new\n" }]] } as Scripted]),
    { calls: [["finish", { summary: "done" }]] },
  ];
}

/** Both. */
export class DataBench implements AsyncDisposable {
  readonly place = new Place();
  #daemon: DaemonProcess | undefined;
  #broker: BrokerBench | undefined;
  /** Between the broker and the daemon, where a test asked for one. */
  #proxy: StoreProxy | undefined;

  private constructor() {}

  /** Starts the daemon with `shop`, and prepares a broker; `serve: false` leaves its start to the test. */
  static async start(options: BenchOptions & { serve?: false; proxy?: true } = {}): Promise<DataBench> {
    const bench = new DataBench();
    try {
      await bench.startDaemon();
      const seed = `${bench.place.directory}/seed.db`;
      sqlite(seed, SHOP);
      await bench.store((client) => client.call("create", { db: "shop", from: seed }));
      if (options.proxy) bench.#proxy = new StoreProxy(`${bench.place.directory}/proxy.sock`, bench.place.socket);
      const socket = bench.#proxy?.socket ?? bench.place.socket;
      const config = `branch_store:\n  socket: ${socket}\n${options.config ?? ""}`;
      bench.#broker = await BrokerBench.prepare({ runs_hooks: true, ...options, config });
      if (options.serve !== false) await bench.broker.serve();
      return bench;
    } catch (error) {
      await bench[Symbol.asyncDispose]();
      throw error;
    }
  }

  get broker(): BrokerBench {
    return this.#broker!;
  }

  get proxy(): StoreProxy {
    return this.#proxy!;
  }

  get daemon(): DaemonProcess {
    return this.#daemon!;
  }

  async startDaemon(): Promise<void> {
    this.#daemon = await DaemonProcess.start(this.place);
  }

  /** Asks the store. */
  async store<T>(work: (client: Client) => Promise<T>): Promise<T> {
    using client = await this.daemon.connect();
    return await work(client);
  }

  /** Names of the branches of `shop`. */
  async branches(): Promise<string[]> {
    const { branches } = await this.store((client) => client.call("branches", { db: "shop" }));
    return branches.map(({ branch }) => branch).sort();
  }

  /** Resolves when no branch of a task is left. */
  async released(): Promise<void> {
    await until(async () => (await this.branches()).every((branch) => !/^task-[0-9a-f]{32}$/.test(branch)));
  }

  /** Rows of a database at a branch, as the store has them. */
  async rows(branch = "main", sql = "SELECT * FROM items ORDER BY id", db = "shop"): Promise<unknown[]> {
    const file = `${this.place.directory}/${crypto.randomUUID()}.db`;
    await this.store((client) => client.call("export", { db, branch, path: file }));
    const opened = new DatabaseSync(file, { readOnly: true });
    try {
      return opened.prepare(sql).all().map((row) => Object.values(row));
    } finally {
      opened.close();
    }
  }

  /** Changes `shop` at a branch, as an application would. */
  async write(sql: string, branch = "main"): Promise<void> {
    const { checkout } = await this.store((client) => client.call("open", { db: "shop", branch }));
    sqlite(checkout, sql);
    await this.store((client) => client.call("close", { db: "shop", branch }));
  }

  /** Submits, and resolves at the gate or at the end. */
  async toGate(databases: string[] = ["shop"]): Promise<TaskRecord> {
    const { id } = await this.broker.submit({ databases });
    return await this.broker.reaches(id, "awaiting_approval");
  }

  /** Approves what is at the gate and resolves at the end, where it waits then, or once it is at `stage`. */
  async approve({ id, gate }: TaskRecord, stage?: Stage, decide?: DecideRequest): Promise<TaskRecord> {
    const { diff_sha256, second_look } = gate!;
    await this.broker.engine.approve(id, { diff_sha256, acknowledge: second_look, decide });
    const waits: Stage[] = ["push_failed", "data_waits"];
    return await this.broker.reaches(id, ...stage === undefined ? waits : [stage, ...waits]);
  }

  brief({ id }: TaskRecord): Promise<TrustBrief> {
    return this.broker.engine.brief(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
    this.#proxy?.[Symbol.dispose]();
    await this.#daemon?.[Symbol.asyncDispose]();
    await this.place[Symbol.asyncDispose]();
  }
}

/** All that `record` has in conflict, decided by one who has read it there. */
export function decided(record: TaskRecord, prefer: "ours" | "theirs"): PushRequest {
  return { decide: { prefer }, conflicts_read_sha256: readDigest(openConflicts(record)) };
}

/** Runs statements in a file. */
export function sqlite(path: string, sql: string): void {
  const db = new DatabaseSync(path);
  try {
    db.exec(sql);
  } finally {
    db.close();
  }
}

export { changesOf, resultsOf };
