/**
 * Completion: a script for each shell, which asks this program with every Tab, and what the program answers, read off the
 * command table.
 */

import type { CommandSpec, FlagSpec } from "../plan/command_spec.ts";
import { COMMANDS, findCommand, GLOBAL_FLAGS, PROGRAM } from "../table/commands.ts";
import type { SHELLS } from "../table/daemon.ts";

export type Shell = typeof SHELLS[number];

/** The answer where a path may stand: which there are, the shell knows. */
const PATHS = ":paths";

const SCRIPTS: Readonly<Record<Shell, string>> = {
  // To bash, an = is a word of its own.
  bash: `# bash completion for ${PROGRAM}
_${PROGRAM}() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" IFS=$'\\n'
  local -a words=("\${COMP_WORDS[@]:1:COMP_CWORD}") offers
  offers=($(${PROGRAM} completion bash "\${words[@]/#/--word=}" 2> /dev/null))
  [[ $cur == = ]] && cur=""
  [[ $cur == -[!-]* ]] && cur=-$cur
  if [[ \${offers[0]-} == ${PATHS} ]]; then
    compopt -o filenames 2> /dev/null
    COMPREPLY=($(compgen -f -- "$cur"))
  else
    COMPREPLY=($(compgen -W "\${offers[*]}" -- "$cur"))
  fi
}
complete -F _${PROGRAM} ${PROGRAM}`,
  // Read from a folder of $fpath, this file is the function.
  zsh: `#compdef ${PROGRAM}
_${PROGRAM}() {
  local -a offers
  offers=(\${(f)"$(${PROGRAM} completion zsh "--word=\${(@)^words[2,CURRENT]}" 2> /dev/null)"})
  compset -P '-*='
  if [[ \${offers[1]-} == ${PATHS} ]]; then _files; else _describe ${PROGRAM} offers; fi
}
if [[ \${funcstack[1]-} == _${PROGRAM} ]]; then _${PROGRAM} "$@"; else compdef _${PROGRAM} ${PROGRAM}; fi`,
  fish: `# fish completion for ${PROGRAM}
function __${PROGRAM}_offers
  set -l words (commandline -opc) (commandline -ct)
  set -l offers (${PROGRAM} completion fish --word=$words[2..] 2> /dev/null)
  if test "$offers[1]" = ${PATHS}
    __fish_complete_path (commandline -ct)
  else
    printf '%s\\n' $offers
  end
end
complete -c ${PROGRAM} -f -a '(__${PROGRAM}_offers)'`,
};

export function completionScript(shell: Shell): string {
  return SCRIPTS[shell];
}

type Offer = readonly [word: string, help: string];

/** What may stand in the place of the last of `words`, which follow the program's name: lines as the shell reads them. */
export function completions(shell: Shell, words: readonly string[]): string[] {
  const offers = offersFor(joined(words));
  if (offers === PATHS) return [PATHS];
  switch (shell) {
    case "bash":
      return offers.map(([word]) => word);
    case "zsh":
      return offers.map(([word, help]) => `${word}:${help.replaceAll(":", "\\:")}`);
    case "fish": {
      // To fish, a flag and its value are one word.
      const [flag] = /^-[^=]*=/.exec(words.at(-1) ?? "") ?? [""];
      return offers.map(([word, help]) => `${flag}${word}\t${help}`);
    }
  }
}

/** The words with `--flag`, `=` and `value` as one. */
function joined(words: readonly string[]): string[] {
  const found: string[] = [];
  for (const word of words) {
    if (word === "=" || found.at(-1)?.endsWith("=")) found.push(`${found.pop() ?? ""}${word}`);
    else found.push(word);
  }
  return found;
}

function offersFor(words: readonly string[]): readonly Offer[] | typeof PATHS {
  const current = words.at(-1) ?? "";
  let [name, help, count] = ["", false, 0];
  let awaits: FlagSpec | undefined;
  for (const word of words.slice(0, -1)) {
    if (awaits !== undefined) awaits = undefined;
    else if (word.startsWith("-")) awaits = word.includes("=") ? undefined : valued(word, findCommand(name));
    else if (name === "" && word === "help") help = true;
    else if (findCommand(name) === undefined) name = `${name} ${word}`.trim();
    else count++;
  }
  const command = findCommand(name === "" && help ? "help" : name);
  if (current.startsWith("-") && current.includes("=")) awaits = valued(current, command);
  if (awaits !== undefined) return valuesOf(awaits);
  if (current.startsWith("-")) {
    return flagsOf(command).map(({ name, negatable, help }) => [negatable ? `--no-${name}` : `--${name}`, help]);
  }
  if (command === undefined || help) return nextWords(name);
  const positional = command.positionals[count];
  return positional === undefined ? [] : valuesOf(positional);
}

/** Names of commands after `name`, a word each. */
function nextWords(name: string): Offer[] {
  const before = name === "" ? "" : `${name} `;
  const names = COMMANDS.filter((command) => command.name.startsWith(before)).map((command) => command.name);
  const next = new Set(names.map((each) => each.slice(before.length).split(" ")[0]!));
  return [...next].map((word) => [word, findCommand(before + word)?.summary ?? `${word} commands`]);
}

function flagsOf(command: CommandSpec | undefined): FlagSpec[] {
  return [...command?.flags ?? [], ...GLOBAL_FLAGS, { name: "help", kind: "boolean", help: "Explain the command" }];
}

/** The flag of that word, if it takes a value; before the command, of whichever command. */
function valued(word: string, command: CommandSpec | undefined): FlagSpec | undefined {
  const flags = [...flagsOf(command), ...command === undefined ? COMMANDS.flatMap((each) => each.flags) : []];
  const name = word.replace(/^--?/, "").split("=")[0];
  return flags.find((flag) => flag.name === name && flag.kind !== "boolean");
}

function valuesOf({ kind, name, choices }: Pick<FlagSpec, "name" | "choices"> & { kind: string }) {
  if (choices !== undefined) return choices.map((word): Offer => [word, ""]);
  return ["file", "store", "repo"].includes(kind) || name === "store" ? PATHS : [];
}
