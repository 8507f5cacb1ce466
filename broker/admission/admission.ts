/**
 * Who may start a task now: a free slot, the aggregate ceiling, the global ceiling, in
 * this order. Asking and claiming are one turn of the event loop, so that no burst of
 * submissions gets past a limit. A ceiling only ever refuses a start; it never ends a task.
 *
 * A claim holds a slot until the task waits for a person or ends, and counts against the
 * global ceiling until its end, when the ledger takes it over.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { agentOf, type Lane, laneText } from "../agents.ts";
import type { CeilingView } from "../api/wire.ts";
import { isBeyond, isSpent, usdText } from "../gateway/usd_limit.ts";
import type { AuthMode, Settlement } from "../gateway/lease.ts";
import { authOf, type Settings } from "../settings/settings.ts";
import type { SpendFigures, TaskRecord } from "../task/schema.ts";
import type { Outcome } from "../task/stages.ts";
import { Aggregate } from "./aggregate.ts";
import { GlobalCeiling, windowText } from "./global_ceiling.ts";
import { MAX_START_USD } from "./ledger_line.ts";
import { LedgerTime } from "./ledger_time.ts";
import { suspendAwareClock } from "./suspend_aware_clock.ts";
import { traceFiles } from "./traces.ts";

export type AdmissionSettings = Pick<
  Settings,
  | "max_concurrent_tasks"
  | "aggregate_budget_usd"
  | "aggregate_window"
  | "global_budget_usd"
  | "global_max_tasks"
  | "global_window"
  | "vendor_a_auth"
  | "vendor_b_auth"
>;

export interface AdmissionOptions {
  audit_root: string;
  settings: AdmissionSettings;
  clock?: Clock;
  /**
   * Milliseconds of a clock that never goes back and counts while the machine sleeps; by default {@linkcode suspendAwareClock}.
   */
  monotonic?: () => number;
  log?: (line: string) => void;
}

export interface StartRequest {
  lane: Lane;
  auth: AuthMode;
  agent: string;
  retry_of?: string;
}

export interface StartEnd {
  outcome: Outcome;
  /** ISO 8601 UTC. */
  ended_at: string;
  spend?: SpendFigures | undefined;
}

/** A start that was admitted. Exactly one of {@linkcode StartClaim.end} and {@linkcode StartClaim.abandon} ends it. */
export interface StartClaim {
  /** The task exists: what it spends counts from now on. */
  begin(task_id: string, started_at: string): void;
  /** Gives the slot up; the start goes on counting. May be called more than once. */
  releaseSlot(): void;
  /**
   * Gives everything up and records the end. Resolves when the ledger has the start on the disk, or could not write it:
   * then no start is admitted until it can. Does nothing after the claim has ended.
   */
  end(end: StartEnd): Promise<void>;
  /** Gives everything up, for a task that never came to be. */
  abandon(): void;
}

export class Admission {
  readonly warnings: string[];
  readonly #settings: AdmissionSettings;
  readonly #ceiling: GlobalCeiling;
  readonly #aggregate: Aggregate;
  readonly #claims = new Map<string, Claim>();
  readonly #in_slots = new Set<Claim>();
  /** What running requests may cost, where that is held against the ceilings; with a key, by lane, and in all. */
  readonly #held_usd = new Map<Lane | "all", number>();

  private constructor(settings: AdmissionSettings, ceiling: GlobalCeiling, aggregate: Aggregate) {
    this.#settings = settings;
    this.#ceiling = ceiling;
    this.#aggregate = aggregate;
    this.warnings = ceiling.warnings;
  }

  /**
   * Opens the ledger, if the global ceiling is on.
   *
   * @throws {TaskdError} `busy` when another broker uses the ledger. What else is wrong with it refuses starts instead.
   */
  static async open(options: AdmissionOptions): Promise<Admission> {
    const { audit_root, settings, clock = systemClock, log = () => {}, monotonic = suspendAwareClock(clock) } = options;
    const time = new LedgerTime(clock, monotonic);
    const traces = () => traceFiles(audit_root);
    const aggregate = new Aggregate({
      budget_usd: settings.aggregate_budget_usd,
      window_ms: settings.aggregate_window,
      monotonic,
    });
    return new Admission(settings, await GlobalCeiling.open(audit_root, settings, { time, traces, log }), aggregate);
  }

  /**
   * Asks and claims.
   *
   * @throws {TaskdError} `at_capacity` when every slot is taken; `ceiling_reached`, naming the limb, its figures and
   * what clears it.
   */
  claim(request: StartRequest): StartClaim {
    const { max_concurrent_tasks } = this.#settings;
    if (this.#in_slots.size >= max_concurrent_tasks) {
      const running = `${this.#in_slots.size} of ${max_concurrent_tasks} tasks are running (max_concurrent_tasks)`;
      throw new TaskdError("at_capacity", `Cannot start the task: ${running}`, {
        hint: "Try again when one has ended, queue it, or raise max_concurrent_tasks and start the broker again",
      });
    }
    const aggregate = this.#aggregateRefusal(request);
    const refusal = aggregate ?? this.#ceiling.refusal();
    if (refusal !== undefined) {
      throw new TaskdError("ceiling_reached", `Cannot start the task: ${refusal}`, {
        // The headroom that is shown is the global ceiling's.
        hint: aggregate === undefined
          ? "`taskd stats` shows the headroom; tasks that run already go on"
          : "Tasks that run already go on",
      });
    }
    const claim = this.#enter(request, { adopted: false, spent_usd: 0 });
    this.#in_slots.add(claim);
    return claim;
  }

  #aggregateRefusal({ lane, auth }: StartRequest): string | undefined {
    const { aggregate_budget_usd: budget_usd, aggregate_window: window_ms } = this.#settings;
    if (!this.#aggregate.enabled || auth !== "api_key") return undefined;
    const spent_usd = this.#aggregate.spent(lane);
    if (!isSpent(spent_usd, budget_usd)) return undefined;
    const span = window_ms === 0 ? "since the broker started" : windowText(window_ms);
    const reached =
      `the aggregate ceiling of ${laneText(lane)} (aggregate_budget_usd) is reached: ${usdText(spent_usd)} of ` +
      `${usdText(budget_usd)} spent with its key ${span}`;
    const restart = "start the broker again, with a higher aggregate_budget_usd or without: the count begins anew";
    const in_ms = this.#aggregate.agesOutIn(lane);
    if (window_ms === 0 || in_ms === undefined) {
      return `${reached}. aggregate_window is 0s, so this does not age out. To clear it, ${restart}`;
    }
    return `${reached}. To clear it, wait (the oldest of it ages out in ${formatDuration(in_ms)}); or ${restart}`;
  }

  /**
   * The claim of a task that an earlier broker left at the gate or while its checks were watched: it holds no slot, and
   * counts as a start under way. What it has spent is known only from its trace, so the ledger will not trust it.
   */
  adopt(record: TaskRecord): StartClaim {
    const { lane } = agentOf(record.agent);
    const { agent, retry_of } = record;
    const request = {
      lane,
      auth: authOf(this.#settings, lane),
      agent,
      ...(retry_of === undefined ? {} : { retry_of }),
    };
    const claim = this.#enter(request, { adopted: true, spent_usd: record.spend?.usd ?? 0 });
    claim.begin(record.id, record.created_at);
    return claim;
  }

  #enter(request: StartRequest, known: { adopted: boolean; spent_usd: number }): Claim {
    let task: { id: string; started_at: string } | undefined;
    let is_over = false;
    const leave = () => {
      is_over = true;
      this.#in_slots.delete(claim);
      if (task !== undefined) this.#claims.delete(task.id);
    };
    const claim: Claim = {
      all_metered: !known.adopted,
      spent_usd: known.spent_usd,
      begin: (id, started_at) => {
        if (task !== undefined || is_over) return;
        task = { id, started_at };
        this.#ceiling.ledger?.take(id);
        this.#claims.set(id, claim);
      },
      releaseSlot: () => void this.#in_slots.delete(claim),
      end: async ({ outcome, ended_at, spend }) => {
        if (is_over) return;
        if (task === undefined) {
          throw new TaskdError("internal", "Cannot record the end of a start: its task was never named");
        }
        leave();
        const { lane, auth, agent, retry_of = null } = request;
        const recorded = this.#ceiling.ledger?.record({
          task_id: task.id,
          started_at: task.started_at,
          ended_at,
          vendor: lane,
          agent,
          auth,
          usd: Math.min(MAX_START_USD, Math.max(claim.spent_usd, spend?.usd ?? 0)),
          usd_trusted: claim.all_metered && (spend?.priced ?? true),
          outcome,
          retry_of,
        });
        this.#ceiling.under_way.delete(claim);
        await recorded;
      },
      abandon: () => {
        if (is_over) return;
        leave();
        this.#ceiling.under_way.delete(claim);
      },
    };
    this.#ceiling.under_way.add(claim);
    return claim;
  }

  /**
   * Holds what a request may cost against the ceilings, until {@linkcode settled} has its figures or {@linkcode release}
   * gives it up. Says which ceiling has no room for it, and then holds nothing.
   */
  hold({ lane, auth }: Pick<StartRequest, "lane" | "auth">, usd: number): string | undefined {
    const { aggregate_budget_usd, global_budget_usd } = this.#settings;
    if (this.#aggregate.enabled && auth === "api_key") {
      const full = this.#full("aggregate_budget_usd", aggregate_budget_usd, {
        spent_usd: this.#aggregate.spent(lane),
        held_usd: this.#held_usd.get(lane) ?? 0,
        usd,
      });
      if (full !== undefined) return full;
    }
    if (global_budget_usd > 0) {
      const { usd: limb, spent_usd } = this.#ceiling.view();
      if (limb.blocked) return limb.reason;
      const held_usd = this.#held_usd.get("all") ?? 0;
      const full = this.#full("global_budget_usd", global_budget_usd, { spent_usd, held_usd, usd });
      if (full !== undefined) return full;
    }
    this.#hold({ lane, auth }, usd);
    return undefined;
  }

  release(of: Pick<StartRequest, "lane" | "auth">, usd: number): void {
    this.#hold(of, -usd);
  }

  #hold({ lane, auth }: Pick<StartRequest, "lane" | "auth">, usd: number): void {
    for (const key of auth === "api_key" ? [lane, "all"] as const : ["all"] as const) {
      this.#held_usd.set(key, Math.max(0, (this.#held_usd.get(key) ?? 0) + usd));
    }
  }

  #full(
    setting: string,
    budget_usd: number,
    { spent_usd, held_usd, usd }: { spent_usd: number; held_usd: number; usd: number },
  ): string | undefined {
    if (!isBeyond(spent_usd + held_usd + usd, budget_usd)) return undefined;
    return `${usdText(spent_usd)} spent, ${usdText(held_usd)} held by running requests and ${
      usdText(usd)
    } that this one ` +
      `may cost exceed ${usdText(budget_usd)}; wait, or raise ${setting}`;
  }

  /** Counts a settled request; for the gateway's `onSettled`. */
  settled({ task_id, lane, auth, usd, unmetered, held_usd }: Settlement): void {
    if (held_usd > 0) this.release({ lane, auth }, held_usd);
    if (auth === "api_key") this.#aggregate.add(lane, usd);
    // A lease ends before its task does, so that nothing is settled afterwards.
    const claim = this.#claims.get(task_id);
    if (claim === undefined) return;
    if (usd > 0 && Number.isFinite(usd)) claim.spent_usd += usd;
    if (unmetered) claim.all_metered = false;
  }

  ceiling(): CeilingView {
    return this.#ceiling.view();
  }

  async close(): Promise<void> {
    await this.#ceiling.ledger?.close();
  }
}

interface Claim extends StartClaim {
  /** USD that the broker has metered for it by now. */
  spent_usd: number;
  /** Whether `spent_usd` covers every request. */
  all_metered: boolean;
}
