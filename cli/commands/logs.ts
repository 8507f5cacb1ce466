/** The command `taskd logs`. */

import type { TaskEventView } from "../../broker/api/wire.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import { followTask } from "./_follow_task.ts";
import type { Io } from "../text/io.ts";
import { eventLines } from "./_task_events.ts";

export async function run(args: Args, io: Io, broker: BrokerClient): Promise<{ log: string } | undefined> {
  const named = args.positional("id");
  if (!args.on("follow")) return await whole(broker.log(named), io);
  const { id } = await broker.task(named);
  const show = (event: TaskEventView) => {
    if (io.json) io.outJson(event);
    else for (const line of eventLines(event)) io.out(line);
  };
  await followTask(broker, id, { io, until: "end", show });
  return undefined;
}

/** Prints the log as it comes; a program gets it in one piece. */
async function whole(log: AsyncIterable<string>, io: Io): Promise<{ log: string } | undefined> {
  let text = "";
  for await (const piece of log) {
    if (io.json) text += piece;
    else io.outText(piece);
  }
  return io.json ? { log: text } : undefined;
}
