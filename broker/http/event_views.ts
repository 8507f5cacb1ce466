/**
 * Rows of a trace as the events that a subscriber gets. Every row that says something of
 * the task's way is one event; an event's id is its row's number, so that a client that comes
 * back with the last one misses nothing and gets nothing twice.
 */

import type { TaskEventView } from "../api/wire.ts";
import type { Row } from "../task/rows.ts";

/** The event that a row is; undefined for what no event says. */
export function eventOf(row: Row): TaskEventView | undefined {
  const { ts } = row;
  switch (row.type) {
    case "created":
      return { event: "stage", data: { ts, stage: "admission" } };
    case "stage": {
      const { reason, gate, pushed } = row;
      if (row.to === "done" && row.outcome !== undefined) {
        return { event: "result", data: { ts, outcome: row.outcome, reason: reason ?? "", ...(pushed && { pushed }) } };
      }
      return {
        event: "stage",
        data: {
          ts,
          stage: row.to,
          ...(reason === undefined ? {} : { reason }),
          ...(gate && { gate }),
          ...(pushed && { pushed }),
        },
      };
    }
    case "output": {
      const { channel, text, cut_chars } = row;
      return { event: "output", data: { ts, channel, text, ...(cut_chars === undefined ? {} : { cut_chars }) } };
    }
    case "spend":
      return { event: "spend", data: { ...row.spend, ts, live: false } };
    case "evidence":
      return { event: "evidence", data: { ts, name: row.name, value: row.value } };
    case "ci":
      return {
        event: "ci",
        data: { ts, state: row.state, ...(row.detail === undefined ? {} : { detail: row.detail }) },
      };
    case "note":
      return { event: "note", data: { ts, text: row.text } };
    case "cut":
      return { event: "note", data: { ts, text: `${row.bytes} bytes of a row that a crash has torn were cut off` } };
    case "push_attempt":
      return { event: "note", data: { ts, text: `pushing ${row.commit} to ${row.branch} of ${row.remote}` } };
    case "claimed":
      return undefined;
  }
}
