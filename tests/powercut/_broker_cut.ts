/**
 * One cut under a broker: people submit, queue, approve and deny, agents work, the power goes, perhaps once more while
 * the next broker takes over, and everything that was confirmed or shown is held against what the last broker says and
 * what is on the disk.
 */

import { join } from "@std/path/join";
import { BrokerClient } from "../../broker/client/client.ts";
import { systemClock } from "../../lib/clock.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { plainGit, writeFiles } from "../broker/git/bench.ts";
import { BrokerProcess } from "../soak/broker_process.ts";
import { BASE_FILES } from "../soak/plan.ts";
import { readBranches, readLedger, readTraces } from "../soak/traces.ts";
import { TOKEN_USD, Upstream } from "../soak/upstream.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { Disk } from "./_disk.ts";
import { People, type Seen } from "./_people.ts";
import { run } from "./_programs.ts";
import type { CutOptions, CutReport } from "./_store_cut.ts";

/** How long people are at work at most before a cut. */
const MAX_WORK_MS = 7_000;
/** How long everything may take to come to its end after the last cut. */
const FINISH_MS = 90_000;
/** What a cut may wait for. */
const MOMENTS = [
  "submit",
  "queue",
  "cancel",
  "approve",
  "approve",
  "deny",
  "saw collecting",
  "saw awaiting_approval",
  "saw awaiting_approval",
  "saw pushing",
  "saw done",
];
const FINAL = ["completed", "ci_failed", "cancelled", "dead_letter"];

/** Runs one. */
export async function cutBroker(options: CutOptions): Promise<CutReport> {
  await using disk = await Disk.make(options.fs);
  const scratch = await Deno.makeTempDir({ prefix: "powercut-scratch-" });
  const cut = new BrokerCut(disk, scratch, options);
  try {
    return await cut.run();
  } finally {
    await cut.dispose();
    await Deno.remove(scratch, { recursive: true });
  }
}

class BrokerCut {
  readonly #disk: Disk;
  readonly #scratch: string;
  readonly #options: CutOptions;
  readonly #random: SeededRandom;
  readonly #broken: string[] = [];
  readonly #said: string[] = [];
  readonly #people: People;
  readonly #client: BrokerClient;
  readonly #bare: string[];
  #due: { moment: string; resolve: () => void } | undefined;
  #upstream: Upstream | undefined;
  #broker: BrokerProcess | undefined;

  constructor(disk: Disk, scratch: string, options: CutOptions) {
    this.#disk = disk;
    this.#scratch = scratch;
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
    this.#client = new BrokerClient({ socket: this.#socket });
    // One on the disk that is cut, and one on another machine, so to speak.
    this.#bare = [join(disk.directory, "acme", "here.git"), join(scratch, "acme", "there.git")];
    this.#people = new People(this.#client, options.seed, this.#bare, (what) => {
      if (what === this.#due?.moment) this.#due.resolve();
    });
  }

  get #socket(): string {
    return `${this.#scratch}/s/taskd.sock`;
  }

  get #home(): string {
    return join(this.#disk.directory, "op");
  }

  async run(): Promise<CutReport> {
    await this.#begin();
    const cuts = this.#random.chance(0.3) ? 2 : 1;
    for (let cut = 1; cut <= cuts; cut++) {
      await this.#workAndCut(cut === 1);
      await this.#comeUp();
      await this.#trying("after the cut", () => this.#compare());
    }
    await this.#trying("going on", () => this.#finish());
    return { what: this.#said.join("; "), broken: [...this.#broken, ...this.#people.complaints] };
  }

  async dispose(): Promise<void> {
    await this.#broker?.kill();
    await this.#upstream?.[Symbol.asyncDispose]();
  }

  async #begin(): Promise<void> {
    const work = join(this.#scratch, "seed");
    await plainGit(this.#scratch, "init", "--quiet", work);
    await writeFiles(work, BASE_FILES);
    await plainGit(work, "add", "-A");
    await plainGit(work, "commit", "--quiet", "-m", "first");
    for (const path of this.#bare) await plainGit(this.#scratch, "clone", "--quiet", "--bare", work, path);
    this.#upstream = await Upstream.start(this.#random.fork(), { whole: 90, slow: 10 });
    await Deno.mkdir(join(this.#home, ".taskd"), { recursive: true, mode: 0o700 });
    const config = `runtime: deno
default_agent: agent_d
task_budget_usd: 5
task_timeout: 3m
approval_timeout: 1h
push_retry_backoff: 50ms
max_concurrent_tasks: 3
global_max_tasks: 1000
global_budget_usd: 1000
global_window: 24h
broker:
  socket: ${this.#socket}
compat:
  base_url: ${this.#upstream.url}
  model: test-model
  api_key_env: ENDPOINT_KEY
  prices:
    test-model: { input: ${TOKEN_USD * 1e6}, output: ${TOKEN_USD * 1e6} }
`;
    await Deno.writeTextFile(join(this.#home, ".taskd", "config.yaml"), config, { mode: 0o600 });
    // The remote was there long before, and so was the configuration.
    await this.#disk.settle();
    await this.#start();
  }

  /** The power goes once more while a broker takes over. */
  async #cutWhileStarting(): Promise<void> {
    const broker = this.#spawn();
    await systemClock.sleep(this.#random.between(0, 1_500));
    await this.#disk.cut();
    await broker.kill();
    await this.#disk.unmount();
    await this.#disk.mount();
    this.#said.push("cut again while starting");
  }

  #spawn(): BrokerProcess {
    const cache_dir = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
    const env = { DENO_DIR: cache_dir, ENDPOINT_KEY: "sk-endpoint-0123456789abcdef" };
    return this.#broker = new BrokerProcess({ home: this.#home, env });
  }

  async #start(): Promise<void> {
    this.#spawn();
    if (!await this.#broker!.isServing()) {
      throw new Error(`a broker did not start:\n${this.#broker!.lines.slice(-20).join("\n")}`);
    }
  }

  async #workAndCut(first: boolean): Promise<void> {
    const random = this.#random;
    const people = this.#people;
    people.goOn();
    const due = Promise.withResolvers<void>();
    if (random.chance(0.7)) this.#due = { moment: random.pick(MOMENTS), resolve: due.resolve };
    const working = [
      ...(first || random.chance(0.5)
        ? [
          people.submit(random.fork(), random.between(1, 3)),
          people.submit(random.fork(), random.between(0, 3)),
          people.enqueue(random.fork(), random.between(0, 3)),
        ]
        : []),
      people.look(),
      people.decide(random.fork(), false),
    ];
    const limit_ms = this.#due === undefined ? random.between(50, MAX_WORK_MS) : MAX_WORK_MS;
    await Promise.race([due.promise, systemClock.sleep(limit_ms)]);
    const moment = this.#due?.moment ?? `${limit_ms} ms`;
    this.#due = undefined;
    people.end();
    await this.#disk.cut();
    // Whatever the broker answers now, it answers for good.
    await systemClock.sleep(random.pick([0, 0, 30]));
    await this.#broker!.kill();
    await Promise.all(working);
    this.#said.push(`${people.tasks.size} tasks, ${people.items.size} items, cut at ${moment}`);
  }

  async #comeUp(): Promise<void> {
    await this.#disk.unmount();
    await this.#disk.mount();
    const { keep } = this.#options;
    if (keep !== undefined) await run("cp", "-a", this.#disk.directory, keep);
    if (this.#random.chance(0.25)) await this.#cutWhileStarting();
    await this.#start();
  }

  async #trying(what: string, check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      this.#broken.push(`${what}: ${(error as Error).message}\n${this.#broker?.lines.slice(-5).join("\n")}`);
    }
  }

  /** Everything that was confirmed or shown is there. */
  async #compare(): Promise<void> {
    const { tasks, items, ceiling } = this.#people;
    const stages = new Map(readTraces(join(this.#home, ".taskd", "audit")).map((trace) => [trace.id, trace]));
    for (const [id, seen] of tasks) {
      const trace = stages.get(id);
      if (trace === undefined) {
        this.#broken.push(`task ${id} is gone, which was in ${[...seen.stages].join(", ")}`);
        continue;
      }
      for (const stage of seen.stages) {
        if (!trace.stages.includes(stage)) this.#broken.push(`task ${id} was shown in ${stage} and never was there`);
      }
      await this.#compareTask(id, seen);
    }
    const now = new Map((await this.#client.queue()).map((item) => [item.id, item]));
    for (const [id, { state, cancel }] of items) {
      const item = now.get(id);
      if (item === undefined) this.#broken.push(`item ${id} of the queue is gone, which was ${state}`);
      else if (FINAL.includes(state) && item.state !== state) {
        this.#broken.push(`item ${id} was shown as ${state} and is ${item.state}`);
      } else if (cancel === "confirmed" && item.state !== "cancelled" && item.task_id === undefined) {
        this.#broken.push(`item ${id} was cancelled and is ${item.state}`);
      }
    }
    const { spent_usd, starts, damaged } = await this.#client.ceiling();
    if (damaged > 0) this.#broken.push("the ledger is damaged");
    if (spent_usd < ceiling.spent_usd - 1e-9) {
      this.#broken.push(`the ceiling showed $${ceiling.spent_usd} spent and shows $${spent_usd}`);
    }
    if (starts < ceiling.starts) this.#broken.push(`the ceiling showed ${ceiling.starts} starts and shows ${starts}`);
  }

  async #compareTask(id: string, seen: Seen): Promise<void> {
    const view = await this.#client.task(id);
    const { stage, outcome, reason = "" } = view;
    const is = outcome === undefined ? stage : `${outcome} (${reason})`;
    const wrong = (what: string) => this.#broken.push(`task ${id} ${what}, and is ${is}`);
    if (!view.trace.intact) wrong(`has a damaged trace (${view.trace.fault})`);
    if (seen.outcome !== undefined && seen.outcome !== outcome) wrong(`was shown as ${seen.outcome}`);
    if ((view.spend?.usd ?? 0) < seen.usd - 1e-9) wrong(`was shown with $${seen.usd}, has $${view.spend?.usd ?? 0}`);
    if (seen.deny === "confirmed" && outcome !== "denied") wrong("was denied");
    if (seen.end === "confirmed" && outcome !== "cancelled") wrong("was ended");
    if (
      seen.approve === "confirmed" && !["pushing", "push_failed", "awaiting_ci"].includes(stage) && outcome !== "pushed"
    ) {
      wrong("was approved");
    }
    const undecided = [seen.approve, seen.deny, seen.end].every((deed) => deed === "none");
    if (seen.gate !== undefined && undecided && stage !== "awaiting_approval") wrong("waited at the gate");
    if (stage !== "awaiting_approval") return;
    if (seen.gate !== undefined && seen.gate !== view.gate?.diff_sha256) wrong("waits with another change");
    const diff = await this.#client.diff(id);
    if (seen.diff !== undefined && seen.diff !== sha256Hex(diff.bytes)) wrong("shows another diff");
  }

  /** Everything comes to its end, and what was approved is pushed. */
  async #finish(): Promise<void> {
    const people = this.#people;
    people.goOn();
    let over = false;
    const deciding = people.decide(this.#random.fork(), true, () => over);
    const until_ms = systemClock.monotonic() + FINISH_MS;
    for (;;) {
      const open = (await this.#client.queue()).filter(({ state }) => !FINAL.includes(state));
      const under_way = (await this.#client.tasks({ limit: 100 })).tasks.filter(({ stage }) => stage !== "done");
      if (open.length + under_way.length === 0) break;
      if (systemClock.monotonic() > until_ms) {
        this.#broken.push(`${open.length} items and ${under_way.length} tasks do not come to their end`);
        break;
      }
      await systemClock.sleep(100);
    }
    over = true;
    await deciding;
    await people.lookOnce();
    await this.#compare();
    const code = await this.#broker!.stop();
    if (code !== 0) this.#broken.push(`the broker ended with ${code ?? "SIGKILL"}`);
    this.#broken.push(...this.#broker!.defects);
    const audit = join(this.#home, ".taskd", "audit");
    const ledger = readLedger(audit);
    const branches = (await Promise.all(this.#bare.map(readBranches))).flat();
    const items = new Set<string>();
    for (const trace of readTraces(audit)) {
      const { id, fault, outcomes: [outcome], queue_id, pushed, tree, spent } = trace;
      if (fault !== undefined) this.#broken.push(`the trace of ${id}: ${fault}`);
      if (!ledger.has(id)) this.#broken.push(`task ${id} has no line in the ledger`);
      else if ((ledger.get(id) ?? 0) < (spent?.usd ?? 0) - 1e-9) {
        this.#broken.push(`task ${id} spent $${spent?.usd}, and the ledger has $${ledger.get(id)}`);
      }
      if (queue_id !== undefined) {
        if (items.has(queue_id)) this.#broken.push(`item ${queue_id} was begun twice`);
        items.add(queue_id);
      }
      if (people.tasks.get(id)?.approve === "confirmed" && outcome !== "pushed") {
        this.#broken.push(`task ${id} was approved and is ${outcome} (${trace.reason})`);
      }
      if (outcome !== "pushed") continue;
      const branch = branches.find(({ name, commit }) => name === pushed?.branch && commit === pushed.commit);
      if (branch === undefined) this.#broken.push(`task ${id} was pushed and no remote has it (${trace.repo})`);
      else if (branch.tree !== tree) this.#broken.push(`${branch.name} has another tree than the approved one`);
    }
  }
}
