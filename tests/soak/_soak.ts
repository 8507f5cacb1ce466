/**
 * A soak run: a real broker that is killed and replaced again and again under people, agents, remotes and a model's
 * endpoint that fail in every way that they have. Afterwards every promise is held against what is there.
 */

import { join } from "@std/path/join";
import { FINAL_STATES } from "../../broker/engine/queue/item.ts";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { plainGit, writeFiles } from "../broker/git/bench.ts";
import { type Fault, type GitServer, serveGit } from "../broker/git/git_server.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { BrokerProcess, type Use } from "./broker_process.ts";
import { Clients } from "./_clients.ts";
import { leftovers, sandboxes } from "./_leftovers.ts";
import { BASE_FILES, BLOCKED_PATHS, SECOND_LOOK_PATHS } from "./plan.ts";
import { readBranches, readLedger, readQueue, readTraces } from "./traces.ts";
import { MAX_ESTIMATED_USD, MAX_REQUEST_TOKENS, TOKEN_USD, Upstream } from "./upstream.ts";
import { evaluate, type Verdict } from "./_verdicts.ts";

/** What to run. */
export interface SoakOptions {
  seed: number;
  /** How long people go on; what they have begun is then brought to its end. */
  duration_ms: number;
  /** Tasks at the same time. */
  tasks: number;
  /** Items of the queue. */
  queued: number;
  /** Times that the broker is killed. */
  kills: number;
  /** Leaves everything where it is when a promise was broken. */
  keep?: boolean;
  log: (line: string) => void;
}

/** What a run came to. */
export interface SoakReport extends Verdict {
  /** How often what was asked, and how it was answered. */
  counts: Map<string, number>;
  tasks: number;
  items: number;
  requests: number;
  branches: number;
  kills: number;
  replacements: number;
  max_rss_bytes: number;
  max_open_files: number;
  /** What the last broker used when it had nothing left to do. */
  rest: Use | undefined;
  max_starts: number;
  /** The end of the last broker's log. */
  lines: readonly string[];
}

const TASK_BUDGET_USD = 0.6;
const WINDOW_S = 10;
/** Nothing has moved for so long: it never will. */
const STUCK_MS = 180_000;
/** Memory that a broker may take; an idle one has about 150 MiB. */
const MAX_RSS_BYTES = 700 << 20;

/** Files that a broker without work may have open, listeners and the runtime's own included; and looks before that is said. */
const FILES_AT_REST = 48;
const POLLS = 150;

/** Runs it. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const root = await Deno.makeTempDir({ prefix: "soak-" });
  const run = new Soak(root, options);
  let kept = options.keep === true;
  try {
    const report = await run.run();
    kept &&= report.violations.length > 0;
    return report;
  } finally {
    await run.dispose();
    if (kept) options.log(`everything is left in ${root}`);
    else await removeAll(root);
  }
}

async function removeAll(root: string): Promise<void> {
  await new Deno.Command("chmod", { args: ["-R", "u+rwX", root], stderr: "null" }).output();
  await Deno.remove(root, { recursive: true });
}

class Soak {
  readonly #root: string;
  readonly #home: string;
  readonly #options: SoakOptions;
  readonly #random: SeededRandom;
  readonly #violations: string[] = [];
  readonly #max = { rss_bytes: 0, open_files: 0, starts: 0 };
  #upstream: Upstream | undefined;
  #git: GitServer | undefined;
  #broker: BrokerProcess | undefined;
  #up = Promise.withResolvers<void>();
  #kills = 0;
  #replacements = 0;
  #over = false;
  #drained = false;

  constructor(root: string, options: SoakOptions) {
    this.#root = root;
    this.#home = join(root, "op");
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
  }

  async run(): Promise<SoakReport> {
    const { seed, duration_ms, tasks, queued, log } = this.#options;
    const random = this.#random;
    this.#upstream = await Upstream.start(random.fork());
    const { bare, remotes } = await this.#remotes();
    await this.#configure(this.#upstream.url);
    await this.#start();
    const clients = new Clients({
      socket: this.#socket,
      seed,
      random: random.fork(),
      repos: remotes,
      up: () => this.#up.promise,
      isOver: () => this.#over,
    });
    const begun_ms = systemClock.monotonic();
    const deciding = Promise.all([1, 2].map(() => clients.decide(() => this.#drained)));
    const watching = this.#watch(clients);
    const assassin = this.#assassinate(begun_ms);
    const people = Promise.all([
      clients.enqueue(queued),
      ...Array.from({ length: 2 + Math.floor(tasks / 10) }, () => clients.submit()),
      clients.disturb(),
      assassin,
    ]);
    // A failure ends the run.
    const all = Promise.all([deciding, watching, people]);
    all.catch(() => {});
    await Promise.race([systemClock.sleep(duration_ms), all]);
    this.#over = true;
    log(`${seconds(begun_ms)}: nothing new begins any more`);
    await Promise.race([people, all]);
    await Promise.race([this.#drain(clients), all]);
    this.#drained = true;
    await all;
    await clients.followed();
    log(`${seconds(begun_ms)}: everything has come to its end`);
    return await this.#end(clients, bare);
  }

  get #socket(): string {
    return `${this.#root}/s/taskd.sock`;
  }

  /** Bare repositories, two by their paths and one behind a server that fails now and then. */
  async #remotes(): Promise<{ bare: string[]; remotes: string[] }> {
    const work = join(this.#root, "seed");
    await plainGit(this.#root, "init", "--quiet", work);
    await writeFiles(work, BASE_FILES);
    await plainGit(work, "add", "-A");
    await plainGit(work, "commit", "--quiet", "-m", "first");
    const bare = ["one", "two", "three"].map((name) => join(this.#root, "acme", `${name}.git`));
    for (const path of bare) await plainGit(this.#root, "clone", "--quiet", "--bare", work, path);
    // One takes its time, so that some pushes are under way when a broker dies.
    await Deno.writeTextFile(join(bare[1]!, "hooks", "pre-receive"), "#!/bin/sh\nsleep 0.7\n", { mode: 0o755 });
    const random = this.#random.fork();
    const fault = (): Fault => random.chance(0.03) ? "reset" : random.chance(0.03) ? "lose_answer" : "pass";
    this.#git = await serveGit(this.#root, fault);
    return { bare, remotes: [bare[0]!, bare[1]!, `${this.#git.origin}/acme/three.git`] };
  }

  async #configure(model_url: string): Promise<void> {
    const { tasks } = this.#options;
    await Deno.mkdir(join(this.#home, ".taskd"), { recursive: true, mode: 0o700 });
    const config = `runtime: deno
default_agent: agent_d
notifications: false
task_budget_usd: ${TASK_BUDGET_USD}
task_timeout: 3m
approval_timeout: 20s
push_retry_backoff: 50ms
max_concurrent_tasks: ${tasks}
global_max_tasks: ${this.#maxStarts}
global_budget_usd: ${this.#budget}
global_window: ${WINDOW_S}s
broker:
  socket: ${this.#socket}
diff_policy:
  blocked_paths: ["${BLOCKED_PATHS}"]
  second_look_paths: ["${SECOND_LOOK_PATHS}"]
compat:
  base_url: ${model_url}
  model: test-model
  api_key_env: ENDPOINT_KEY
  prices:
    test-model: { input: ${TOKEN_USD * 1e6}, output: ${TOKEN_USD * 1e6} }
`;
    await Deno.writeTextFile(join(this.#home, ".taskd", "config.yaml"), config, { mode: 0o600 });
  }

  /** Low enough to be reached now and then. */
  get #maxStarts(): number {
    return 3 * this.#options.tasks;
  }

  get #budget(): number {
    return 0.4 * this.#options.tasks;
  }

  #spawn(): BrokerProcess {
    const cache_dir = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
    const env = { DENO_DIR: cache_dir, ENDPOINT_KEY: "sk-endpoint-0123456789abcdef" };
    return this.#broker = new BrokerProcess({ home: this.#home, env });
  }

  async #start(): Promise<void> {
    const broker = this.#spawn();
    if (await broker.isServing()) return this.#up.resolve();
    throw new Error(`a broker did not start:\n${broker.lines.slice(-20).join("\n")}`);
  }

  /** Kills the broker at moments drawn from the seed, and has it replaced in good order at others. */
  async #assassinate(begun_ms: number): Promise<void> {
    const { duration_ms, kills, log } = this.#options;
    const random = this.#random.fork();
    const moments = Array.from({ length: kills + Math.ceil(kills / 4) }, (_, index) => ({
      at_ms: begun_ms + duration_ms * (0.05 + 0.9 * random.next()),
      kill: index < kills,
      again_ms: random.chance(0.3) ? random.between(0, 1_500) : undefined,
      pause_ms: random.between(0, 500),
    })).sort((a, b) => a.at_ms - b.at_ms);
    for (const { at_ms, kill, again_ms, pause_ms } of moments) {
      await systemClock.sleep(Math.max(0, at_ms - systemClock.monotonic()));
      this.#up = Promise.withResolvers();
      const broker = this.#broker!;
      if (kill) {
        await broker.kill();
        this.#kills++;
      } else {
        const code = await broker.stop();
        if (code !== 0) this.#violations.push(`a broker that was asked to stop ended with ${code ?? "SIGKILL"}`);
        this.#replacements++;
      }
      this.#violations.push(...broker.defects);
      log(`${seconds(begun_ms)}: ${kill ? "killed" : "replaced"} broker ${broker.pid}`);
      await systemClock.sleep(pause_ms);
      if (kill && again_ms !== undefined) await this.#killWhileStarting(again_ms);
      await this.#start();
    }
  }

  async #killWhileStarting(after_ms: number): Promise<void> {
    const broker = this.#spawn();
    await systemClock.sleep(after_ms);
    await broker.kill();
    this.#kills++;
    this.#violations.push(...broker.defects);
  }

  /** Measures the broker, and looks at its ceilings. */
  async #watch({ client }: Clients): Promise<void> {
    const { tasks } = this.#options;
    // What those that run may still spend, each up to its budget and the request that crosses it.
    const most_usd = this.#budget + tasks * (TASK_BUDGET_USD + MAX_ESTIMATED_USD + MAX_REQUEST_TOKENS * TOKEN_USD);
    while (!this.#drained) {
      await systemClock.sleep(500);
      const use = this.#broker?.use();
      this.#max.rss_bytes = Math.max(this.#max.rss_bytes, use?.rss_bytes ?? 0);
      this.#max.open_files = Math.max(this.#max.open_files, use?.open_files ?? 0);
      try {
        const { starts, spent_usd, damaged } = await client.ceiling();
        const running = await sandboxes(this.#home);
        this.#max.starts = Math.max(this.#max.starts, starts);
        if (starts > this.#maxStarts) this.#violations.push(`${starts} starts of at most ${this.#maxStarts}`);
        if (spent_usd > most_usd) this.#violations.push(`$${spent_usd} spent, and the bound is $${most_usd}`);
        if (running > tasks) this.#violations.push(`${running} sandboxes run, of at most ${tasks}`);
        if (damaged > 0) this.#violations.push("the ledger is damaged");
      } catch (error) {
        // No broker is there just now.
        if (!(error instanceof TaskdError)) throw error;
      }
    }
    if (this.#max.rss_bytes > MAX_RSS_BYTES) this.#violations.push(`a broker took ${this.#max.rss_bytes} bytes`);
  }

  /** Waits until everything that was begun has ended. */
  async #drain({ client }: Clients): Promise<void> {
    let before = "";
    let moved_ms = systemClock.monotonic();
    for (;;) {
      const items = await client.queue();
      const open = items.filter(({ state }) => !FINAL_STATES.has(state));
      const { tasks } = await client.tasks({ limit: 1_000 });
      const under_way = tasks.filter(({ stage }) => stage !== "done");
      if (open.length === 0 && under_way.length === 0) return;
      for (const { id, stage } of under_way) {
        // Without the pause before the next round.
        if (stage === "push_failed") await client.push(id).catch(() => {});
      }
      const now = JSON.stringify([
        open.map(({ id, state }) => [id, state]),
        under_way.map(({ updated_at }) => updated_at),
      ]);
      if (now !== before) {
        before = now;
        moved_ms = systemClock.monotonic();
      }
      if (systemClock.monotonic() - moved_ms > STUCK_MS) {
        const stuck = under_way.map(({ id, stage }) => `${id} in ${stage}`);
        throw new Error(
          `nothing moves: ${open.length} items wait, ${stuck.join(", ")}\n${this.#broker!.lines.join("\n")}`,
        );
      }
      await systemClock.sleep(500);
    }
  }

  /** Stops the last broker, and looks at what is there. */
  async #end(clients: Clients, bare: readonly string[]): Promise<SoakReport> {
    const broker = this.#broker!;
    const home = join(this.#home, ".taskd");
    const { pending, running } = await clients.client.health();
    if (pending + running > 0) this.#violations.push(`${pending} tasks wait and ${running} run after the end`);
    const stats = await clients.client.stats();
    clients.stopWatching();
    const rest = await this.#rest(broker);
    const code = await broker.stop();
    if (code !== 0) this.#violations.push(`the last broker ended with ${code ?? "SIGKILL"}`);
    this.#violations.push(...broker.defects, ...clients.complaints);
    const traces = readTraces(join(home, "audit"));
    const items = readQueue(join(home, "queue"));
    const branches = (await Promise.all(bare.map(readBranches))).flat();
    const { bill } = this.#upstream!;
    const verdict = evaluate({
      orders: clients.orders,
      decisions: clients.decisions,
      followings: clients.followings,
      traces,
      items,
      ledger: readLedger(join(home, "audit")),
      branches,
      bill,
      kills: this.#kills,
      slots: this.#options.tasks,
      max_starts: this.#maxStarts,
      window_ms: WINDOW_S * 1_000,
    });
    if (stats.tasks !== traces.length) this.#violations.push(`stats count ${stats.tasks} of ${traces.length} tasks`);
    if (Math.abs(stats.spend.usd - verdict.money.metered_usd) > 1e-6 * traces.length) {
      this.#violations.push(`stats say $${stats.spend.usd}, the traces $${verdict.money.metered_usd}`);
    }
    this.#violations.push(...await leftovers(this.#root, this.#home));
    return {
      ...verdict,
      violations: [...this.#violations, ...verdict.violations],
      counts: clients.counts,
      tasks: traces.length,
      items: items.length,
      requests: bill.length,
      branches: branches.length,
      kills: this.#kills,
      replacements: this.#replacements,
      max_rss_bytes: this.#max.rss_bytes,
      max_open_files: this.#max.open_files,
      rest,
      max_starts: this.#max.starts,
      lines: broker.lines,
    };
  }

  /** Waits until a broker without work has released everything that work takes. */
  async #rest(broker: BrokerProcess): Promise<Use | undefined> {
    for (let poll = 0;; poll++) {
      const use = broker.use();
      if (use === undefined || use.open_files <= FILES_AT_REST) return use;
      if (poll >= POLLS) {
        this.#violations.push(`a broker without work keeps ${use.open_files} files open`);
        return use;
      }
      await systemClock.sleep(200);
    }
  }

  async dispose(): Promise<void> {
    await this.#broker?.kill();
    await this.#git?.[Symbol.asyncDispose]();
    await this.#upstream?.[Symbol.asyncDispose]();
  }
}

function seconds(since_ms: number): string {
  return `${((systemClock.monotonic() - since_ms) / 1_000).toFixed(1)} s`;
}
