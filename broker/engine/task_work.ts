/**
 * The work on one task, from its first row to the gate: staging, setting up, running, collecting.
 *
 * Every move is on the disk before it is acted on. Whatever ends the work, the order of the end is the same: the sandbox
 * is stopped, the gateway lease and the egress access are ended and their figures written, the scratch is removed, and only
 * then is the task `done`.
 */

import { asKnownError, hasCode, messageOf, messageWithHint, stackOf, TaskdError } from "../../lib/errors.ts";
import { makeDirectories, withFileError } from "../../lib/fs.ts";
import type { ForkedDatabase } from "../databases/evidence.ts";
import type { TaskEgress } from "../egress/proxy.ts";
import type { GatewayLease, ReportedCost, Spend } from "../gateway/lease.ts";
import { usdText } from "../gateway/usd_limit.ts";
import { type StagedRepository, stageRepository } from "../git/staged_repository.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { isContainerRuntime } from "../sandbox/runtime.ts";
import type { SandboxEnd } from "../sandbox/runtime.ts";
import type { Json } from "../task/value_schemas.ts";
import type { RefusedEgress, SpendFigures } from "../task/schema.ts";
import { type Decider, type Move, type Outcome, type Stage, STAGES } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import { boundTo } from "./bind.ts";
import type { EgressGrantRequest } from "../api/wire.ts";
import { quotaBytes } from "../cache/dependency_cache.ts";
import { DiskWatch } from "./disk_watch.ts";
import { GrantedEgress } from "./granted_egress.ts";
import { collectChange } from "./collect.ts";
import { collectData, type DataWork, stageData } from "./database_stages.ts";
import { allowedOutcome, endingOf, failureIn, limitMet, TaskEnding, timeoutEnding, waitForEnd } from "./endings.ts";
import { type Known, writeBrief } from "./known_brief.ts";
import type { TaskPlan } from "./task_plan.ts";
import type { EngineDeps, SetupResult } from "./engine_deps.ts";
import { reachRepo, withoutServerWords } from "./repo_address.ts";
import { auditPaths, type StagePaths, stagePaths } from "./task_paths.ts";
import { DISK } from "./trace_evidence.ts";
import { refusedBy } from "./refused_egress.ts";
import { MAX_OUTPUT_BYTES, Transcript } from "./transcript.ts";
import type { LiveTask } from "./views.ts";
import { sandboxWorkload } from "./workload.ts";

/** Memory of a container: a package manager and a compiler fit. */
const MEMORY_BYTES = 4 * 2 ** 30;
/** Heap of the built-in agent, which keeps a conversation of a few megabytes. */
const BUILT_IN_MEMORY_BYTES = 512 << 20;
/** Rows of spend that are written while the agent works, one for each request; beyond it one for a hundred of them. */
const MAX_INTERIM_ROWS = 10_000;
const REQUESTS_PER_LATE_ROW = 100;
const REWRITE_MS = 5_000;

export class TaskWork {
  readonly task: Task;
  /** Resolves when the task is at the gate or done; never rejects. */
  readonly finished: Promise<void>;
  readonly #deps: EngineDeps;
  readonly #plan: TaskPlan;
  readonly #paths: StagePaths;
  readonly #ending = new AbortController();
  readonly #known: Known;
  #lease: GatewayLease | undefined;
  #egress: TaskEgress | undefined;
  #granted: GrantedEgress | undefined;
  readonly #disk: DiskWatch;
  #forks: ForkedDatabase[] = [];
  #decided = false;
  #interim_rows = 0;
  /** The gateway's last figures that are on the disk, and how many newer ones are on their way there. */
  #noted: SpendFigures | undefined;
  #notes_under_way = 0;
  #last_note: Promise<void> = Promise.resolve();
  #unwritten_spend: SpendFigures | undefined;
  /** Aborted when the broker stops: the disk is not waited for then. */
  readonly #abandoned = new AbortController();
  readonly #releaseSlot: () => void;

  /** Begins; `releaseSlot` is called when nothing of the task runs any more, before that is visible. */
  constructor(deps: EngineDeps, task: Task, plan: TaskPlan, releaseSlot: () => void) {
    this.#deps = deps;
    this.task = task;
    this.#plan = plan;
    this.#releaseSlot = releaseSlot;
    this.#paths = stagePaths(deps.resolved.settings.stage_root, task.id);
    const { hash } = deps.resolved;
    this.#disk = this.#diskWatch();
    this.#known = { policy_hash: hash, budget_usd: plan.auth === "api_key" ? plan.budget_usd : 0 };
    this.finished = this.#run();
  }

  /**
   * Ends the work.
   *
   * @returns Whether it will: false when the task is on its way to the gate or to another end already.
   */
  end(outcome: Outcome, reason: string, by?: Decider): boolean {
    if (this.#decided) return false;
    const { signal } = this.#ending;
    if (signal.aborted) return signal.reason.outcome === outcome;
    this.#ending.abort(new TaskEnding(outcome, reason, by));
    return true;
  }

  abandon(): void {
    this.#abandoned.abort();
    const { stage } = this.task.record;
    this.end(failureIn(stage), `the broker was stopped while the task was in ${stage}: ${STAGES[stage].meaning}`);
  }

  /** What the gateway has metered so far, as far as a power cut cannot take it back; undefined while there is no lease. */
  spend(): SpendFigures | undefined {
    if (this.#notes_under_way > 0 && this.#lease !== undefined) return this.#noted;
    return this.#lease && figures(this.#lease.spend());
  }

  /** Resolves once what is metered now is on the disk, or cannot be written. */
  get spend_noted(): Promise<void> {
    return this.#last_note;
  }

  /** What is not in its trace yet, or not as it stands now. */
  live(): LiveTask {
    return {
      spend: this.spend(),
      refused_egress: this.#refusedEgress(),
      egress_grants: this.#granted?.list() ?? [],
      disk: this.#disk.use,
    };
  }

  #refusedEgress(): RefusedEgress {
    return this.#egress === undefined ? [] : refusedBy(this.#egress.decisions());
  }

  async grantEgress(request: EgressGrantRequest, by?: Decider): Promise<void> {
    if (this.#granted !== undefined && !this.#decided) return await this.#granted.grant(request, by);
    const when = this.#granted === undefined ? "its setup has not begun" : "its agent has ended";
    throw new TaskdError("wrong_state", `Cannot grant the task ${this.task.id} a host: ${when}`);
  }

  #diskWatch(): DiskWatch {
    const { clock, meter, room, resolved: { settings } } = this.#deps;
    const { work_dir, home_dir, databases_dir } = this.#paths;
    return new DiskWatch([work_dir, home_dir, databases_dir], {
      meter,
      clock,
      limit_bytes: quotaBytes(settings.task_disk_gb),
      onEnding: ({ outcome, message }) => void this.end(outcome, message),
      onCount: (bytes) => void room.note(this.task.id, bytes),
    });
  }

  get #signal(): AbortSignal {
    return this.#ending.signal;
  }

  async #run(): Promise<void> {
    const { clock, resolved } = this.#deps;
    const { task_timeout } = resolved.settings;
    const over = new AbortController();
    const timeout = clock.sleep(task_timeout, over.signal).then(
      () => this.#decided || this.#ending.abort(timeoutEnding(task_timeout)),
      () => {},
    );
    let setup: SetupResult | undefined;
    let move: Move;
    try {
      const staged = await this.#stage();
      this.#disk.start();
      setup = await this.#setUp(staged);
      await this.#runAgent(setup);
      await this.#disk.finish(this.#signal);
      move = await this.#collect(staged);
    } catch (error) {
      move = this.#moveFor(error);
    }
    // In one turn: from then on a request for another end comes too late.
    if (move.to !== "done" && this.#signal.aborted) move = this.#moveFor(this.#signal.reason);
    this.#decided = true;
    over.abort();
    await timeout;
    await this.#release(setup, move);
    this.#releaseSlot();
    await this.#make(move);
  }

  async #stage(): Promise<StagedRepository> {
    const { task } = this;
    const { git, mirrors, resolved } = this.#deps;
    await this.#to({ from: "admission", to: "staging" });
    await withFileError(`Cannot make ${this.#paths.root}`, async () => {
      makeDirectories(resolved.settings.stage_root);
      await Deno.mkdir(this.#paths.root, { mode: 0o700 });
    });
    const reached = await reachRepo(this.#deps, task.record, "fetch", this.#signal);
    const staged = await withoutServerWords(this.#deps, this.task.record, "Cannot clone", () =>
      stageRepository(git, {
        ...reached,
        ...(task.record.base === undefined ? {} : { base: task.record.base }),
        git_dir: this.#paths.git_dir,
        work_tree: this.#paths.work_dir,
        mirrors,
        signal: this.#signal,
      }));
    const { base_commit, base_branch } = staged;
    this.#known.base_commit = base_commit;
    await this.#evidence("staged", { base_commit, ...(base_branch === undefined ? {} : { base_branch }) });
    this.#forks = await stageData(this.#deps, this.#dataWork());
    return staged;
  }

  #dataWork(): DataWork {
    return { task: this.task, paths: this.#paths, signal: this.#signal };
  }

  async #setUp(staged: StagedRepository): Promise<SetupResult | undefined> {
    const { proxy, setup, resolved, clock } = this.#deps;
    const { profile, url, extra } = this.#plan;
    const { id, record } = this.task;
    this.#egress = proxy.admit({ task_id: id, extra });
    this.#granted = new GrantedEgress({ task: this.task, egress: this.#egress, clock });
    if (profile === undefined) return undefined;
    await this.#to({ from: "staging", to: "setting_up" });
    const transcript = new Transcript(this.task);
    const result = await setup({
      order: record,
      repo: url,
      profile,
      work_dir: this.#paths.work_dir,
      git_dir: staged.git_dir,
      base_commit: staged.base_commit,
      proxy_url: this.#egress.url,
      log_path: auditPaths(resolved.settings.audit_root, id).setup_log,
      signal: this.#signal,
      onLine: (text) => transcript.take("setup", text),
      onFolder: (path) => this.#disk.add(path),
    }).catch(async (error: unknown) => {
      await transcript.close();
      throw error;
    });
    try {
      await transcript.close();
      this.#known.setup = result.evidence;
      await this.#evidence("setup", JSON.parse(JSON.stringify(result.evidence)) as Json);
      this.#signal.throwIfAborted();
      if (!result.passed) throw new TaskEnding("setup_failed", result.reason ?? "a command of the profile failed");
      return result;
    } catch (error) {
      await result.release();
      throw error;
    }
  }

  async #runAgent(setup: SetupResult | undefined): Promise<void> {
    const { admission, gateway, runtime, resolved: { settings } } = this.#deps;
    const { agent: { lane }, auth } = this.#plan;
    const from = this.task.record.stage === "setting_up" ? "setting_up" : "staging";
    await this.#to({ from, to: "running" });
    const built_in = runtime.name === "deno";
    this.#known.runtime = runtime.name;
    if (isContainerRuntime(runtime.name)) {
      this.#known.image = settings.sandbox_image;
      const image_digest = await runtime.imageDigest?.(settings.sandbox_image, this.#signal);
      if (image_digest !== undefined) this.#known.image_digest = image_digest;
    }
    const lease = this.#lease = gateway.lease({
      task_id: this.task.id,
      lane,
      auth,
      budget_usd: this.#plan.budget_usd,
      max_inflight: settings.task_max_inflight,
      max_request_cost_usd: settings.max_request_cost_usd,
      max_requests: settings.task_max_requests,
      allow_tools: [...settings.allow_vendor_tools, ...(lane === "compat" ? settings.compat.allow_fields : [])],
      ...settings.budget_mode === "soft" ? {} : {
        strict: {
          hold: (usd) => admission.hold({ lane, auth }, usd),
          release: (usd) => admission.release({ lane, auth }, usd),
        },
      },
      onSpend: (spend) => this.#note(spend),
    });
    this.#noted = figures(lease.spend());
    const transcript = new Transcript(this.task);
    let end: SandboxEnd;
    let spend: Spend;
    try {
      const workload = await sandboxWorkload(this.#deps, {
        plan: this.#plan,
        record: this.task.record,
        paths: this.#paths,
        token: lease.token,
        proxy_url: this.#egress!.url,
        mounts: setup?.mounts ?? [],
        env: setup?.env ?? {},
        databases: this.#forks.map(({ db }) => db),
      });
      const sandbox = await runtime.start({
        task_id: this.task.id,
        work_dir: this.#paths.work_dir,
        workload,
        memory_bytes: built_in ? BUILT_IN_MEMORY_BYTES : MEMORY_BYTES,
        timeout_ms: settings.task_timeout,
        signal: this.#signal,
        max_output_bytes: MAX_OUTPUT_BYTES,
        onOutput: ({ stream, text }) => transcript.take(stream, text),
        onNote: (text) => this.task.append({ type: "note", text }),
      });
      end = await waitForEnd(sandbox, this.#signal);
    } finally {
      spend = await this.#endLease(lease, transcript);
    }
    this.#signal.throwIfAborted();
    const limits = { settings, spend, auth, budget_usd: this.#plan.budget_usd };
    const ending = endingOf(end, { ...limits, built_in });
    if (ending !== undefined) throw ending;
    const limit = limitMet(limits);
    if (limit !== undefined) await this.task.append({ type: "note", text: `the agent ended by itself, but ${limit}` });
    if (end.output_truncated) {
      await this.task.append({ type: "note", text: `output beyond ${MAX_OUTPUT_BYTES} bytes was not kept` });
    }
  }

  async #endLease(lease: GatewayLease, transcript: Transcript): Promise<Spend> {
    const spend = await lease.end();
    this.#lease = undefined;
    this.#known.spend = this.#unwritten_spend = figures(spend);
    await transcript.close();
    await this.#writeSpend();
    const reported = lease.reported();
    if (reported !== undefined) await this.task.append({ type: "note", text: reportedText(reported) });
    return spend;
  }

  /** Writes down the final spend, which a full disk must not make less. */
  async #writeSpend(): Promise<void> {
    if (this.#unwritten_spend === undefined) return;
    await this.task.append({ type: "spend", spend: this.#unwritten_spend });
    this.#unwritten_spend = undefined;
  }

  /** Writes down what was spent so far, so that a crash does not hide it. */
  #note(spend: Spend): void {
    if (++this.#interim_rows > MAX_INTERIM_ROWS && this.#interim_rows % REQUESTS_PER_LATE_ROW !== 0) return;
    const noted = figures(spend);
    this.#notes_under_way++;
    const written = () => {
      this.#notes_under_way--;
      this.#noted = noted;
    };
    // What cannot be written now is written at the end, or keeps the task from its end.
    this.#last_note = this.task.append({ type: "spend", spend: noted }).then(written, written);
  }

  async #collect(staged: StagedRepository): Promise<Move> {
    await this.#to({ from: "running", to: "collecting" });
    if (this.#forks.length > 0) this.#known.databases = await collectData(this.#deps, this.#dataWork());
    const grants = this.#granted?.list() ?? [];
    if (grants.length > 0) this.#known.egress_grants = grants;
    const gate = await collectChange(this.#deps, {
      task: this.task,
      url: this.#plan.url,
      staged,
      egress_extra: this.#plan.extra,
      known: this.#known,
      signal: this.#signal,
    });
    return { from: "collecting", to: "awaiting_approval", gate };
  }

  #evidence(name: string, value: Json): Promise<unknown> {
    return this.task.append({ type: "evidence", name, value });
  }

  async #to(move: Move): Promise<void> {
    this.#signal.throwIfAborted();
    await this.task.move(move);
    this.#signal.throwIfAborted();
  }

  #moveFor(error: unknown): Move {
    const { stage } = this.task.record;
    // Whatever failed because the work was to end is no failure of its own.
    const asked: unknown = this.#signal.aborted ? this.#signal.reason : undefined;
    const cause = asked instanceof TaskEnding ? asked : error;
    if (cause instanceof TaskEnding) return ended(stage, cause.outcome, cause.message, cause.by);
    const known = asKnownError(cause);
    if (known === undefined || known.code === "internal") {
      const { id } = this.task;
      this.#deps.log("error", "defect", `task ${id} met a defect: ${stackOf(cause)}`, { task_id: id });
      return ended(stage, failureIn(stage), "a defect in taskd; the broker's log has its place");
    }
    return ended(stage, failureIn(stage), messageWithHint(known));
  }

  /** Ends everything that the task has, except what the gate needs. */
  async #release(setup: SetupResult | undefined, move: Move): Promise<void> {
    const { task } = this;
    const { log, resolved } = this.#deps;
    const steps: [string, () => Promise<unknown>][] = [
      ["release the dependency cache", () => setup?.release() ?? Promise.resolve()],
      ["note what egress came to", async () => {
        const refused = this.#refusedEgress();
        this.#egress?.end();
        await this.#granted?.close();
        if (refused.length > 0) await this.#evidence("refused_egress", refused);
      }],
      ["note what disk it took", async () => {
        await this.#disk.stop();
        this.#deps.room.forget(task.id);
        const use = this.#disk.use;
        if (use !== undefined) await this.#evidence(DISK, { ...use });
      }],
      ["write the brief", async () => {
        if (move.to === "done" && this.#known.base_commit !== undefined && this.#known.verdict === undefined) {
          await writeBrief(this.#deps, task.record, this.#plan.url, this.#known);
        }
      }],
      ["remove the work tree", async () => {
        const { root, work_dir, home_dir, databases_dir, inspected_dir } = this.#paths;
        const over = [work_dir, home_dir, databases_dir, inspected_dir];
        for (const path of move.to === "done" ? [root] : over) await removeTree(path);
      }],
    ];
    for (const [what, step] of steps) {
      try {
        await step();
      } catch (error) {
        const { stage_root } = resolved.settings;
        const reason = messageOf(error);
        log("warn", "cleanup_failed", `cannot ${what} of a task: ${reason}`, { task_id: task.id, stage_root });
      }
    }
  }

  /** Makes the last move; a disk that is full for a while must not leave the task in the air. */
  async #make(move: Move): Promise<void> {
    const { log, clock } = this.#deps;
    for (let tries = 0;; tries++) {
      try {
        await this.#writeSpend();
        // The gate is bound to all that was written before it.
        const bound = move.to === "awaiting_approval" ? { ...move, gate: boundTo(move.gate, this.task.head) } : move;
        return void await this.task.move(bound);
      } catch (error) {
        log("error", "trace_failed", `cannot write a task's move: ${messageOf(error)}`, { task_id: this.task.id });
        // The next broker ends what cannot be ended now.
        const passing = hasCode(error, "no_space", "denied", "unavailable");
        if (!passing || (this.#abandoned.signal.aborted && tries > 0)) return;
        await clock.sleep(REWRITE_MS, this.#abandoned.signal).catch(() => {});
      }
    }
  }
}

/** The move that ends a task; an outcome that its stage does not have becomes the stage's failure. */
function ended(stage: Stage, outcome: Outcome, reason: string, by?: Decider): Move {
  // The type knows moves by their stages; the move is checked against the table when it is made.
  return { from: stage, to: "done", outcome: allowedOutcome(stage, outcome), reason, ...(by && { by }) } as Move;
}

/** What the endpoint says that requests cost, held against what was metered of the same ones. */
function reportedText({ requests, usd, metered_usd }: ReportedCost): string {
  const difference = usd - metered_usd;
  const compared = Math.abs(difference) < 0.5e-6
    ? "the same"
    : `${usdText(Math.abs(difference))} ${difference > 0 ? "less" : "more"}`;
  const of = requests === 1 ? "1 request" : `${requests} requests`;
  return `the endpoint says that ${of} cost ${usdText(usd)}; metered ${usdText(metered_usd)}, ${compared}`;
}

export function figures({ in_flight: _, ...spend }: Spend): SpendFigures {
  return spend;
}
