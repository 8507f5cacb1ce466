/**
 * Completion scripts for shells, written from the command table. They are static:
 * pressing Tab starts no program.
 *
 * @module
 */

import type { CommandSpec, FlagSpec } from "./command.ts";
import { COMMANDS, GLOBAL_FLAGS, PROGRAM } from "./commands.ts";

/** The shells that are known. */
export const SHELLS = ["bash", "zsh", "fish"] as const;
/** A shell that is known. */
export type Shell = typeof SHELLS[number];

/** The script for a shell. */
export function completionScript(shell: Shell): string {
  switch (shell) {
    case "bash":
      return bash();
    case "zsh":
      return zsh();
    case "fish":
      return fish();
  }
}

function flagNames(flag: FlagSpec): string[] {
  return flag.negatable ? [`--no-${flag.name}`] : [`--${flag.name}`];
}

function allFlags(command: CommandSpec): readonly FlagSpec[] {
  return [...command.flags, ...GLOBAL_FLAGS];
}

/** First words, and for each the second words it takes. */
function words(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const command of COMMANDS) {
    const [first, second] = command.name.split(" ") as [string, string?];
    found.set(first, [...(found.get(first) ?? []), ...(second === undefined ? [] : [second])]);
  }
  return found;
}

/** Flags whose value is a path. */
function pathFlags(): string[] {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  return [...new Set(flags.filter((flag) => flag.kind === "file" || flag.name === "store").flatMap(flagNames))];
}

/** Flags whose values are known, by how they are written. */
function choiceFlags(): Map<string, readonly string[]> {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  return new Map(flags.flatMap((flag) => flag.choices === undefined ? [] : [[`--${flag.name}`, flag.choices]]));
}

function bash(): string {
  const groups = [...words()].filter(([, second]) => second.length > 0);
  const cases = COMMANDS.map((command) => {
    const flags = [...allFlags(command).flatMap(flagNames), "--help"].join(" ");
    return `    ${JSON.stringify(command.name)}) flags=${JSON.stringify(flags)} ;;`;
  });
  return [
    `# bash completion for ${PROGRAM}`,
    `_${PROGRAM}() {`,
    '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" name="" word flags i',
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    '    word="${COMP_WORDS[i]}"',
    "    [[ $word == -* ]] && continue",
    '    if [[ -z $name ]]; then name="$word"',
    ...groups.map(([first]) => `    elif [[ $name == ${first} ]]; then name="$name $word"`),
    "    else break; fi",
    "  done",
    "  COMPREPLY=()",
    `  case "$prev" in ${pathFlags().join("|")}) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac`,
    '  case "$prev" in',
    ...[...choiceFlags()].map(([name, choices]) =>
      `    ${name}) COMPREPLY=($(compgen -W ${JSON.stringify(choices.join(" "))} -- "$cur")); return ;;`
    ),
    "  esac",
    "  if [[ $cur != -* ]]; then",
    '    case "$name" in',
    `      "") COMPREPLY=($(compgen -W ${JSON.stringify([...words().keys()].join(" "))} -- "$cur")); return ;;`,
    ...groups.map(([first, second]) =>
      `      ${first}) COMPREPLY=($(compgen -W ${JSON.stringify(second.join(" "))} -- "$cur")); return ;;`
    ),
    '      completion) COMPREPLY=($(compgen -W "' + SHELLS.join(" ") + '" -- "$cur")); return ;;',
    '      *) COMPREPLY=($(compgen -f -- "$cur")); return ;;',
    "    esac",
    "  fi",
    '  case "$name" in',
    ...cases,
    `    *) flags=${JSON.stringify([...GLOBAL_FLAGS.flatMap(flagNames), "--help"].join(" "))} ;;`,
    "  esac",
    '  COMPREPLY=($(compgen -W "$flags" -- "$cur"))',
    "}",
    `complete -F _${PROGRAM} ${PROGRAM}`,
  ].join("\n");
}

/** A word in single quotes, as every shell here reads it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function zsh(): string {
  const groups = [...words()].filter(([, second]) => second.length > 0);
  const describe = (commands: readonly CommandSpec[], drop: number) =>
    commands.map((command) => quoted(`${command.name.slice(drop)}:${command.summary.replaceAll(":", "\\:")}`)).join(
      " ",
    );
  const first = COMMANDS.filter((command) => !command.name.includes(" "));
  const cases = COMMANDS.map((command) =>
    `    ${quoted(command.name)}) _arguments ${allFlags(command).map(zshFlag).join(" ")} '*:file:_files' ;;`
  );
  return [
    `#compdef ${PROGRAM}`,
    `_${PROGRAM}() {`,
    "  local -a commands",
    "  local name=${words[2]:-}",
    "  if (( CURRENT == 2 )); then",
    `    commands=(${describe(first, 0)} ${groups.map(([word]) => quoted(`${word}:${word} commands`)).join(" ")})`,
    "    _describe command commands",
    "    return",
    "  fi",
    ...groups.flatMap(([word]) => [
      `  if [[ $name == ${word} ]]; then`,
      "    if (( CURRENT == 3 )); then",
      `      commands=(${describe(COMMANDS.filter((each) => each.name.startsWith(`${word} `)), word.length + 1)})`,
      "      _describe command commands",
      "      return",
      "    fi",
      '    name="$name ${words[3]:-}"',
      "  fi",
    ]),
    '  case "$name" in',
    ...cases,
    "  esac",
    "}",
    `compdef _${PROGRAM} ${PROGRAM}`,
  ].join("\n");
}

function zshFlag(flag: FlagSpec): string {
  const help = flag.help.replace(/[[\]:\\]/g, (char) => `\\${char}`);
  const action = flag.kind === "file" ? "_files" : flag.choices === undefined ? "" : `(${flag.choices.join(" ")})`;
  const value = flag.kind === "boolean" ? "" : `:${flag.value ?? "VALUE"}:${action}`;
  return flagNames(flag).map((name) => quoted(`${name}[${help}]${value}`)).join(" ");
}

function fish(): string {
  const lines = [`# fish completion for ${PROGRAM}`, `complete -c ${PROGRAM} -f`];
  const firsts = [...words().keys()].join(" ");
  for (const [word, second] of words()) {
    const summary = COMMANDS.find((command) => command.name === word)?.summary ?? `${word} commands`;
    lines.push(
      `complete -c ${PROGRAM} -n "not __fish_seen_subcommand_from ${firsts}" -a ${word} -d ${quoted(summary)}`,
    );
    for (const each of second) {
      const condition = `__fish_seen_subcommand_from ${word}; and not __fish_seen_subcommand_from ${second.join(" ")}`;
      const about = COMMANDS.find((command) => command.name === `${word} ${each}`)?.summary ?? "";
      lines.push(`complete -c ${PROGRAM} -n "${condition}" -a ${each} -d ${quoted(about)}`);
    }
  }
  for (const flag of GLOBAL_FLAGS) lines.push(`complete -c ${PROGRAM} ${fishFlag(flag)}`);
  for (const command of COMMANDS) {
    const seen = command.name.split(" ").map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
    for (const flag of command.flags) lines.push(`complete -c ${PROGRAM} -n "${seen}" ${fishFlag(flag)}`);
    if (command.positionals.some((positional) => positional.kind === "file")) {
      lines.push(`complete -c ${PROGRAM} -n "${seen}" -F`);
    }
  }
  return lines.join("\n");
}

function fishFlag(flag: FlagSpec): string {
  const choices = flag.choices === undefined ? "" : ` -a ${quoted(flag.choices.join(" "))}`;
  const value = flag.kind === "boolean" ? "" : flag.kind === "file" ? " -r -F" : ` -x${choices}`;
  return flagNames(flag).map((name) => `-l ${name.slice(2)}${value} -d ${quoted(flag.help)}`).join(" ");
}
