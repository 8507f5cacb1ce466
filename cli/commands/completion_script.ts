/** Completion scripts for shells, written from the command table. They are static: pressing Tab starts no program. */

import type { CommandSpec, FlagSpec } from "../plan/command_spec.ts";
import { COMMANDS, GLOBAL_FLAGS, PROGRAM } from "../table/commands.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = typeof SHELLS[number];

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

function flagName(flag: FlagSpec): string {
  return flag.negatable ? `--no-${flag.name}` : `--${flag.name}`;
}

/** Flags of every command, the one that no table has among them. */
const COMMON_FLAGS: readonly FlagSpec[] = [
  ...GLOBAL_FLAGS,
  { name: "help", kind: "boolean", help: "Explain the command" },
];

function allFlags(command: CommandSpec): readonly FlagSpec[] {
  return [...command.flags, ...COMMON_FLAGS];
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

/** First words that take a second one, and these. */
function groups(): [string, string[]][] {
  return [...words()].filter(([, second]) => second.length > 0);
}

function summaryOf(name: string): string {
  return COMMANDS.find((command) => command.name === name)?.summary ?? `${name} commands`;
}

function takesPath(flag: FlagSpec): boolean {
  return flag.kind === "file" || flag.kind === "store" || flag.name === "store";
}

/** Whether a path may be among the arguments; what else they name, only a store or a broker knows. */
function namesPath(command: CommandSpec): boolean {
  return command.positionals.some(({ kind }) => kind === "file" || kind === "store" || kind === "repo");
}

/** Flags with a value, as they are matched once a second dash is gone: `-store|-ttl`. */
function valueFlags(): string {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  return [...new Set(flags.filter((flag) => flag.kind !== "boolean").map((flag) => `-${flag.name}`))].join("|");
}

/** What `name --flag` is, as a pattern of bash: the flag of one command, or of all. */
function flagsBy(takes: (flag: FlagSpec) => boolean): [string, FlagSpec][] {
  return [
    ...GLOBAL_FLAGS.filter(takes).map((flag): [string, FlagSpec] => [`*" --${flag.name}"`, flag]),
    ...COMMANDS.flatMap(({ name, flags }) =>
      flags.filter(takes).map((flag): [string, FlagSpec] => [JSON.stringify(`${name} --${flag.name}`), flag])
    ),
  ];
}

function bash(): string {
  const offer = (words: readonly string[]) => `COMPREPLY=($(compgen -W ${JSON.stringify(words.join(" "))} -- "$cur"))`;
  const files = `compopt -o filenames 2> /dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur"))`;
  const paths = flagsBy(takesPath).map(([pattern]) => pattern).join("|");
  const withPaths = COMMANDS.filter(namesPath).map((command) => JSON.stringify(command.name)).join("|");
  const cases = COMMANDS.map((command) => {
    const flags = allFlags(command).map(flagName).join(" ");
    return `    ${JSON.stringify(command.name)}) flags=${JSON.stringify(flags)} ;;`;
  });
  return [
    `# bash completion for ${PROGRAM}`,
    `_${PROGRAM}() {`,
    '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" name="" word flags i',
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    '    word="${COMP_WORDS[i]}"',
    // To bash, an = is a word of its own.
    '    case "${word/#--/-}" in',
    `      ${valueFlags()}) [[ \${COMP_WORDS[i+1]} == = ]] && ((i++)); ((i++)); continue ;;`,
    "      -*) continue ;;",
    "    esac",
    '    case "$name" in',
    '      "") name="$word" ;;',
    `      ${["help", ...groups().map(([first]) => first)].join("|")}) name="$name $word" ;;`,
    "      *) break ;;",
    "    esac",
    "  done",
    "  COMPREPLY=()",
    '  [[ $cur == = ]] && cur=""',
    '  [[ $prev == = ]] && prev="${COMP_WORDS[COMP_CWORD-2]}"',
    "  [[ $prev == -[!-]* ]] && prev=-$prev",
    "  [[ $cur == -[!-]* ]] && cur=-$cur",
    '  case "$name $prev" in',
    `    ${paths}) ${files}; return ;;`,
    ...flagsBy(({ choices }) => choices !== undefined).map(([pattern, { choices }]) =>
      `    ${pattern}) ${offer(choices!)}; return ;;`
    ),
    "  esac",
    '  case "${prev/#--/-}" in',
    `    ${valueFlags()}) return ;;`,
    "  esac",
    "  if [[ $cur != -* ]]; then",
    '    case "$name" in',
    `      "" | help) ${offer([...words().keys()])} ;;`,
    ...groups().map(([first, second]) => `      ${first} | "help ${first}") ${offer(second)} ;;`),
    `      completion) ${offer(SHELLS)} ;;`,
    `      ${withPaths}) ${files} ;;`,
    "    esac",
    "    return",
    "  fi",
    '  case "$name" in',
    ...cases,
    `    *) flags=${JSON.stringify(COMMON_FLAGS.map(flagName).join(" "))} ;;`,
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
  const describe = (names: readonly string[], prefix = "") => {
    const each = names.map((name) => quoted(`${name}:${summaryOf(prefix + name).replaceAll(":", "\\:")}`));
    return `commands=(${each.join(" ")}); _describe command commands`;
  };
  const firsts = describe([...words().keys()]);
  const globals = COMMON_FLAGS.map(zshFlag).join(" ");
  const cases = COMMANDS.map((command) => {
    const rest = command.name === "completion" ? `(${SHELLS.join(" ")})` : namesPath(command) ? "_files" : "";
    return `    ${quoted(command.name)}) _arguments ${allFlags(command).map(zshFlag).join(" ")} ${
      quoted(`*:argument:${rest}`)
    } ;;`;
  });
  return [
    `#compdef ${PROGRAM}`,
    `_${PROGRAM}() {`,
    "  local -a commands",
    '  local name="" word',
    "  integer i",
    "  for ((i = 2; i < CURRENT; i++)); do",
    "    word=${words[i]}",
    "    case ${word/#--/-} in",
    `      (${valueFlags()}) ((i++)); continue ;;`,
    "      (-*) continue ;;",
    "    esac",
    "    case $name in",
    '      ("") name=$word ;;',
    `      (${["help", ...groups().map(([first]) => first)].join("|")}) name="$name $word" ;;`,
    "      (*) break ;;",
    "    esac",
    "  done",
    // A flag, or the value of one, before the command.
    `  if [[ -z $name && ( \${words[CURRENT]} == -* || i -gt CURRENT ) ]]; then _arguments ${globals} '*:command:'; return; fi`,
    '  case "$name" in',
    `    (""|help) ${firsts} ;;`,
    ...groups().map(([word, second]) => `    (${word}|${quoted(`help ${word}`)}) ${describe(second, `${word} `)} ;;`),
    ...cases.map((line) => line.replace("    '", "    ('")),
    "  esac",
    "}",
    // Read from a folder of $fpath, this file is the function.
    `if [[ \${funcstack[1]-} == _${PROGRAM} ]]; then _${PROGRAM} "$@"; else compdef _${PROGRAM} ${PROGRAM}; fi`,
  ].join("\n");
}

function zshFlag(flag: FlagSpec): string {
  const help = flag.help.replace(/[[\]:\\]/g, (char) => `\\${char}`);
  const action = takesPath(flag) ? "_files" : flag.choices === undefined ? "" : `(${flag.choices.join(" ")})`;
  const value = flag.kind === "boolean" ? "" : `:${flag.value ?? "VALUE"}:${action}`;
  const after = flag.kind === "boolean" ? "" : "=";
  const often = flag.repeatable ? "*" : "";
  return quoted(`${often}${flagName(flag)}${after}[${help}]${value}`);
}

function fish(): string {
  const lines = [`# fish completion for ${PROGRAM}`, `complete -c ${PROGRAM} -f`];
  const add = (condition: string, what: string) => lines.push(`complete -c ${PROGRAM} -n "${condition}" ${what}`);
  const seen = (...words: string[]) => `__fish_seen_subcommand_from ${words.join(" ")}`;
  const firsts = [...words().keys()];
  const afterHelp = `${seen("help")}; and not ${seen(...firsts.filter((word) => word !== "help"))}`;
  for (const word of firsts) {
    for (const condition of [`not ${seen(...firsts)}`, afterHelp]) {
      add(condition, `-a ${word} -d ${quoted(summaryOf(word))}`);
    }
  }
  for (const [word, second] of groups()) {
    for (const each of second) {
      add(`${seen(word)}; and not ${seen(...second)}`, `-a ${each} -d ${quoted(summaryOf(`${word} ${each}`))}`);
    }
  }
  add(`${seen("completion")}; and not ${seen(...SHELLS)}`, `-a ${quoted(SHELLS.join(" "))}`);
  for (const flag of COMMON_FLAGS) lines.push(`complete -c ${PROGRAM} ${fishFlag(flag)}`);
  for (const command of COMMANDS) {
    const condition = command.name.split(" ").map((word) => seen(word)).join("; and ");
    for (const flag of command.flags) add(condition, fishFlag(flag));
    if (namesPath(command)) add(condition, "-F");
  }
  return lines.join("\n");
}

function fishFlag(flag: FlagSpec): string {
  const choices = flag.choices === undefined ? "" : ` -a ${quoted(flag.choices.join(" "))}`;
  const value = flag.kind === "boolean" ? "" : takesPath(flag) ? " -r -F" : ` -x${choices}`;
  return `-l ${flagName(flag).slice(2)}${value} -d ${quoted(flag.help)}`;
}
