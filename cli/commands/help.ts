/**
 * The command `taskd help`.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { COMMANDS, findCommand } from "../table/commands.ts";
import { commandHelp, errorsHelp, findGroup, groupHelp, type Heading, helpWidth, overview } from "./help_text.ts";
import type { Io } from "../text/io.ts";

export interface HelpResult {
  help: string;
}

export async function run(args: Args, io: Io): Promise<undefined | HelpResult> {
  const words = ["command", "subcommand"].flatMap((name) => args.optional(name) ?? []);
  if (io.json) return { help: await explain(words, (text) => text, helpWidth(undefined)) };
  io.styled(await explain(words, (text) => io.heading(text), helpWidth(io.columns)));
}

async function explain(words: readonly string[], heading: Heading, width: number): Promise<string> {
  const name = words.join(" ");
  const command = findCommand(name);
  if (command !== undefined) return commandHelp(command, heading, width);
  if (name === "") return overview(heading, width);
  const group = findGroup(name);
  if (group !== undefined) return groupHelp(group, heading, width);
  if (words[0] === "errors") return errorsHelp(words[1], heading, width);
  const { nearest } = await import("../../lib/text/nearest.ts");
  const guess = nearest(name, COMMANDS.map((each) => each.name));
  throw new TaskdError("usage", `There is no command ${JSON.stringify(name.slice(0, 200))} to explain`, {
    hint: `${guess === undefined ? "" : `Did you mean ${guess}? `}See taskd help`,
  });
}

export function render(result: HelpResult): string {
  return result.help;
}
