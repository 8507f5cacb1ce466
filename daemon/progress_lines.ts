/**
 * What a client that asks for progress is sent while its request runs: how far the work is, and from time to time that
 * the daemon is there. A client that hears nothing for several such times knows that the daemon is stuck.
 */

import type { Clock } from "../lib/clock.ts";
import type { ProgressMessage } from "../lib/protocol/codec.ts";
import { encodeLine } from "../lib/protocol/lines.ts";
import type { RequestId } from "../lib/protocol/messages.ts";
import type { OnProgress } from "../lib/store/results.ts";

/** How often progress is sent, in milliseconds. */
const PROGRESS_EVERY_MS = 250;
/** The longest time without a line, in milliseconds. */
export const ALIVE_EVERY_MS = 5_000;

export class ProgressLines {
  readonly #id: RequestId | undefined;
  readonly #write: (line: Uint8Array) => Promise<void>;
  readonly #clock: Clock;
  readonly #ended = new AbortController();
  readonly #sending: Promise<void>;
  #latest: ProgressMessage["progress"] | undefined;

  constructor(id: RequestId | undefined, clock: Clock, write: (line: Uint8Array) => Promise<void>) {
    this.#id = id;
    this.#write = write;
    this.#clock = clock;
    this.#sending = this.#send().catch(() => {});
  }

  readonly onProgress: OnProgress = (done_bytes, total_bytes) => {
    this.#latest = { done_bytes, ...(total_bytes === undefined ? {} : { total_bytes }) };
  };

  /** Ends it; then nothing of it is on its way. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.#sending;
  }

  async #send(): Promise<void> {
    const id = this.#id === undefined ? {} : { id: this.#id };
    let sent_ms = this.#clock.monotonic();
    for (;;) {
      await this.#clock.sleep(PROGRESS_EVERY_MS, this.#ended.signal);
      const now_ms = this.#clock.monotonic();
      if (this.#latest === undefined && now_ms - sent_ms < ALIVE_EVERY_MS) continue;
      const message: ProgressMessage = { progress: this.#latest ?? {}, ...id };
      this.#latest = undefined;
      sent_ms = now_ms;
      await this.#write(encodeLine(message));
    }
  }
}
