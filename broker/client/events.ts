/**
 * Server-Sent Events of a task out of the bytes of an answer: bounded lines, and events
 * as the closed type that they are.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import { decodeLine, LineSplitter } from "../../lib/protocol/lines.ts";
import * as v from "valibot";
import { readable } from "../api/readable.ts";
import { TASK_EVENTS, type TaskEventView } from "../api/wire.ts";
import { errorOf } from "./problems.ts";

/** The longest line of an event in bytes: a row of a trace, every character of it escaped, and room for the rest. */
const MAX_LINE_BYTES = 4 << 20;

/** An event, with the number of its row; live spend has none. */
export type TaskEvent = TaskEventView & {
  /** The number of its row: give it as `after` to go on behind it. */
  id?: number;
};

/**
 * The events of a stream. Those of a kind that this version does not know are passed over.
 *
 * @throws {TaskdError} What the broker says of a trace that it cannot read on; `broker_unreachable` for what is no event.
 */
export async function* readEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<TaskEvent, void> {
  const splitter = new LineSplitter(MAX_LINE_BYTES);
  let fields: Record<string, string> = {};
  for await (const chunk of bytes) {
    for (const line of splitter.push(chunk)) {
      const text = line.kind === "line" ? decodeLine(line.bytes) : undefined;
      if (text === undefined) throw notAnEvent("a line is too long or no UTF-8");
      if (text !== "") {
        const [name, value] = fieldOf(text);
        if (name !== "") fields[name] = value;
        continue;
      }
      const event = eventOf(fields);
      fields = {};
      if (event !== undefined) yield event;
    }
  }
}

/** Name and value of a line; a comment has no name. */
function fieldOf(line: string): [name: string, value: string] {
  const colon = line.indexOf(":");
  if (colon < 0) return [line, ""];
  return [line.slice(0, colon), line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1)];
}

function eventOf({ event, data, id }: Record<string, string>): TaskEvent | undefined {
  if (event === undefined || data === undefined) return undefined;
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
