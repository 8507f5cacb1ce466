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
import { jsonText } from "./answers.ts";
import { eventOf } from "./event_views.ts";
import { problemOf } from "./statuses.ts";

const RETRY_MS = 1_000;

/** The head of a response is sent with its first bytes: the subscriber sees at once that there is one. */
const HELLO = new TextEncoder().encode(`retry: ${RETRY_MS}\n\n`);

export interface EventOptions {
  engine: Pick<BrokerEngine, "tasks" | "liveSpend" | "onSpend">;
  clock: Clock;
  after_seq: number;
  /** Ends the stream. Is aborted in any case once that has ended. */
  signal: AbortSignal;
}

export async function* taskEvents(
  id: string,
  { engine, clock, after_seq, signal }: EventOptions,
): AsyncGenerator<Uint8Array, void> {
  const rows = engine.tasks.follow(id, { after_seq, signal });
  let spend = engine.liveSpend(id);
  let ping = false;
  let next = undefined as IteratorResult<Row, void> | { failure: unknown } | undefined;
  let news = Promise.withResolvers<void>();
  const wake = () => news.resolve();
  const ask = () => void rows.next().then((row) => next = row, (failure) => next = { failure }).finally(wake);
  const forgetSpend = engine.onSpend((task_id, reported) => {
    if (task_id !== id) return;
    spend = reported;
    wake();
  });
  signal.addEventListener("abort", wake);
  void eachPing(clock, signal, () => {
    ping = true;
    wake();
  });
  try {
    yield HELLO;
    ask();
    while (!signal.aborted) {
      if (next !== undefined) {
        const row = next;
        next = undefined;
        if ("failure" in row) return yield frame({ event: "error", data: problemOf(row.failure).problem });
        if (row.done) return;
        const view = eventOf(row.value);
        const is_last = view?.event === "result";
        if (!is_last) ask();
        if (view !== undefined) yield frame(view, row.value.seq);
        if (is_last) return;
      } else if (spend !== undefined) {
        const data = { ...spend, ts: new Date(clock.now()).toISOString(), live: true };
        spend = undefined;
        yield frame({ event: "spend", data });
      } else if (ping) {
        ping = false;
        yield PING;
      } else {
        await news.promise;
        news = Promise.withResolvers();
      }
    }
  } finally {
    forgetSpend();
    signal.removeEventListener("abort", wake);
    rows.return().catch(() => {});
  }
}

async function eachPing(clock: Clock, signal: AbortSignal, ping: () => void): Promise<void> {
  try {
    for (;;) {
      await clock.sleep(PING_MS, signal);
      ping();
    }
  } catch {
    // The stream has ended.
  }
}

function frame({ event, data }: TaskEventView | { event: "error"; data: object }, id?: number): Uint8Array {
  return encodeEvent({ id, event }, jsonText(data).trimEnd());
}
