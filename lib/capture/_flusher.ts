/**
 * The flushes of a session, and their timer.
 *
 * A flush answers once all that was committed before it is in the store, and waits a while for other processes' locks.
 * It emits an event when it stored something or failed.
 */

import type { Clock } from "../clock.ts";
import { retryWhileBusy } from "../retry_while_busy.ts";
import type { FlushResult } from "../store/results.ts";
import type { DurableHead } from "./_durable_head.ts";
import type { Pending } from "./_pending.ts";
import type { FlushKind, SessionEvent } from "./_session_event.ts";

export interface FlusherOptions {
  clock: Clock;
  pending: Pending;
  durable: DurableHead;
  every_ms: number;
  onEvent: (event: SessionEvent) => void;
}

/** Flushes one session. The caller never runs two flushes at once. */
export class Flusher {
  readonly #options: FlusherOptions;
  #durable_at_ms: number;
  #next_ms: number;

  /** Begins where all is durable; the timer starts. */
  constructor(options: FlusherOptions) {
    this.#options = options;
    this.#durable_at_ms = options.clock.monotonic();
    this.#next_ms = this.#durable_at_ms + options.every_ms;
  }

  /** Seconds since the last flush that succeeded. */
  get durable_age_seconds(): number {
    return (this.#options.clock.monotonic() - this.#durable_at_ms) / 1000;
  }

  /** Whether the timer asks for a flush. */
  get due(): boolean {
    return this.#options.every_ms > 0 && this.#options.clock.monotonic() >= this.#next_ms;
  }

  restartTimer(): void {
    this.#next_ms = this.#options.clock.monotonic() + this.#options.every_ms;
  }

  /** Makes the timer due now; without a timer nothing changes. */
  makeDue(): void {
    this.#next_ms = this.#options.clock.monotonic();
  }

  /** Stores what is pending. An `explicit` flush emits its event also when nothing was pending. */
  async flush(kind: FlushKind, explicit: boolean): Promise<FlushResult> {
    const { clock, pending, durable, onEvent } = this.#options;
    const started = clock.monotonic();
    const seconds = () => (clock.monotonic() - started) / 1000;
    try {
      const stored = await retryWhileBusy(clock, () => pending.store(kind === "manual"));
      if (!pending.needs_rebase) this.#durable_at_ms = clock.monotonic();
      const { txid } = durable.head;
      if (stored || explicit) onEvent({ type: "flushed", detail: { kind, txid, duration_seconds: seconds() } });
      return { txid, kind: stored?.head.kind ?? "none", pages: stored?.pages ?? 0, bytes: stored?.stored_bytes ?? 0 };
    } catch (error) {
      throw this.refuse(kind, error as Error, seconds());
    }
  }

  /** Emits the event of a flush that failed after so long, or was not even begun, and returns the error. */
  refuse(kind: FlushKind, error: Error & { code?: string }, duration_seconds = 0): Error {
    const { code = "internal", message } = error;
    this.#options.onEvent({ type: "flush_failed", detail: { kind, code, error: message, duration_seconds } });
    return error;
  }
}
