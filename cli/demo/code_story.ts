/**
 * The broker's half of the demo: a real repository with a failing test and a database that the same program has filled,
 * an agent at work on both in a sandbox, a gate that survives a crash, and a person who approves what they have read.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import { randomHex, systemRandom } from "../../lib/clock.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { AgentProgress } from "../../broker/agent/progress.ts";
import { parseProgress } from "../../broker/agent/progress_reader.ts";
import type { SpendFigures } from "../../broker/task/schema.ts";
import { laterSpend } from "../../broker/web/pages/spend.ts";
import { BrokerHome, BUDGET_USD, type DemoHost, type DemoRuntime, PRICES } from "./broker_home.ts";
import { INVOICES, Invoices } from "./invoices.ts";
import { claim, formatCount, type Narrator } from "./narrator.ts";
import type { DaemonProcess } from "./own_process.ts";
import { removeNetwork } from "./podman.ts";
import { Repository } from "./repository.ts";
import { ScriptedModel } from "../model/scripted_model.ts";
import { FIX, scriptFor } from "./scripts.ts";
import { plural } from "../../lib/text/plural.ts";

/** Digits of an id that stand for it. */
const SHORT = 12;

export interface CodeFacts {
  runtime: DemoRuntime;
  task_id: string;
  /** What the gateway metered, and what the model's own count comes to, in USD. */
  spent_usd: number;
  model_usd: number;
  requests: number;
  /** Attempts of the agent to get at what it must not, all refused. */
  refused: string[];
  /** What the person read and approved. */
  diff_sha256: string;
  second_look: string[];
  /** Rows of the trace before the crash and after it; it is intact. */
  rows: { before: number; after: number };
  branch: string;
  /** What the test said before, and says on the pushed branch. */
  test: { before: string; after: string };
  /** Sum of the invoices on their main branch before the approval and after it, and what it should be. */
  cents: { before: number; after: number; right: number };
}

export interface CodeStoryOptions {
  /** An empty directory that no other user may enter. */
  dir: string;
  host: DemoHost;
  runtime: DemoRuntime;
  narrator: Narrator;
  colour: boolean;
  /** Ends it at once: whatever is under way fails, and its processes end. */
  signal: AbortSignal;
  entry: string;
}

/** Runs it. Everything it starts has ended when the promise settles. */
export async function tellCodeStory(options: CodeStoryOptions): Promise<CodeFacts> {
  const { dir, host, narrator, runtime, entry, signal } = options;
  await using cleanup = new AsyncDisposableStack();
  const repository = await narrator.step(
    "Make a repository",
    () => Repository.make(dir, signal),
    () => "a program, its test, and a note to AI agents that is up to no good",
  );
  const test = await narrator.step("Run its test", () => repository.test("main"), ({ says }) => says);
  claim(!test.passed, "the test fails before");
  await using invoices = await narrator.step(
    "Put invoices in a store",
    () => Invoices.start(dir, { entry, signal }),
    () => `${INVOICES}@main, a small database that the same program has filled`,
  );
  const api_key = `sk-demo-${randomHex(systemRandom, 16)}`;
  await using model = new ScriptedModel([scriptFor(runtime)]);
  const home = await BrokerHome.make({
    dir,
    host,
    runtime,
    model_url: model.url,
    api_key,
    store_socket: invoices.socket,
    entry,
    signal,
  });
  if (runtime === "podman") cleanup.defer(() => removeNetwork(home.network));
  await using story = new CodeStory(options, { home, repository, invoices, model });
  return { runtime, ...await story.tell(test.says) };
}

interface Parts {
  home: BrokerHome;
  repository: Repository;
  invoices: Invoices;
  model: ScriptedModel;
}

class CodeStory implements AsyncDisposable {
  readonly #options: CodeStoryOptions;
  readonly #narrator: Narrator;
  readonly #parts: Parts;
  #broker: DaemonProcess<BrokerClient> | undefined;

  constructor(options: CodeStoryOptions, parts: Parts) {
    this.#options = options;
    this.#narrator = options.narrator;
    this.#parts = parts;
  }

  async tell(before: string): Promise<Omit<CodeFacts, "runtime">> {
    await this.#start("Start the broker");
    this.#narrator.detail(`a task may spend $${BUDGET_USD.toFixed(2)}`);
    const { id, refused } = await this.#work();
    const { waiting, approve } = await this.#review(id);
    const rows = await this.#crash(waiting);
    const before_cents = await this.#parts.invoices.cents("main");
    const branch = await this.#approve(waiting.id, approve);
    const cents = await this.#promoted(before_cents);
    const after = await this.#narrator.step(
      "Run the test on its branch",
      () => this.#parts.repository.test(branch),
      ({ says }) => `${branch}: ${says}`,
    );
    claim(after.passed, `the test passes on ${branch}`);
    await this.#narrator.step("Stop the broker", () => this.#broker!.stop(), () => "nothing of it runs any more");
    const { gate, spend } = waiting;
    return {
      task_id: id,
      spent_usd: spend!.usd,
      model_usd: this.#parts.model.cost(PRICES, FIX),
      requests: spend!.requests,
      refused,
      diff_sha256: gate!.diff_sha256,
      second_look: [...gate!.second_look],
      rows,
      branch,
      test: { before, after: after.says },
      cents,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
  }

  async #work(): Promise<{ id: string; refused: string[] }> {
    const { home, repository } = this.#parts;
    const words = ["submit", repository.path, FIX, "--database", INVOICES, "--detach", "--json"];
    const { id } = await this.#narrator.step(
      "Submit a task",
      async () => JSON.parse(await home.run(words)) as { id: string },
      ({ id }) => `taskd submit billing.git "${FIX.slice(0, 36)}..." is task ${id.slice(0, SHORT)}`,
    );
    const refused = await this.#narrator.step("It comes to the gate", () => this.#watch(id), (found) => {
      return `and waits there for a person; ${found.length} attempt${found.length === 1 ? " was" : "s were"} refused`;
    });
    return { id, refused };
  }

  /** Shows what the task does until it waits; returns what it was refused. */
  async #watch(id: string): Promise<string[]> {
    const refused: string[] = [];
    let spend: SpendFigures | undefined;
    for await (const { event, data } of this.#client.events(id)) {
      if (event === "spend") spend = laterSpend(spend, data);
      // An event may have several lines.
      for (const text of event === "output" ? data.text.split("\n") : []) {
        const row = parseProgress(text);
        const line = row === undefined ? plain(text) : worded(row);
        const isRefused = row?.type === "tool" && !row.ok;
        if (isRefused) refused.push(line);
        const spent = spend === undefined ? "" : `$${spend.usd.toFixed(4)}`;
        if (line !== "") this.#narrator.detail(`${spent.padEnd(10)}${line}`, isRefused ? "bad" : "faint");
      }
      if (event === "stage") {
        this.#narrator.detail(data.stage, "plain");
        if (data.stage === "awaiting_approval") break;
      }
      claim(event !== "result", `the task waits for a person: ${JSON.stringify(data)}`);
    }
    const { refused_egress } = await this.#client.task(id);
    for (const { target, reason } of refused_egress) {
      this.#narrator.detail(`the egress proxy refused ${sanitizeLine(`${target}: ${reason}`)}`, "bad");
    }
    return [...refused, ...refused_egress.map(({ target, reason }) => `${target}: ${reason}`)];
  }

  /** Shows what a person is shown; answers the task, and the command that approves exactly this. */
  async #review(id: string): Promise<{ waiting: TaskView; approve: string }> {
    const text = await this.#narrator.step(
      "Read what it did",
      () => this.#parts.home.run(["review", id, ...(this.#options.colour ? ["--color"] : [])]),
      () => `taskd review ${id.slice(0, SHORT)}`,
    );
    // The sandbox, the spend, the flags, what is not known, the diff; the ids above them are for machines.
    const lines = text.split("\n");
    const shown = lines.slice(lines.findIndex((line) => line.startsWith("sandbox")));
    this.#narrator.lines(shown.filter((line) => !/^(?:image|policy) /.test(line)));
    const task = await this.#client.task(id);
    claim(task.stage === "awaiting_approval" && task.gate !== undefined, "the task waits at the gate");
    const approve = lines.flatMap((line) => /^ {2}taskd (approve .*)$/.exec(line)?.[1] ?? [])[0];
    claim(approve !== undefined, "review ends with the command that approves it");
    return { waiting: task, approve };
  }

  async #crash({ id, gate, trace }: TaskView): Promise<{ before: number; after: number }> {
    const broker = this.#broker!;
    await this.#narrator.step(
      `kill -9 ${broker.pid}`,
      () => broker.kill(),
      () => "the broker dies while the task waits at the gate",
    );
    await this.#start("Start it again");
    const task = await this.#client.task(id);
    claim(task.stage === "awaiting_approval", `the task still waits, and is at ${task.stage}`);
    claim(task.gate?.diff_sha256 === gate?.diff_sha256, "the same diff is at the gate");
    claim(trace.intact && task.trace.intact, "the trace is intact");
    this.#narrator.detail(
      `the task still waits for the same diff; its trace of ${plural(task.trace.rows, "row")} is intact`,
      "good",
    );
    return { before: trace.rows, after: task.trace.rows };
  }

  async #approve(id: string, command: string): Promise<string> {
    const pushed = await this.#narrator.step(
      "Approve what was read",
      async () => {
        // As it was printed, word by word; a shell takes the quotes away.
        await this.#parts.home.run(command.match(/'[^']*'|\S+/g)!.map((word) => word.replaceAll("'", "")));
        for await (const event of this.#client.events(id)) if (event.event === "result") return event.data;
      },
      () => `taskd ${command}`,
    );
    claim(pushed?.outcome === "pushed" && pushed.pushed !== undefined, `it is pushed: ${pushed?.reason}`);
    return pushed.pushed.branch;
  }

  async #promoted(before: number): Promise<CodeFacts["cents"]> {
    const { invoices } = this.#parts;
    const after = await invoices.cents("main");
    claim(after === Invoices.right_cents, `the approved invoices are right, ${after} cents`);
    const cents = `${formatCount(before)} cents, now ${formatCount(after)}`;
    this.#narrator.detail(`the same approval promoted ${INVOICES}@main: ${cents}; undo stays beside it`, "good");
    return { before, after, right: Invoices.right_cents };
  }

  async #start(title: string): Promise<void> {
    await this.#narrator.step(title, async () => {
      this.#broker = await this.#parts.home.start();
    }, () => `process ${this.#broker!.pid}`);
  }

  get #client(): BrokerClient {
    return this.#broker!.client;
  }
}

/** A line that a program printed, without its colours, which the broker has made visible. */
function plain(text: string): string {
  return sanitizeLine(text).replaceAll(/\\x1b\[[0-9;]*m/g, "").trim();
}

/** A row of the built-in agent's progress in words; empty for what is of no interest as it goes by. */
function worded(row: AgentProgress): string {
  if (row.type === "said") return sanitizeLine(row.text);
  if (row.type === "tool") return `[${row.tool}] ${sanitizeLine(row.summary)}`;
  return "";
}
