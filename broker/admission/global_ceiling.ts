/**
 * The global ceiling: what the ledger remembers and what is under way, together, against its two limbs. Each limb that
 * is on refuses when it is reached, and when it cannot be known that it is not; a limb that is off refuses nothing.
 */

import type { CeilingView, LimbView } from "../api/wire.ts";
import { isSpent, usdText } from "../gateway/usd_limit.ts";
import { formatExact } from "../settings/value_schemas.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import type { Settings } from "../settings/settings.ts";
import { Ledger, type LedgerOptions, type LedgerTotals } from "./ledger.ts";

/** 0 turns a limb off, and a window of 0 is the total. */
type CeilingSettings = Pick<Settings, "global_budget_usd" | "global_max_tasks" | "global_window">;

export function windowText(window_ms: number): string {
  return window_ms === 0 ? "in all" : `in the last ${formatExact(window_ms)}`;
}

export class GlobalCeiling {
  /** Absent when both limbs are off. */
  readonly ledger: Ledger | undefined;
  /** Starts that have not ended: each counts here until the ledger has its end. */
  readonly under_way = new Set<{ readonly spent_usd: number }>();
  readonly #settings: CeilingSettings;

  private constructor(settings: CeilingSettings, ledger: Ledger | undefined) {
    this.#settings = settings;
    this.ledger = ledger;
  }

  /**
   * Opens the ledger, if a limb is on; otherwise there is none, and no file is made.
   *
   * @throws {TaskdError} `busy` when another broker uses the ledger.
   */
  static async open(
    audit_root: string,
    settings: CeilingSettings,
    options: Omit<LedgerOptions, "window_ms">,
  ): Promise<GlobalCeiling> {
    const enabled = settings.global_budget_usd > 0 || settings.global_max_tasks > 0;
    const window_ms = settings.global_window;
    return new GlobalCeiling(settings, enabled ? await Ledger.open(audit_root, { ...options, window_ms }) : undefined);
  }

  get warnings(): string[] {
    const view = this.view();
    const trouble = this.ledger?.unreadable ?? this.ledger?.unwritten;
    if (trouble !== undefined) return [`${trouble.message}: the global ceiling refuses every task`];
    return [view.usd, view.tasks].flatMap(({ blocked, reason }) => blocked ? [reason] : []);
  }

  refusal(): string | undefined {
    if (this.ledger === undefined) return undefined;
    this.ledger.retry();
    const { usd, tasks } = this.view();
    return [usd, tasks].find(({ blocked }) => blocked)?.reason;
  }

  view(): CeilingView {
    const { global_budget_usd: budget_usd, global_max_tasks: max_tasks, global_window: window_ms } = this.#settings;
    const totals: LedgerTotals = this.ledger?.totals() ?? { usd: 0, starts: 0, damaged_lines: 0 };
    let live_usd = 0;
    for (const start of this.under_way) live_usd += start.spent_usd;
    const enabled = this.ledger !== undefined;
    const spent_usd = enabled ? totals.usd + live_usd : 0;
    const in_flight_starts = enabled ? this.under_way.size : 0;
    const starts = totals.starts + in_flight_starts;
    return {
      enabled,
      window: formatExact(window_ms),
      window_ms,
      budget_usd,
      spent_usd,
      headroom_usd: budget_usd > 0 ? Math.max(0, budget_usd - spent_usd) : null,
      max_tasks,
      recorded_starts: totals.starts,
      in_flight_starts,
      starts,
      headroom_starts: max_tasks > 0 ? Math.max(0, max_tasks - starts) : null,
      usd: limb(this.#usdProblem(totals, spent_usd, live_usd)),
      tasks: limb(this.#tasksProblem(totals, starts)),
      damaged: totals.damaged_lines,
      oldest_entry: isoText(totals.oldest_ms),
      newest_entry: isoText(totals.newest_ms),
    };
  }

  #usdProblem(totals: LedgerTotals, spent_usd: number, live_usd: number): string | undefined {
    const { global_budget_usd: budget_usd, global_window: window_ms } = this.#settings;
    if (budget_usd <= 0) return undefined;
    const name = "the global ceiling's USD limb (global_budget_usd)";
    const unknown = this.#unknown(name);
    if (unknown !== undefined) return unknown;
    if (totals.damaged_lines > 0) {
      const what = `${totals.damaged_lines} damaged ${totals.damaged_lines === 1 ? "line" : "lines"}`;
      return `${name} cannot tell what was spent: the ledger has ${what}. ${this.#remedy(totals, { alone: false })}`;
    }
    if (!isSpent(spent_usd, budget_usd)) return undefined;
    const live = live_usd > 0 ? `, ${usdText(live_usd)} of it by tasks under way` : "";
    const numbers = `${usdText(spent_usd)} of ${usdText(budget_usd)} spent ${windowText(window_ms)}${live}`;
    const alone = isSpent(live_usd, budget_usd);
    return `${name} is reached: ${numbers}. ${this.#remedy(totals, { raise: "global_budget_usd", alone })}`;
  }

  #tasksProblem(totals: LedgerTotals, starts: number): string | undefined {
    const { global_max_tasks: max_tasks, global_window: window_ms } = this.#settings;
    if (max_tasks <= 0) return undefined;
    const name = "the global ceiling's task limb (global_max_tasks)";
    const unknown = this.#unknown(name);
    if (unknown !== undefined) return unknown;
    if (starts < max_tasks) return undefined;
    const in_flight = starts - totals.starts;
    const parts = `${totals.starts} recorded, ${in_flight} in flight`;
    const numbers = `${starts} of ${max_tasks} task starts ${windowText(window_ms)} (${parts})`;
    const alone = in_flight >= max_tasks;
    return `${name} is reached: ${numbers}. ${this.#remedy(totals, { raise: "global_max_tasks", alone })}`;
  }

  /** Why no limb can be evaluated. */
  #unknown(name: string): string | undefined {
    const { unreadable, unwritten, path } = this.ledger ?? {};
    if (unreadable !== undefined) {
      return `${name} cannot tell what was started and spent: ${unreadable.message}. ${this.#total()}To clear it, make ` +
        `the ledger readable, or stop the broker and remove ${path}; then start the broker again`;
    }
    if (unwritten === undefined) return undefined;
    return `${name} cannot keep account: ${unwritten.message}. ${this.#total()}To clear it, let the ledger be written ` +
      `(${unwritten.hint ?? "look at its disk"}); that is tried again with each start`;
  }

  /** Ends every refusal in total mode. */
  #total(): string {
    return this.#settings.global_window === 0
      ? "global_window is 0s, so this does not age out, across restarts either. "
      : "";
  }

  /** What clears a refusal; `alone`: what is under way, which no ledger's removal forgets, reaches the limb by itself. */
  #remedy(totals: LedgerTotals, { raise, alone }: { raise?: string; alone: boolean }): string {
    const first = alone ? "let tasks under way end, then " : "";
    const ways = [
      ...this.#settings.global_window === 0 ? [] : [wait(totals, alone)],
      ...raise === undefined ? [] : [`raise ${raise} and start the broker again`],
      `${first}stop the broker, remove ${this.ledger?.path} and start it again`,
    ];
    return `${this.#total()}To clear it, ${ways.join("; or ")}`;
  }
}

function wait({ ages_out_in_ms }: LedgerTotals, alone: boolean): string {
  if (alone || ages_out_in_ms === undefined) return "wait until a task has ended and a window has passed";
  return `wait (the oldest entry ages out in ${formatDuration(ages_out_in_ms)})`;
}

function limb(problem: string | undefined): LimbView {
  return { blocked: problem !== undefined, reason: problem ?? "" };
}

function isoText(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}
