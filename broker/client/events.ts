/**
 * Server-Sent Events of a task out of the bytes of an answer: each bounded, and each
 * as the closed type that it is.
 */

import { TaskdError } from "../../lib/errors.ts";
import { EventParser, type ServerSentEvent } from "../../lib/http/server_sent_events.ts";
import * as v from "valibot";
import { readable } from "../api/readable.ts";
import { TASK_EVENTS, type TaskEventView } from "../api/wire.ts";
import { errorOf } from "./problems.ts";

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
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw notAnEvent("its data is no JSON");
  }
  if (event === "error") throw errorOf(value, 500);
  const view = readEvent(event, value);
  if (view === undefined) return undefined;
  return id !== undefined && /^\d{1,15}$/.test(id) ? { ...view, id: Number(id) } : view;
}

/** The event `name` with its data; undefined for one that this version does not know. */
function readEvent(name: string, data: unknown): TaskEventView | undefined {
  if (!Object.hasOwn(TASK_EVENTS, name)) return undefined;
  const parsed = v.safeParse(readable<v.GenericSchema>(TASK_EVENTS[name as keyof typeof TASK_EVENTS]), data);
  return parsed.success ? { event: name, data: parsed.output } as TaskEventView : undefined;
}

function notAnEvent(problem: string): TaskdError {
  return new TaskdError("broker_unreachable", `The broker sent what is not an event: ${problem}`);
}
