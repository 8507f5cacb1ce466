/** The command `taskd watch`. */

import type { AnyDaemonEvent } from "../../lib/protocol/messages.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { stamp } from "./_result_text.ts";

export async function run(args: Args, io: Io, ops: Operations): Promise<undefined> {
  for await (const event of ops.events(args.on("more"), () => io.note("Watching; Ctrl-C ends it"))) {
    if (io.json) io.outJson(event);
    else io.out(eventLine(event));
  }
  io.signal.throwIfAborted();
  throw new TaskdError("daemon_unreachable", "The daemon ended the subscription", {
    hint: "It was stopped, or this reader was too slow for it: watch again",
  });
}

export function eventLine(event: AnyDaemonEvent): string {
  const where = event.db === "" ? "" : ` ${event.db}@${event.branch}`;
  const details = Object.entries(event.detail).map(([name, value]) => ` ${name}=${word(value)}`).join("");
  return sanitizeLine(`${stamp(event.ts)} ${event.type}${where}${details}`);
}

function word(value: unknown): string {
  return typeof value === "string" && /\s|^$/.test(value) ? JSON.stringify(value) : String(value);
}
