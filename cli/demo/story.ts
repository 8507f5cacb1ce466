/**
 * What the demo shows: a shop sells all the while, into a database that a daemon captures. An agent fixes the program
 * that wrote its invoices, and the invoices, in a sandbox and on branches; a person decides; and what they approve is
 * merged into the open database. Both daemons are killed in between. Then a migration is tried on a branch and merged,
 * and a bad statement is taken back. Nothing that was sold is lost.
 */

import { join } from "@std/path/join";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import { randomHex, systemClock, systemRandom } from "../../lib/clock.ts";
import { ScriptedModel } from "../model/scripted_model.ts";
import { BrokerHome, BUDGET_USD, type DemoHost, type DemoRuntime, PRICES } from "./broker_home.ts";
import { DaemonProcess, type OwnProcessOptions } from "./own_process.ts";
import { removeNetwork } from "./podman.ts";
import { Repository, writeDecisions } from "./repository.ts";
import { FIX, scriptFor } from "./scripts.ts";
import { Seller } from "./seller.ts";
import { buildShop, SHOP } from "./shop.ts";
import { formatCount, ShellTranscript, type ShellTranscriptOptions } from "./transcript.ts";

export interface DemoFacts {
  runtime: DemoRuntime;
  task_id: string;
  /** What the gateway metered, and what the model's own count comes to, in USD. */
  spent_usd: number;
  model_usd: number;
  requests: number;
  /** Attempts of the agent to get at what it must not, all refused. */
  refused: string[];
  /** What the person read and approved first, and what landed once conflicts were decided. */
  diffs: { before: string; after: string };
  second_look: string[];
  /** Rows of the trace before the crash and after it; it is intact. */
  rows: { before: number; after: number };
  branch: string;
  /** What the test said before, and says on the pushed branch. */
  test: { before: string; after: string };
  /** Cents of each invoice before the task landed and after it. */
  invoices: { before: number[]; after: number[] };
  /** Values that both the task and the shop had changed. */
  conflicts: number;
  /** Orders acknowledged when both daemons were killed, and found when they were back. */
  crash: { acknowledged: number; found: number };
  /** Cents of product 1 where the migration was merged. */
  merged_cents: number;
  /** Sum of all prices before the bad statement, after it, and once it was taken back. */
  prices: { before: number; bad: number; after: number };
  /** Orders at no price before it was taken back, and after. */
  for_nothing: { before: number; after: number };
  /** Orders acknowledged to the application in all, and those found in a copy restored from the store. */
  acknowledged: number;
  restored: number;
}

export interface StoryOptions extends Pick<ShellTranscriptOptions, "colour" | "print" | "sqlite3"> {
  /** An empty directory that no other user may enter. */
  dir: string;
  host: DemoHost;
  runtime: DemoRuntime;
  size_mb: number;
  /** Ends it at once: whatever is under way fails, and its processes end. */
  signal: AbortSignal;
  entry: string;
}

/** How long ago the bad statement's database was a good one. */
const AGO_MS = 10_000;
/** Orders that are sold before something is done about it. */
const SOME_ORDERS = 20;
/** A copy of the database, as any program reads it. */
const OPEN = `$(taskd path ${SHOP})`;

/** Shows it. Everything it starts has ended when the promise settles. */
export async function showStory(options: StoryOptions): Promise<{ facts: DemoFacts; transcript: ShellTranscript }> {
  await using story = new Story(options);
  return { facts: await story.show(), transcript: story.transcript };
}

class Story implements AsyncDisposable {
  readonly #options: StoryOptions;
  readonly #cleanup = new AsyncDisposableStack();
  readonly #model: ScriptedModel;
  transcript!: ShellTranscript;
  #home!: BrokerHome;
  #repository!: Repository;
  #store: DaemonProcess<void> | undefined;
  #broker: DaemonProcess<BrokerClient> | undefined;
  #seller!: Seller;
  /** Orders that the shop had before it came under taskd. */
  #history = 0;

  constructor(options: StoryOptions) {
    this.#options = options;
    this.#model = this.#cleanup.use(new ScriptedModel([scriptFor(options.runtime)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
    await this.#cleanup.disposeAsync();
    await this.#store?.[Symbol.asyncDispose]();
  }

  async show(): Promise<DemoFacts> {
    const { runtime } = this.#options;
    const { before, created } = await this.#open();
    const { id, refused } = await this.#work();
    // The ids above the sandbox are for machines.
    const approve = await this.#review(id, (lines) => from(lines, "sandbox"));
    const waiting = await this.#task(id);
    const invoices = await this.#whileItWaits();
    const crash = await this.#crash(waiting);
    const landed = await this.#land(id, approve);
    const test = await this.#repository.test(landed.branch);
    this.transcript.claim(test.passed, `its test on ${landed.branch}: ${test.says}`);
    const task = await this.#task(id);
    this.transcript.chapter("Branches of the open database, and a statement taken back");
    const merged_cents = await this.#migrate();
    const undone = await this.#takeBack(created);
    const sales = await this.#count();
    return {
      runtime,
      task_id: id,
      spent_usd: task.spend!.usd,
      model_usd: this.#model.cost(PRICES, FIX),
      requests: task.spend!.requests,
      refused,
      second_look: [...waiting.gate!.second_look],
      rows: { before: rowsOf(waiting), after: rowsOf(task) },
      test: { before, after: test.says },
      invoices: { before: invoices, after: landed.invoices },
      diffs: { before: waiting.gate!.diff_sha256, after: task.gate!.diff_sha256 },
      branch: landed.branch,
      conflicts: landed.conflicts,
      crash,
      merged_cents,
      ...undone,
      ...sales,
    };
  }

  /** Makes what the story is about, and opens the shop. */
  async #open(): Promise<{ before: string; created: number }> {
    const { dir, runtime, host, entry, signal, size_mb, sqlite3, ...shown } = this.#options;
    const api_key = `sk-demo-${randomHex(systemRandom, 16)}`;
    const model_url = this.#model.url;
    const home = this.#home = await BrokerHome.make({ dir, host, runtime, model_url, api_key, entry, signal });
    if (runtime === "podman") this.#cleanup.defer(() => removeNetwork(home.network));
    const transcript = this.transcript = new ShellTranscript({ ...shown, sqlite3, process: home.process });
    transcript.chapter("An agent fixes a program and its data, and a person decides what leaves");
    const repository = this.#repository = await Repository.make(dir, signal);
    this.#history = buildShop(join(dir, "shop.db"), size_mb);
    transcript.say("billing.git: a program, its test, and a note to AI agents that is up to no good.");
    transcript.say("shop.db: a shop; the same program has written its invoices.");
    const { passed, says } = await repository.test("main");
    transcript.claim(!passed, `the test: ${says}`);
    await transcript.run(`taskd create ${SHOP} --from shop.db`);
    const created = systemClock.monotonic();
    await this.#startStore();
    const { stdout: checkout } = await transcript.run(`taskd session open ${SHOP}`);
    this.#seller = this.#cleanup.use(new Seller(sqlite3, checkout, signal));
    await this.#seller.sells(SOME_ORDERS);
    transcript.say(`${sqlite3[0]} sells into that file from now on, one transaction after the other.`);
    await this.#startBroker();
    transcript.say(`A task may spend $${BUDGET_USD.toFixed(2)}; the agent's model follows a script.`);
    return { before: says, created };
  }

  async #startStore(): Promise<void> {
    this.#store = await this.#daemon(
      "serve --flush-every 1s",
      (process) => DaemonProcess.start(["serve", "--flush-every", "1s"], process, () => {}),
    );
  }

  async #startBroker(): Promise<void> {
    this.#broker = await this.#daemon("start", () => this.#home.start());
  }

  async #daemon<T>(words: string, start: (process: OwnProcessOptions) => Promise<DaemonProcess<T>>) {
    const daemon = await this.transcript.does(`taskd ${words} &`, () => start(this.#home.process));
    this.#options.print(`[${daemon.pid}]`);
    return daemon;
  }

  #task(id: string): Promise<TaskView> {
    return this.#broker!.client.task(id);
  }

  async #work(): Promise<{ id: string; refused: string[] }> {
    const { stdout: id, lines } = await this.transcript.run(`taskd submit ./billing.git --database ${SHOP} "${FIX}"`);
    const refused = lines.filter((line) => / is refused/.test(line)).map((line) => line.trim());
    const { refused_egress, stage } = await this.#task(id);
    for (const { target, reason } of refused_egress) refused.push(`${target}: ${reason}`);
    this.transcript.claim(
      stage === "awaiting_approval" && refused.length > 0,
      `refused to the agent: ${refused.join("; ")}`,
    );
    return { id, refused };
  }

  /** Shows what a person is shown, from a line on; answers the command that approves exactly this. */
  async #review(id: string, shown: (lines: readonly string[]) => readonly string[]): Promise<string> {
    const colour = this.#options.colour ? " --color" : "";
    const { stdout } = await this.transcript.run(`taskd review ${id.slice(0, 12)}${colour}`, { show: shown });
    const last = stdout.split("\n").find((line) => line.startsWith("  taskd approve "))?.trim();
    // Of conflicts it says how they can be decided.
    const approve = last?.replace(/ --prefer ours\|theirs.*/, "");
    if (approve === undefined) throw new Error("review ends with the command that approves it");
    return approve;
  }

  /** The shop works on, also on rows that the task has changed. */
  async #whileItWaits(): Promise<number[]> {
    this.transcript.say(
      "While the task waits for a person, the shop cancels one invoice, and corrects another by hand.",
    );
    const change = "UPDATE invoices SET cents = 0 WHERE id = 3; UPDATE invoices SET cents = 1149 WHERE id = 5";
    await this.transcript.run(`sqlite3 ${OPEN} "${change}"`);
    return await this.#invoices();
  }

  async #invoices(): Promise<number[]> {
    return (await this.#ask("SELECT cents FROM invoices ORDER BY id")).map(Number);
  }

  /** Rows of the open database. */
  async #ask(sql: string): Promise<string[]> {
    return (await this.transcript.quietly(`sqlite3 ${OPEN} "${sql}"`)).split("\n");
  }

  async #orders(): Promise<number> {
    return Number((await this.#ask("SELECT count(*) FROM orders"))[0]) - this.#history;
  }

  /** Kills both daemons while the shop sells and the task waits. */
  async #crash(waiting: TaskView): Promise<DemoFacts["crash"]> {
    const { transcript } = this;
    const daemons = [this.#broker!, this.#store!];
    await transcript.does(`kill -9 ${daemons.map(({ pid }) => pid).join(" ")}`, async () => {
      await Promise.all(daemons.map((daemon) => daemon.kill()));
    });
    const acknowledged = this.#seller.sold;
    transcript.say(`Both daemons die at order ${formatCount(acknowledged)}; the shop sells on.`);
    await this.#startStore();
    await transcript.run(`taskd session open ${SHOP}`);
    await this.#startBroker();
    const found = await this.#orders();
    const task = await this.#task(waiting.id);
    const { stage, gate, trace } = task;
    transcript.claim(found >= acknowledged, `no order is lost: ${formatCount(found)} are there by now`);
    const same = stage === "awaiting_approval" && gate?.diff_sha256 === waiting.gate?.diff_sha256 && trace.intact;
    transcript.claim(same, `the task waits for the same diff; its trace of ${rowsOf(task)} rows is intact`);
    return { acknowledged, found };
  }

  /** Approves what was read, decides what is in conflict by then, and approves that. */
  async #land(id: string, approve: string) {
    const { transcript } = this;
    const before = this.#seller.sold;
    await transcript.run(approve, { status: 3 });
    const again = await this.#review(id, (lines) => {
      const conflicts = from(lines, "in conflict");
      return [...conflicts.slice(0, conflicts.indexOf("")), ...from(lines, "To approve")];
    });
    const { gate, pushed: early } = await this.#task(id);
    const conflicts = (gate!.conflicts ?? []).reduce((sum, { total }) => sum + total, 0);
    transcript.claim(
      conflicts === 2 && early === undefined,
      "nothing has landed, and the gate shows both sides: a person decides, value by value",
    );
    await writeDecisions(join(this.#options.dir, "decide.json"), [
      { db: SHOP, table: "invoices", key: { id: 5 }, column: "cents", take: "theirs" },
    ]);
    await transcript.run("cat decide.json");
    await transcript.run(`${again} --resolve decide.json --prefer ours`);
    const invoices = await this.#invoices();
    const right = [5997, 870, 0, 2500, 1150];
    transcript.claim(
      invoices.every((cents, i) => cents === right[i]),
      `the invoices in the open database: ${invoices}`,
    );
    const orders = await this.#orders();
    transcript.claim(orders >= before, `and ${formatCount(orders)} orders of the shop are beside them`);
    const { pushed } = await this.#task(id);
    return { conflicts, invoices, branch: pushed!.branch };
  }

  async #migrate(): Promise<number> {
    const { transcript } = this;
    await transcript.run(`taskd fork ${SHOP} cents`);
    const statements = "ALTER TABLE products ADD COLUMN cents INTEGER; UPDATE products SET cents = round(price * 100)";
    await transcript.run(`sqlite3 $(taskd checkout ${SHOP}@cents) "${statements}"`);
    await transcript.run(`taskd checkpoint ${SHOP}@cents cents`);
    await transcript.run(`taskd merge ${SHOP}@cents --into main`);
    const [price, cents] = (await this.#ask("SELECT price * 100, cents FROM products WHERE id = 1"))[0]!.split("|");
    transcript.claim(
      Number(cents) === Math.round(Number(price)),
      "the migration is in the open database, and the shop sells on",
    );
    return Number(cents);
  }

  async #takeBack(created: number): Promise<Pick<DemoFacts, "prices" | "for_nothing">> {
    const { transcript } = this;
    const sum = async () => Number((await this.#ask("SELECT sum(price) FROM products"))[0]);
    const unpaid = async () => Number((await this.#ask("SELECT count(*) FROM orders WHERE price = 0"))[0]);
    const before = await sum();
    // Its history has to reach back so far.
    const early = created + AGO_MS + 1_000 - systemClock.monotonic();
    if (early > 0) await systemClock.sleep(early, this.#options.signal);
    transcript.say("An UPDATE without its WHERE, in the open database:");
    await transcript.run(`sqlite3 ${OPEN} "UPDATE products SET price = 0"`);
    await this.#seller.sells(SOME_ORDERS);
    await transcript.run(`taskd fork ${SHOP} oops --at ${AGO_MS / 1_000}s`);
    await transcript.run(`taskd diff ${SHOP}@oops ${SHOP} --table products --rows 1`);
    const bad = await sum();
    const lost = await unpaid();
    transcript.claim(
      bad === 0 && lost >= SOME_ORDERS,
      `every price is gone, and ${lost} orders were for nothing so far`,
    );
    await transcript.run(
      `sqlite3 ${OPEN} "ATTACH '$(taskd checkout ${SHOP}@oops)' AS oops; ` +
        "UPDATE main.products SET price = (SELECT price FROM oops.products AS old WHERE old.id = main.products.id); " +
        'UPDATE orders SET price = (SELECT price FROM main.products WHERE id = product_id) WHERE price = 0"',
    );
    const [after, left] = [await sum(), await unpaid()];
    transcript.claim(after === before && left === 0, "every price is back, also in the orders that came meanwhile");
    return { prices: { before, bad, after }, for_nothing: { before: lost, after: left } };
  }

  /** Closes the shop, and counts what was sold in a copy that is restored from the store. */
  async #count(): Promise<Pick<DemoFacts, "acknowledged" | "restored">> {
    const { transcript } = this;
    await this.#seller.stop();
    const acknowledged = this.#seller.sold;
    transcript.say(`The shop closes at order ${formatCount(acknowledged)}.`);
    await transcript.run(`taskd session close ${SHOP}`);
    await transcript.run(`taskd export ${SHOP} restored.db`);
    const { stdout } = await transcript.run(
      'sqlite3 restored.db "SELECT count(*) FROM orders; PRAGMA integrity_check"',
    );
    const [count, integrity] = stdout.split("\n");
    const restored = Number(count) - this.#history;
    transcript.claim(
      restored === acknowledged && integrity === "ok",
      `${formatCount(this.#history)} orders before and ${formatCount(acknowledged)} acknowledged since, ` +
        `${formatCount(Number(count))} restored from the store: nothing is lost`,
    );
    await transcript.does(`kill ${this.#broker!.pid} ${this.#store!.pid}`, async () => {
      await this.#broker!.stop();
      await this.#store!.stop();
    });
    return { acknowledged, restored };
  }
}

/** The lines from one on that begins so. */
function from(lines: readonly string[], start: string): readonly string[] {
  return ["...", ...lines.slice(lines.findIndex((line) => line.startsWith(start)))];
}

/** Rows of a task's trace; none that count of one that is not intact. */
function rowsOf({ trace }: TaskView): number {
  return trace.intact ? trace.rows : 0;
}
