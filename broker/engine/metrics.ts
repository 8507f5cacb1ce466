/**
 * The broker's metrics in Prometheus text format. What happens is counted as it happens; what is, is read at each
 * scrape.
 *
 * @module
 */

import { Counter, Gauge, Registry } from "prom-client";
import { LANES } from "../agents.ts";
import type { CeilingView } from "../api/wire.ts";
import type { Settlement } from "../gateway/lease.ts";
import { OUTCOMES } from "../task/stages.ts";
import type { Outcome } from "../task/stages.ts";

/** What is read at a scrape. */
export interface Standing {
  running: number;
  pending: number;
  slots: number;
  ceiling: CeilingView;
}

/** The metrics of one broker. */
export class EngineMetrics {
  readonly #registry = new Registry();
  readonly #read: () => Standing;
  readonly #running = this.#gauge("tasks_running", "Tasks that are being worked on.");
  readonly #pending = this.#gauge("tasks_pending", "Tasks that wait for approval.");
  readonly #slots = this.#gauge("task_slots", "Tasks that may run at the same time.");
  readonly #headroom_usd = this.#gauge(
    "ceiling_headroom_usd",
    "USD left below the global ceiling; absent without one.",
  );
  readonly #headroom_starts = this.#gauge(
    "ceiling_headroom_starts",
    "Task starts left below the global ceiling; absent without one.",
  );
  readonly #started = this.#counter("tasks_started_total", "Tasks that were begun.", []);
  readonly #ended = this.#counter("tasks_ended_total", "Tasks that have ended, by outcome.", ["outcome"]);
  readonly #refused = this.#counter("starts_refused_total", "Starts that were refused, by code.", ["code"]);
  readonly #requests = this.#counter("gateway_requests_total", "Settled requests to vendors.", ["lane", "ending"]);
  readonly #unmetered = this.#counter("gateway_unmetered_total", "Of these, how many have no full price.", ["lane"]);
  readonly #usd = this.#counter("gateway_usd_total", "USD metered by the gateway.", ["lane"]);

  /** Registers every family; `read` is called at each scrape. */
  constructor(version: string, read: () => Standing) {
    this.#read = read;
    new Gauge({
      name: "taskd_broker_build_info",
      help: "Always 1; the label is the running build.",
      labelNames: ["version"],
      registers: [this.#registry],
    }).set({ version }, 1);
    for (const outcome of Object.keys(OUTCOMES)) this.#ended.inc({ outcome }, 0);
    for (const code of ["at_capacity", "ceiling_reached"]) this.#refused.inc({ code }, 0);
    for (const lane of LANES) {
      this.#unmetered.inc({ lane }, 0);
      this.#usd.inc({ lane }, 0);
    }
  }

  /** A task was begun. */
  started(): void {
    this.#started.inc();
  }

  /** A task has ended. */
  ended(outcome: Outcome): void {
    this.#ended.inc({ outcome });
  }

  /** A start was refused. */
  refused(code: string): void {
    this.#refused.inc({ code });
  }

  /** A request was settled. */
  settled({ lane, ending, usd, unmetered }: Settlement): void {
    this.#requests.inc({ lane, ending });
    this.#usd.inc({ lane }, usd);
    if (unmetered) this.#unmetered.inc({ lane });
  }

  /** Everything, as a scrape gets it. */
  async text(): Promise<string> {
    const { running, pending, slots, ceiling } = this.#read();
    this.#running.set(running);
    this.#pending.set(pending);
    this.#slots.set(slots);
    setOrClear(this.#headroom_usd, ceiling.headroom_usd);
    setOrClear(this.#headroom_starts, ceiling.headroom_starts);
    return await this.#registry.metrics();
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name: `taskd_broker_${name}`, help, registers: [this.#registry] });
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[]): Counter<L> {
    return new Counter({ name: `taskd_broker_${name}`, help, labelNames, registers: [this.#registry] });
  }
}

function setOrClear(gauge: Gauge, value: number | null): void {
  if (value === null) gauge.remove();
  else gauge.set(value);
}
