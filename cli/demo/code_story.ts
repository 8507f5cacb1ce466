/**
 * The broker's half of the demo: a real repository with a failing test and a database that the same program has filled,
 * an agent at work on both in a sandbox, a gate that survives a crash, and a person who approves what they have read.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import { randomHex, systemRandom } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { AgentProgress } from "../../broker/agent/progress.ts";
import { parseProgress } from "../../broker/agent/progress_reader.ts";
import { listProcesses, type RunningProcess } from "../../broker/sandbox/processes.ts";
import type { SpendFigures } from "../../broker/task/schema.ts";
import { laterSpend } from "../../broker/web/pages/spend.ts";
import { BLOCKED_PATHS, BrokerHome, BUDGET_USD, type DemoHost, type DemoRuntime, PRICES } from "./broker_home.ts";
import { INVOICES, Invoices } from "./invoices.ts";
import { claim, formatCount, type Narrator } from "./narrator.ts";
import type { DaemonProcess } from "./own_process.ts";
import { removeNetwork } from "./podman.ts";
import { Repository } from "./repository.ts";
import { ScriptedModel } from "../model/scripted_model.ts";
import { EXTEND, FIX, scriptsFor } from "./scripts.ts";
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
  /** How approvals that did not name what was read were answered. */
  refused_approvals: string[];
  branch: string;
  /** What the test said before, and says on the pushed branch. */
  test: { before: string; after: string };
  /** Sum of the invoices on their main branch before the approval and after it, and what it should be. */
  cents: { before: number; after: number; right: number };
  /** How the task that overstepped ended. */
  overstepped: string;
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
  let running: RunningProcess[] = [];
  await using model = new ScriptedModel(scriptsFor(runtime), async () => {
    running = await listProcesses();
  });
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
  const agentOf = (id: string) => running.find(({ command_line }) => command_line.endsWith(`:${id}`));
  await using story = new CodeStory(options, { home, repository, invoices, model, api_key, agentOf });
  return { runtime, ...await story.tell(test.says) };
}

interface Parts {
  home: BrokerHome;
  repository: Repository;
  invoices: Invoices;
  model: ScriptedModel;
  api_key: string;
  /** The process of a task's agent, as it was when it asked the model first. */
  agentOf: (task_id: string) => RunningProcess | undefined;
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
    this.#narrator.detail(`a task may spend $${BUDGET_USD.toFixed(2)} and may not touch ${BLOCKED_PATHS}`);
    const { id, refused } = await this.#work();
    const { waiting, approve } = await this.#review(id);
    const rows = await this.#crash(waiting);
    const before_cents = await this.#parts.invoices.cents("main");
    const { refused_approvals, branch } = await this.#approve(waiting, approve);
    const cents = await this.#promoted(before_cents);
    const after = await this.#look(branch);
    const overstepped = await this.#overstep(branch);
    await this.#stop();
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
      refused_approvals,
      branch,
      test: { before, after },
      cents,
      overstepped,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
  }

  async #work(): Promise<{ id: string; refused: string[] }> {
    const { home, repository, model, api_key } = this.#parts;
    const words = ["submit", repository.path, FIX, "--database", INVOICES, "--detach", "--json"];
    const { id } = await this.#narrator.step(
      "Submit a task",
      async () => JSON.parse(await home.run(words)) as { id: string },
      ({ id }) => `taskd submit billing.git "${FIX.slice(0, 36)}..." is task ${id.slice(0, SHORT)}`,
    );
    const refused = await this.#narrator.step("It comes to the gate", () => this.#watch(id), (found) => {
      return `and waits there for a person; ${found.length} attempt${found.length === 1 ? " was" : "s were"} refused`;
    });
    claim(refused.length > 0, "the agent was kept from what it must not reach");
    this.#narrator.detail(this.#confinement(id), "good");
    claim(
      model.asked.every(({ authorization }) => authorization === `Bearer ${api_key}`),
      "the gateway puts the key in",
    );
    claim(!model.asked.some(({ body }) => body.includes(api_key)), "the agent never saw the key");
    this.#narrator.detail("the model was asked with the API key, and the agent never had it", "good");
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

  /** What the agent could reach at all, as its process ran. */
  #confinement(id: string): string {
    if (this.#options.runtime !== "deno") return "its container has no way out but the gateway and the egress proxy";
    const granted = this.#parts.agentOf(id)?.command_line.match(/--allow-(?!import)\w+=\S+/g) ?? [];
    const [files, writes, net, ...more] = granted;
    const folders = ".,../databases";
    claim(
      files === `--allow-read=${folders}` && writes === `--allow-write=${folders}`,
      `it has its folders: ${granted}`,
    );
    claim(/^--allow-net=127\.0\.0\.1:\d+$/.test(net ?? "") && more.length === 0, `it reaches the gateway: ${granted}`);
    return `its process had its work folder, its database and ${
      net!.slice("--allow-net=".length)
    }, the gateway; nothing else`;
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
    claim(text.includes("+  return lines") && text.includes("cents: 5994 -> 5997"), "it shows both differences");
    claim(approve !== undefined, "review ends with the command that approves it");
    const metered = task.spend?.usd ?? 0;
    claim(
      Math.abs(metered - this.#parts.model.cost(PRICES, FIX)) < 1e-9,
      `${metered} USD is what the model's own count comes to`,
    );
    claim(metered > 0 && metered < BUDGET_USD, `${metered} USD is within the budget`);
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

  async #approve({ id, gate }: TaskView, command: string): Promise<{ refused_approvals: string[]; branch: string }> {
    const { diff_sha256, second_look } = gate!;
    const refused_approvals = await this.#narrator.step("Approve without reading", async () => [
      await this.#refusal(id, { diff_sha256: "0".repeat(64), acknowledge: second_look }),
      await this.#refusal(id, { diff_sha256, acknowledge: [] }),
    ], (codes) => `refused: ${codes.join("; ")}`);
    const pushed = await this.#narrator.step(
      "Approve what was read",
      async () => {
        // As it was printed, word by word; a shell takes the quotes away.
        await this.#parts.home.run(command.match(/'[^']*'|\S+/g)!.map((word) => word.replaceAll("'", "")));
        return await this.#end(id);
      },
      () => `taskd ${command}`,
    );
    claim(pushed?.outcome === "pushed" && pushed.pushed !== undefined, `it is pushed: ${pushed?.reason}`);
    return { refused_approvals, branch: pushed.pushed.branch };
  }

  async #promoted(before: number): Promise<CodeFacts["cents"]> {
    const { invoices } = this.#parts;
    const after = await invoices.cents("main");
    claim(before === Invoices.wrong_cents, `before the approval the invoices are as they were, ${before} cents`);
    claim(after === Invoices.right_cents, `after it they are right, ${after} cents`);
    const kept = (await invoices.branches()).filter((branch) => branch !== "main");
    claim(kept.length === 1, `the task's branch is gone, and one keeps what was before: ${kept}`);
    claim(await invoices.cents(kept[0]!) === before, "what was before is kept");
    const cents = `${formatCount(before)} cents, now ${formatCount(after)}`;
    this.#narrator.detail(`the same approval promoted ${INVOICES}@main: ${cents}; undo stays at ${kept[0]}`, "good");
    return { before, after, right: Invoices.right_cents };
  }

  async #refusal(id: string, request: { diff_sha256: string; acknowledge: readonly string[] }): Promise<string> {
    try {
      await this.#client.approve(id, request);
    } catch (error) {
      if (hasCode(error, "stale_diff")) return "the diff at the gate is another one";
      if (hasCode(error, "not_acknowledged")) return "what needs a second look was not acknowledged";
      throw error;
    }
    claim(false, "approving something else is refused");
  }

  async #look(branch: string): Promise<string> {
    const { repository } = this.#parts;
    const test = await this.#narrator.step(
      "Run the test on its branch",
      () => repository.test(branch),
      ({ says }) => says,
    );
    claim(test.passed, `the test passes on ${branch}`);
    const changed = await repository.changed(branch);
    claim(changed.join() === "billing/invoice.mjs", `the branch has one change: ${changed}`);
    this.#narrator.detail(`${branch}: ${await repository.lastCommit(branch)}`, "good");
    return test.says;
  }

  async #overstep(branch: string): Promise<string> {
    const { home, repository } = this.#parts;
    const run = async () => {
      const submitted = await home.run(["submit", repository.path, EXTEND, "--detach", "--json"]);
      return await this.#end((JSON.parse(submitted) as { id: string }).id);
    };
    const result = await this.#narrator.step(
      "A task that oversteps",
      run,
      (ended) => `${ended?.outcome}: ${ended?.reason}`,
    );
    claim(result?.outcome === "policy_blocked", `touching ${BLOCKED_PATHS} ends the task`);
    const branches = [...(await repository.branches()).keys()].sort();
    claim(branches.join() === [branch, "main"].sort().join(), `nothing else was pushed: ${branches}`);
    return result.reason;
  }

  async #stop(): Promise<void> {
    const { home, api_key } = this.#parts;
    const log = await this.#narrator.step(
      "Stop the broker",
      () => this.#broker!.stop(),
      () => "nothing of it runs any more",
    );
    const found = await home.filesWith(api_key);
    claim(
      found.join() === "api-keys.env" && !log.includes(api_key),
      `the API key is in no trace, log or diff: ${found}`,
    );
    this.#narrator.detail("the API key is in its own file and in nothing that the broker wrote", "good");
  }

  async #start(title: string): Promise<void> {
    await this.#narrator.step(title, async () => {
      this.#broker = await this.#parts.home.start();
    }, () => `process ${this.#broker!.pid}`);
  }

  async #end(id: string) {
    for await (const event of this.#client.events(id)) if (event.event === "result") return event.data;
    return undefined;
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
