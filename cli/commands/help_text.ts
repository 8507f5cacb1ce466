/** Help, read off the command table: the overview, one command, a group of commands. */

import { ERROR_CODES, type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { REMEDIES } from "../text/remedies.ts";
import { type CommandSpec, type FlagSpec, GROUPS } from "../plan/command_spec.ts";
import { COMMANDS, GLOBAL_FLAGS, PROGRAM } from "../table/commands.ts";

/** Columns that help keeps within, unless the terminal has fewer; and those below which lines would be slivers. */
const WIDTH = 100;
const MIN_WIDTH = 60;

/** The columns of help on a terminal of that many; off one, where there is no number, as on a wide one. */
export function helpWidth(terminal_columns: number | undefined): number {
  return Math.max(MIN_WIDTH, Math.min(WIDTH, terminal_columns ?? WIDTH));
}

export type Heading = (text: string) => string;

export interface HelpStyle {
  heading: Heading;
  width: number;
  /** Whether the flags that every command has are listed; otherwise they are named. */
  all: boolean;
}

/** `taskd <usage>` of a command: its name, arguments and that it has flags. */
export function usageLine(command: CommandSpec): string {
  const words = command.positionals.map(({ name, optional }) => optional ? `[${name}]` : `<${name}>`);
  const required = command.flags.filter((flag) => flag.required).map((flag) => `--${flag.name} ${flag.value}`);
  const optional = command.flags.some((flag) => !flag.required) ? ["[flags]"] : [];
  return [PROGRAM, command.name, ...words, ...required, ...optional].join(" ");
}

export function overview(heading: Heading, width: number = WIDTH): string {
  const names = COMMANDS.map((command) => command.name);
  const sections = GROUPS.map((group) =>
    [
      heading(group),
      columns(
        COMMANDS.filter((command) => command.group === group).map(({ name, summary }) => [name, summary]),
        width,
        names,
      ),
    ].join("\n")
  );
  return [
    [
      "Branches of SQLite databases: fork in milliseconds, capture live writes, roll back, promote.",
      "Coding agents in sandboxes: what they spend and reach is bounded, and a person approves what leaves.",
    ].flatMap((line) => wrap(line, width)).join("\n"),
    `${heading("Usage")}\n  ${PROGRAM} <command> [arguments] [flags]`,
    ...sections,
    `${heading("Flags of every command")}\n${flagLines(GLOBAL_FLAGS, width)}`,
    wrap(
      `${PROGRAM} help <command> explains a command, ${PROGRAM} help errors <code> an error. Flags are written -flag ` +
        "or --flag. A variable that begins with BSTORE_, as in branch store, stands for a flag of the store; " +
        `${PROGRAM} policy explain lists the broker's.`,
      width,
    ).join("\n"),
  ].join("\n\n");
}

export function commandHelp(command: CommandSpec, { heading, width, all }: HelpStyle): string {
  const sections = [`${command.summary}.`, `${heading("Usage")}\n  ${usageLine(command)}`];
  if (command.details !== undefined) sections.splice(1, 0, wrap(command.details, width).join("\n"));
  if (command.positionals.length > 0) {
    const rows = command.positionals.map((each) => [each.name, each.help] as const);
    sections.push(`${heading("Arguments")}\n${columns(rows, width)}`);
  }
  if (command.flags.length > 0) sections.push(`${heading("Flags")}\n${flagLines(command.flags, width)}`);
  if (all) sections.push(`${heading("Flags of every command")}\n${flagLines(GLOBAL_FLAGS, width)}`);
  const examples = command.examples.map((example) => `  ${PROGRAM} ${example.words}\n      ${example.why}`);
  sections.push(`${heading("Examples")}\n${examples.join("\n")}`);
  const group = findGroup(command.name)?.filter((each) => each !== command) ?? [];
  if (group.length > 0) {
    const rows = group.map(({ name, summary }) => [name, summary] as const);
    sections.push(`${heading(`Commands under ${group[0]!.group}`)}\n${columns(rows, width)}`);
  }
  if (!all) sections.push(wrap(commonFlagsLine(command), width).join("\n"));
  return sections.join("\n\n");
}

function commonFlagsLine({ name }: CommandSpec): string {
  const flags = GLOBAL_FLAGS.map((flag) => `--${flag.name}`).join(", ");
  return `Every command also has ${flags}: ${PROGRAM} help ${name} --all explains them.`;
}

/** The commands that share a first word, such as `session`, or are listed under one heading, such as `History`. */
export function findGroup(name: string): CommandSpec[] | undefined {
  const found = COMMANDS.filter((command) =>
    command.name.startsWith(`${name} `) || command.group.toLowerCase() === name.toLowerCase()
  );
  return found.length === 0 ? undefined : found;
}

export function groupHelp(commands: readonly CommandSpec[], heading: Heading, width: number = WIDTH): string {
  return `${heading("Usage")}\n${columns(commands.map((command) => [usageLine(command), command.summary]), width)}`;
}

/** Every error code with its meaning, or what one means and what to do about it. */
export function errorsHelp(code: string | undefined, heading: Heading, width: number = WIDTH): string {
  if (code === undefined) {
    const rows = Object.entries(ERROR_CODES);
    return `${heading("Error codes")}\n${columns(rows, width)}\n\n${PROGRAM} help errors <code> says what to do.`;
  }
  if (!Object.hasOwn(ERROR_CODES, code)) {
    throw new TaskdError("usage", `There is no error code ${JSON.stringify(code.slice(0, 200))}`, {
      hint: `${PROGRAM} help errors lists them`,
    });
  }
  const known = code as ErrorCode;
  return [`${heading(known)}: ${ERROR_CODES[known]}.`, ...wrap(REMEDIES[known], width)].join("\n");
}

/** How a flag is written, without its dashes' variants: `--ttl DURATION`, `--no-safety`. */
export function flagWord(flag: FlagSpec): string {
  const letter = flag.letter === undefined ? "" : `-${flag.letter}, `;
  const name = `${letter}${flag.negatable ? `--no-${flag.name}` : `--${flag.name}`}`;
  return flag.kind === "boolean" ? name : `${name} ${flag.value ?? "VALUE"}`;
}

export function flagHelp(flag: FlagSpec): string {
  const notes = [];
  if (flag.required) notes.push("required");
  if (flag.default !== undefined && flag.kind !== "boolean") notes.push(`default ${flag.default}`);
  const variables = [flag.env, flag.other_env].filter((name) => name !== undefined);
  if (variables.length > 0) notes.push(`or ${variables.join(", ")}`);
  return notes.length === 0 ? flag.help : `${flag.help} (${notes.join("; ")})`;
}

function flagLines(flags: readonly FlagSpec[], width: number): string {
  return columns(flags.map((flag) => [flagWord(flag), flagHelp(flag)]), width);
}

/** Names and what is said of them, beside each other; `names` are those that the left column has room for. */
function columns(
  rows: readonly (readonly [string, string])[],
  width: number,
  names: readonly string[] = rows.map(([name]) => name),
): string {
  const left = Math.max(...names.map((name) => name.length));
  return rows.flatMap(([name, text]) =>
    wrap(text, width - left - 4).map((line, index) => `  ${(index === 0 ? name : "").padEnd(left)}  ${line}`)
  ).join("\n");
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
