/**
 * Writes docs/reference/commands.md from the command table. `deno run -A tests/cli/reference.ts`
 * brings the page up to date; a test fails while it is not.
 */

import { type CommandSpec, type FlagSpec, GROUPS } from "../../cli/plan/command_spec.ts";
import { COMMANDS, GLOBAL_FLAGS } from "../../cli/table/commands.ts";
import { flagHelp, flagWord, usageLine } from "../../cli/commands/help_text.ts";

const BEGIN = "<!-- reference: written by tests/cli/reference.ts -->";
const END = "<!-- end of reference -->";

/** The page. */
export const PAGE = new URL("../../docs/reference/commands.md", import.meta.url);

/** The page with its reference brought up to date. */
export function withReference(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error("docs/reference/commands.md has lost the marks of its reference");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${renderReference()}\n\n${page.slice(end)}`;
}

function renderReference(): string {
  const first = new Map<string, string>();
  const groups = GROUPS.map((group) => {
    const commands = COMMANDS.filter((command) => command.group === group);
    return [`## ${group}`, ...commands.map((command) => renderCommand(command, first))].join("\n\n");
  });
  return ["## Flags of every command", list(flagRows(GLOBAL_FLAGS)), ...groups].join("\n\n");
}

/** Words that mean the same in every command; the page describes them once. */
const USUAL = [
  "<db>[@<branch>][@<checkpoint>]",
  "The branch, <db>[@<branch>]; main by default",
  "The task's id, or a beginning of it that no other task has",
  "The item's id, or a beginning of it that no other item has",
];

/** `first` has the command that described a flag before, for each flag with its help. */
function renderCommand(command: CommandSpec, first: Map<string, string>): string {
  const words = command.positionals.filter(({ help }) => !USUAL.includes(help)).map((
    each,
  ) => [`\`${each.name}\``, each.help]);
  const usage = usageLine(command).replace(" [flags]", "");
  const alike = new Map<string, string[]>();
  const fresh = [...words, ...flagRows(command.flags)].filter(([name, help]) => {
    const earlier = first.get(`${name} ${help}`);
    if (earlier === undefined) first.set(`${name} ${help}`, command.name);
    else alike.set(earlier, [...alike.get(earlier) ?? [], name!]);
    return earlier === undefined;
  });
  const rows = [...fresh, ...[...alike].map(([earlier, names]) => [names.join(", "), `as for \`${earlier}\``])];
  const examples = command.examples.filter(({ words }) => words !== command.name).map((example) =>
    `taskd ${example.words}   # ${example.why}`
  );
  return [
    `### ${command.name}`,
    ...(usage === `taskd ${command.name}` ? [] : [`\`${usage}\``]),
    shown(`${command.summary}.${command.details === undefined ? "" : ` ${command.details}`}`),
    ...(rows.length === 0 ? [] : [list(rows)]),
    ...(examples.length === 0 ? [] : ["```sh\n" + examples.join("\n") + "\n```"]),
  ].join("\n\n");
}

function flagRows(flags: readonly FlagSpec[]): string[][] {
  return flags.map((flag) => [`\`${flagWord(flag)}\``, flagHelp(flag)]);
}

/** Text that Markdown shows as it is; code stays code. */
function shown(text: string): string {
  return text.startsWith("`") ? text : text.replaceAll("<", "\\<");
}

function list(body: string[][]): string {
  return body.map(([name, meaning]) => `- ${shown(name!)}: ${shown(meaning!)}`).join("\n");
}

if (import.meta.main) await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
