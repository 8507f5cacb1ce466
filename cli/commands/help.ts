/**
 * The command `taskd help`.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../args.ts";
import { COMMANDS, findCommand } from "../commands.ts";
import { commandHelp, groupHelp, type Heading, overview } from "../help.ts";
import type { Io } from "../io.ts";

/** The text. */
export interface HelpResult {
  help: string;
}

/** Explains the program, a command, or a group of commands. */
export function run(args: Args, io: Io): Promise<undefined | HelpResult> {
  const words = ["command", "subcommand"].flatMap((name) => args.optional(name) ?? []);
  if (io.json) return Promise.resolve({ help: explain(words, (text) => text) });
  io.styled(explain(words, (text) => io.heading(text)));
  return Promise.resolve(undefined);
}

function explain(words: readonly string[], heading: Heading): string {
  const name = words.join(" ");
  const command = findCommand(name);
  if (command !== undefined) return commandHelp(command, heading);
  if (name === "") return overview(heading);
  if (COMMANDS.some((each) => each.name.startsWith(`${name} `))) return groupHelp(name, heading);
  throw new TaskdError("usage", `There is no command ${JSON.stringify(name.slice(0, 200))} to explain`, {
    hint: "See taskd help",
  });
}

/** The text as it is. */
export function render(result: HelpResult): string {
  return result.help;
}
