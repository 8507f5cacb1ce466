/** The commands about the program itself: version, help, completion. */

import { TaskdError } from "../../lib/errors.ts";
import { VERSION } from "../../lib/version.ts";
import { localCommand } from "../plan/command_module.ts";
import { COMMANDS, findCommand } from "../table/commands.ts";
import { completions, completionScript, type Shell } from "./completion.ts";
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

/** Prints the script, or, for a script that asks, what may stand in the place of the last word. */
export const completion = localCommand<{ shell: Shell; script?: string; offers?: string[] }>({
  run(args) {
    const shell = args.positional("shell") as Shell;
    const words = args.texts("word");
    return Promise.resolve(
      words.length === 0 ? { shell, script: completionScript(shell) } : { shell, offers: completions(shell, words) },
    );
  },
  render: ({ script, offers = [] }) => script ?? offers.join("\n"),
});
