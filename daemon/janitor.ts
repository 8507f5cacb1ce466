/**
 * The janitor: on every tick it destroys expired branches, collects unreachable objects, and brings the read-only cache
 * within its budget. The three are independent: a failure is logged and counted, and the others still run.
 */

import type { Clock } from "../lib/clock.ts";
import { formatAddress } from "../lib/store/names.ts";
import type { StoreEngine } from "./store_engine.ts";
import type { DaemonLog } from "./log.ts";
import type { JanitorPass, Metrics } from "./metrics.ts";
import type { Publisher } from "./publisher.ts";
import { messageOf } from "../lib/errors.ts";

/** Default of -reap-every, the contract's number. */
export const DEFAULT_REAP_EVERY_MS = 60_000;

export interface JanitorOptions {
  engine: Pick<StoreEngine, "store">;
  publisher: Pick<Publisher, "publish">;
  metrics: Pick<Metrics, "janitorPassed">;
  clock: Clock;
  log: DaemonLog;
  /** Milliseconds between ticks; 0 for no janitor at all. */
  reap_every_ms: number;
  /** Milliseconds an unreachable object is kept; 0 makes it eligible on the next tick. */
  gc_grace_ms: number;
  /** Bytes of the read-only cache; 0 for no limit. */
  ro_cache_budget_bytes: number;
}

export class Janitor {
  readonly #options: JanitorOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  private constructor(options: JanitorOptions) {
    this.#options = options;
    this.#running = options.reap_every_ms === 0 ? Promise.resolve() : this.#run();
  }

  /** Starts it; the first tick is one interval later. */
  static start(options: JanitorOptions): Janitor {
    return new Janitor(options);
  }

  /** Ends it; resolves after a tick that runs. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, reap_every_ms } = this.#options;
    for (;;) {
      try {
        await clock.sleep(reap_every_ms, this.#stop.signal);
      } catch {
        return;
      }
      await this.#tick();
    }
  }

  async #tick(): Promise<void> {
    const pass: JanitorPass = { result: "ok", reaped: 0, gc_failed: false };
    await this.#part("reap", pass, () => this.#reap(pass));
    await this.#part("gc", pass, async () => {
      pass.gc_failed = true;
      pass.gc = await this.#options.engine.store("collectGarbage", [{ grace_ms: this.#options.gc_grace_ms }]);
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
