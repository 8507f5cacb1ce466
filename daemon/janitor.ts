/**
 * The janitor: on every tick it destroys expired branches, folds points of the past, collects unreachable objects, and
 * brings the read-only cache within its budget. The four are independent: a failure is logged and counted, and the others
 * still run. Beside the
 * ticks, because it may take long, it scrubs what is stored.
 */

import type { Clock } from "../lib/clock.ts";
import { formatAddress } from "../lib/store/names.ts";
import { DEFAULT_LEVELS, type KeepLevel } from "../lib/store/retention.ts";
import type { StoreEngine } from "./store_engine.ts";
import type { DaemonLog } from "./log.ts";
import type { JanitorPass, Metrics } from "./metrics.ts";
import type { MoreMetrics } from "./more_metrics.ts";
import type { Publisher } from "./publisher.ts";
import { messageOf } from "../lib/errors.ts";

/** Default of --scrub-every: what rots is found while backups of a month still have it. */
export const DEFAULT_SCRUB_EVERY_MS = 30 * 24 * 3_600_000;
/** Default of --reap-every, the contract's number. */
export const DEFAULT_REAP_EVERY_MS = 60_000;

export interface JanitorSchedule {
  /** Milliseconds between ticks; 0 for no janitor at all. */
  reap_every_ms: number;
  /** Milliseconds an unreachable object is kept; 0 makes it eligible on the next tick. */
  gc_grace_ms: number;
  /** How long the points of branches are kept that do not say so themselves; {@linkcode DEFAULT_LEVELS} when absent. */
  keep?: readonly KeepLevel[];
  /** Bytes of the read-only cache; 0 for no limit. */
  ro_cache_budget_bytes: number;
  /** Milliseconds in which everything stored is read against its checksums once; 0, and absent, for never. */
  scrub_every_ms?: number;
}

export interface JanitorOptions extends JanitorSchedule {
  engine: Pick<StoreEngine, "store">;
  publisher: Pick<Publisher, "publish">;
  metrics: Pick<Metrics, "janitorPassed">;
  more_metrics?: Pick<MoreMetrics, "scrubbed" | "historyKept" | "historyFolded">;
  clock: Clock;
  log: DaemonLog;
}

export class Janitor {
  readonly #options: JanitorOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  /** Starts it; the first tick is one interval later. */
  constructor(options: JanitorOptions) {
    this.#options = options;
    this.#running = options.reap_every_ms === 0 ? Promise.resolve() : this.#run();
    // Not waited for at the end: closing the engine ends a slice.
    if (options.reap_every_ms > 0 && options.scrub_every_ms) this.#scrub(options.scrub_every_ms);
  }

  /** Ends it; resolves after a tick that runs. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** One after each interval, until it is stopped. */
  async *#ticks(): AsyncGenerator<void> {
    const { clock, reap_every_ms } = this.#options;
    while (await clock.sleep(reap_every_ms, this.#stop.signal).then(() => true, () => false)) yield;
  }

  async #run(): Promise<void> {
    for await (const _ of this.#ticks()) await this.#tick();
  }

  async #scrub(scrub_every_ms: number): Promise<void> {
    const { clock, engine, log, more_metrics } = this.#options;
    for await (const _ of this.#ticks()) {
      try {
        const result = await engine.store("scrub", [{ scrub_every_ms }]);
        more_metrics?.scrubbed(result, clock.now());
        for (const { where, why } of result.found) log(`janitor: scrub: ${where}: ${why}`);
        if (result.finished) log(`janitor: scrub: everything was read; damaged=${result.damaged}`);
      } catch (error) {
        if (!this.#stop.signal.aborted) log(`janitor: scrub: ${messageOf(error)}`);
      }
    }
  }

  async #tick(): Promise<void> {
    const pass: JanitorPass = { result: "ok", reaped: 0, gc_failed: false };
    await this.#part("reap", pass, () => this.#reap(pass));
    await this.#part("history", pass, () => this.#fold());
    await this.#part("gc", pass, async () => {
      pass.gc_failed = true;
      const { engine, gc_grace_ms, keep = DEFAULT_LEVELS, more_metrics } = this.#options;
      const result = await engine.store("collectGarbage", [{ grace_ms: gc_grace_ms, keep }]);
      pass.gc = result;
      more_metrics?.historyKept(result.history);
      pass.gc_failed = false;
    });
    await this.#part("ro-cache", pass, async () => {
      pass.ro_cache = await this.#trimCache();
    });
    this.#options.metrics.janitorPassed(pass);
  }

  async #reap(pass: JanitorPass): Promise<void> {
    const { engine, publisher, log } = this.#options;
    const { reaped, failed } = await engine.store("reapExpired", []);
    // Counted also when others failed.
    pass.reaped = reaped.length;
    for (const { db, branch, txid, ttl_seconds } of reaped) {
      log(`janitor: reap: destroyed ${formatAddress({ db, branch })}`);
      publisher.publish("reaped", { db, branch }, { txid, ttl_seconds });
    }
    for (const { db, branch, error } of failed) log(`janitor: reap: ${formatAddress({ db, branch })}: ${error}`);
    if (failed.length > 0) throw new Error(`${failed.length} of the branches could not be destroyed`);
  }

  async #fold(): Promise<void> {
    const { engine, keep = DEFAULT_LEVELS, log, more_metrics } = this.#options;
    const result = await engine.store("foldHistory", [{ keep }]);
    more_metrics?.historyFolded(result);
    for (const { db, branch, error } of result.failed) {
      log(`janitor: history: ${formatAddress({ db, branch })}: ${error}`);
    }
    if (result.failed.length > 0) throw new Error(`points of ${result.failed.length} branches could not be folded`);
  }

  async #trimCache(): Promise<{ bytes: number; evicted: number }> {
    const { engine, publisher, log, ro_cache_budget_bytes } = this.#options;
    const { bytes, evicted } = await engine.store("enforceRoCacheBudget", [{ budget_bytes: ro_cache_budget_bytes }]);
    for (const { db, branch, checkpoint, bytes } of evicted) {
      log(`janitor: ro-cache: evicted ${db}@${branch}@${checkpoint} (${bytes} bytes)`);
      publisher.publish("evicted", { db, branch }, { checkpoint, bytes });
    }
    return { bytes, evicted: evicted.length };
  }

  async #part(name: string, pass: JanitorPass, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      pass.result = "error";
      this.#options.log(`janitor: ${name}: ${messageOf(error)}`);
    }
  }
}
