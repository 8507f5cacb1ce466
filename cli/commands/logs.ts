/** The command `taskd logs`. */

import type { TaskEventView } from "../../broker/api/wire.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { readableLines } from "./_agent_output.ts";
import { followTask } from "./_follow_task.ts";
import { eventLines } from "./_task_events.ts";

export async function run(args: Args, io: Io, broker: BrokerClient): Promise<{ log: string } | undefined> {
  const named = args.positional("id");
  if (!args.on("follow")) return await whole(broker.log(named), io, args.on("raw"));
  if (args.on("raw")) throw new TaskdError("usage", "Cannot follow with --raw: leave out -f or --raw");
  const { id } = await broker.task(named);
  const show = (event: TaskEventView) => {
    if (io.json) io.outJson(event);
    else for (const line of eventLines(event)) io.out(line);
  };
  await followTask(broker, id, { io, until: "end", show });
  return undefined;
}

/** Prints the log as it comes, an agent's rows for people unless `raw`; a program gets it in one piece, as printed. */
async function whole(log: AsyncIterable<string>, io: Io, raw: boolean): Promise<{ log: string } | undefined> {
  let text = "";
  for await (const piece of log) {
    if (raw && !io.json) {
      io.outText(piece);
      continue;
    }
    text += piece;
    if (io.json) continue;
    const end = text.lastIndexOf("\n") + 1;
    show(text.slice(0, end), io);
    text = text.slice(end);
  }
  if (io.json) return { log: text };
  show(text, io);
  return undefined;
}

function show(text: string, io: Io): void {
  if (text === "") return;
  const lines = readableLines(text);
  if (lines.length > 0) io.outText(`${lines.join("\n")}\n`);
}
