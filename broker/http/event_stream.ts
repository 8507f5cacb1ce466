/**
 * What happens to a task as Server-Sent Events: its rows from the trace, read as the
 * subscriber takes them; what its lease meters in between, of which only the latest is
 * kept; a comment as a ping while nothing happens. The result is the last event.
 */

import type { Clock } from "../../lib/clock.ts";
import { encodeEvent, PING, PING_MS } from "../../lib/http/server_sent_events.ts";
import type { BrokerEngine } from "../api/engine.ts";
import type { TaskEventView } from "../api/wire.ts";
import type { Row } from "../task/rows.ts";
import type { SpendFigures } from "../task/schema.ts";
import { jsonText } from "./answers.ts";
import { eventOf } from "./event_views.ts";
import type { PieceSource } from "./pull_stream.ts";
import { problemOf } from "./statuses.ts";

const RETRY_MS = 1_000;

/** The head of a response is sent with its first bytes: the subscriber sees at once that there is one. */
const HELLO = new TextEncoder().encode(`retry: ${RETRY_MS}\n\n`);

export interface EventOptions {
  engine: Pick<BrokerEngine, "tasks" | "liveSpend" | "onSpend">;
  clock: Clock;
  after_seq: number;
}

export class TaskEvents implements PieceSource {
  readonly #clock: Clock;
  readonly #rows: AsyncGenerator<Row, void>;
  readonly #stop = new AbortController();
  readonly #forgetSpend: () => void;
  #greeted = false;
  #over = false;
  #ping = false;
  #spend: SpendFigures | undefined;
  #row: IteratorResult<Row, void> | { failure: unknown } | undefined;
  #news = Promise.withResolvers<void>();

  constructor(id: string, { engine, clock, after_seq }: EventOptions) {
    this.#clock = clock;
    this.#rows = engine.tasks.follow(id, { after_seq, signal: this.#stop.signal });
    this.#spend = engine.liveSpend(id);
    this.#forgetSpend = engine.onSpend((task_id, spend) => {
      if (task_id !== id) return;
      this.#spend = spend;
      this.#news.resolve();
    });
    void this.#pinging();
  }

  async next(): Promise<Uint8Array | undefined> {
    if (!this.#greeted) {
      this.#greeted = true;
      this.#ask();
      return HELLO;
    }
    while (!this.#over) {
      const piece = this.#ready();
      if (piece !== undefined) return piece;
      if (this.#over) break;
      await this.#news.promise;
      this.#news = Promise.withResolvers();
    }
    return undefined;
  }

  end(): void {
    this.#over = true;
    this.#forgetSpend();
    this.#stop.abort();
    this.#news.resolve();
    void this.#rows.return().catch(() => {});
  }

  #ready(): Uint8Array | undefined {
    while (this.#row !== undefined) {
      const row = this.#row;
      this.#row = undefined;
      if ("failure" in row) {
        this.#over = true;
        return frame({ event: "error", data: problemOf(row.failure).problem });
      }
      if (row.done) {
        this.#over = true;
        return undefined;
      }
      const view = eventOf(row.value);
      if (view?.event === "result") this.#over = true;
      else this.#ask();
      if (view !== undefined) return frame(view, row.value.seq);
    }
    if (this.#spend !== undefined) {
      const data = { ...this.#spend, ts: new Date(this.#clock.now()).toISOString(), live: true };
      this.#spend = undefined;
      return frame({ event: "spend", data });
    }
    if (!this.#ping) return undefined;
    this.#ping = false;
    return PING;
  }

  #ask(): void {
    this.#rows.next().then((row) => this.#row = row, (failure) => this.#row = { failure }).finally(() =>
      this.#news.resolve()
    );
  }

  async #pinging(): Promise<void> {
    while (!this.#over) {
      try {
        await this.#clock.sleep(PING_MS, this.#stop.signal);
      } catch {
        return;
      }
      this.#ping = true;
      this.#news.resolve();
    }
  }
}

function frame({ event, data }: TaskEventView | { event: "error"; data: object }, id?: number): Uint8Array {
  return encodeEvent({ id, event }, jsonText(data).trimEnd());
}
