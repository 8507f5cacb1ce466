/** A task's events as lines for people. */

import type { TaskEventView } from "../../broker/api/wire.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { readableLines } from "./_agent_output.ts";
import { spendWords } from "./_task_text.ts";
import { stamp } from "./_result_text.ts";

/**
 * The lines of an event; none for events that are not shown live. Output of the sandbox is indented, so that
 * nothing printed there can pose as the broker's word.
 */
export function eventLines(event: TaskEventView): string[] {
  if (event.event === "output") return outputLines(event.data);
  const words = eventWords(event);
  return words === undefined ? [] : [`${stamp(event.data.ts)} ${sanitizeLine(words)}`];
}

function outputLines({ text, cut_chars }: Extract<TaskEventView, { event: "output" }>["data"]): string[] {
  const cut = cut_chars === undefined ? [] : [`[${cut_chars} more characters were cut]`];
  return [...readableLines(text), ...cut].map((line) => `  ${line}`);
}

function eventWords(event: Exclude<TaskEventView, { event: "output" }>): string | undefined {
  switch (event.event) {
    case "stage": {
      const { stage, reason, gate } = event.data;
      const look = gate === undefined || gate.second_look.length === 0
        ? ""
        : `, look twice at ${gate.second_look.join(", ")}`;
      return `${stage}${look}${reason ? `: ${reason}` : ""}`;
    }
    case "result":
      return `ended, ${event.data.outcome}${event.data.reason ? `: ${event.data.reason}` : ""}`;
    case "ci":
      return `checks ${event.data.state}${event.data.detail ? `: ${event.data.detail}` : ""}`;
    case "note":
      return event.data.text;
    case "spend":
      return event.data.live ? undefined : `spent ${spendWords({ spend: event.data })}`;
    case "evidence":
      return undefined;
  }
}
