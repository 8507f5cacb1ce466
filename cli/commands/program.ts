/** The commands about the program itself: version, help, completion. */

import { TaskdError } from "../../lib/errors.ts";
import { VERSION } from "../../lib/version.ts";
import { localCommand } from "../plan/command_module.ts";
import { COMMANDS, findCommand } from "../table/commands.ts";
import { completionScript, SHELLS } from "./completion_script.ts";
import { commandHelp, errorsHelp, findGroup, groupHelp, type HelpStyle, helpWidth, overview } from "./help_text.ts";

export const version = localCommand({
  run: () => Promise.resolve({ version: VERSION, deno: Deno.version.deno, target: Deno.build.target }),
  render: ({ version, deno, target }) => `taskd ${version} (deno ${deno}, ${target})`,
});

export const help = localCommand({
  async run(args, io) {
    const words = ["command", "subcommand"].flatMap((name) => args.optional(name) ?? []);
    const all = args.on("all");
    if (io.json) return { help: await explain(words, { heading: (text) => text, width: helpWidth(undefined), all }) };
    io.styled(await explain(words, { heading: (text) => io.heading(text), width: helpWidth(io.columns), all }));
    return undefined;
  },
  render: ({ help }) => help,
});

async function explain(words: readonly string[], style: HelpStyle): Promise<string> {
  const { heading, width } = style;
  const name = words.join(" ");
  const command = findCommand(name);
  if (command !== undefined) return commandHelp(command, style);
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

export const completion = localCommand({
  run(args) {
    const word = args.positional("shell");
    const shell = SHELLS.find((each) => each === word);
    if (shell !== undefined) return Promise.resolve({ shell, script: completionScript(shell) });
    const message = `There is no completion for ${JSON.stringify(word.slice(0, 200))}`;
    return Promise.reject(new TaskdError("usage", message, { hint: `Shells: ${SHELLS.join(", ")}` }));
  },
  render: ({ script }) => script,
});
