/**
 * The flushes of a session, and their timer.
 *
 * A flush answers once all that was committed before it is in the store, and waits a while for other processes' locks.
 * Each that stored something is told of, and each that failed.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import type { FlushResult } from "../store/results.ts";
import type { DurableHead } from "./_durable_head.ts";
import { retryWhileBusy } from "./_retry_while_busy.ts";
import type { Pending } from "./_pending.ts";
import type { FlushKind, SessionEvent } from "./_session_event.ts";

/** What a session's flushes are made with. */
export interface FlusherParts {
  clock: Clock;
  pending: Pending;
  durable: DurableHead;
  /** Milliseconds between flushes of the timer; 0 for none. */
  every_ms: number;
  /** Told of each flush, at its end. */
  onEvent: (event: SessionEvent) => void;
}

/** Flushes one session; never two at once, which its caller sees to. */
export class Flusher {
  readonly #parts: FlusherParts;
  #durable_at_ms: number;
  #next_ms: number;

  /** Begins where all is durable; the timer starts. */
  constructor(parts: FlusherParts) {
    this.#parts = parts;
    this.#durable_at_ms = parts.clock.monotonic();
    this.#next_ms = this.#durable_at_ms + parts.every_ms;
  }

  /** Seconds since the last flush that succeeded. */
  get durable_age_seconds(): number {
    return (this.#parts.clock.monotonic() - this.#durable_at_ms) / 1000;
  }

  /** Whether the timer asks for a flush. */
  get due(): boolean {
    return this.#parts.every_ms > 0 && this.#parts.clock.monotonic() >= this.#next_ms;
  }

  /** Starts the timer anew. */
  restartTimer(): void {
    this.#next_ms = this.#parts.clock.monotonic() + this.#parts.every_ms;
  }

  /** Has the timer ask at once, if there is a timer at all. */
  hasten(): void {
    this.#next_ms = this.#parts.clock.monotonic();
  }

  /** Stores what is pending; told of also when that is nothing, if it is `explicit`. */
  async flush(kind: FlushKind, explicit: boolean): Promise<FlushResult> {
    const { clock, pending, durable, onEvent } = this.#parts;
    const started = clock.monotonic();
    const seconds = () => (clock.monotonic() - started) / 1000;
    try {
      const stored = await retryWhileBusy(clock, () => pending.store());
      this.#durable_at_ms = clock.monotonic();
      const { txid } = durable.head;
      if (stored || explicit) onEvent({ type: "flushed", detail: { kind, txid, duration_seconds: seconds() } });
      return { txid, kind: stored?.head.kind ?? "none", pages: stored?.pages ?? 0, bytes: stored?.stored_bytes ?? 0 };
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      onEvent({
        type: "flush_failed",
        detail: { kind, code: code ?? "internal", error: message, duration_seconds: seconds() },
      });
      throw error;
    }
  }
}
