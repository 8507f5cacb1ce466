/**
 * Server-Sent Events of a task out of the bytes of an answer: each bounded, and each as the closed type that it is.
 */

import { TaskdError } from "../../lib/errors.ts";
import { EventParser, type ServerSentEvent } from "../../lib/http/server_sent_events.ts";
import * as v from "valibot";
import { readable } from "../api/readable.ts";
import { TASK_EVENTS, type TaskEventView } from "../api/wire.ts";
import { errorOf } from "./problems.ts";
import { parseJson } from "../../lib/text/json.ts";

/** The longest event in characters: a row of a trace, every character of it escaped, and room for the rest. */
const MAX_EVENT_CHARS = 4 << 20;

/** An event, with the number of its row; live spend has none. */
export type StreamedEvent = TaskEventView & {
  /** The number of its row: give it as `after` to go on behind it. */
  id?: number;
};

/**
 * The events of a stream. Those of a kind that this version does not know are passed over.
 *
 * @throws {TaskdError} What the broker says of a trace that it cannot read on; `broker_unreachable` for what is no event.
 */
export async function* readEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<StreamedEvent, void> {
  const read: ServerSentEvent[] = [];
  const parser = new EventParser((event) => read.push(event), MAX_EVENT_CHARS);
  for await (const chunk of bytes) {
    parser.push(chunk);
    if (parser.dropped > 0) throw notAnEvent("it is too long");
    for (const event of read.splice(0)) {
      const view = eventOf(event);
      if (view !== undefined) yield view;
    }
  }
}

function eventOf({ event, data, id }: ServerSentEvent): StreamedEvent | undefined {
  if (event === undefined) return undefined;
  const value = parseJson(data);
  if (value === undefined) throw notAnEvent("its data is no JSON");
  if (event === "error") throw errorOf(value, 500);
  // A newer broker may send events that this version does not know.
  if (!Object.hasOwn(TASK_EVENTS, event)) return undefined;
  const parsed = v.safeParse(readable<v.GenericSchema>(TASK_EVENTS[event as keyof typeof TASK_EVENTS]), value);
  if (!parsed.success) return undefined;
  const view = { event, data: parsed.output } as TaskEventView;
  return id !== undefined && /^\d{1,15}$/.test(id) ? { ...view, id: Number(id) } : view;
}

function notAnEvent(problem: string): TaskdError {
  return new TaskdError("broker_unreachable", `The broker sent what is not an event: ${problem}`);
}
