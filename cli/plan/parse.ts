/**
 * Parses the words of a call against the command table.
 *
 * `-flag` and `--flag` mean the same; a value follows after a space or `=`; `--` ends the flags. A word that the table
 * does not know is a `usage` error that names it and the nearest known one. Nothing is guessed.
 */

import { TaskdError } from "../../lib/errors.ts";
import { formatAddress, parseAddress, parseName } from "../../lib/store/names.ts";
import { parseBytes } from "../../lib/text/bytes.ts";
import { parseDuration } from "../../lib/text/duration.ts";
import type { CommandSpec, FlagSpec, PositionalSpec } from "./command_spec.ts";
import type { FlagValue } from "./plan.ts";

export interface ParseContext {
  commands: readonly CommandSpec[];
  /** Flags that every command accepts, before or after its name. */
  globals: readonly FlagSpec[];
  /** The value of an environment variable that a flag declares. */
  env(name: string): string | undefined;
  absolute(path: string): string;
}

export type ParsedCall =
  | { kind: "command"; spec: CommandSpec; positionals: Record<string, string>; flags: Record<string, FlagValue> }
  /** A call for help: on a command, on a group of commands, or on everything; `--all` shows the common flags too. */
  | { kind: "help"; topic: string[]; all: boolean };

type Token =
  | { kind: "flag"; word: string; name: string; value: string | undefined }
  | { kind: "argument"; word: string };

export async function parseCall(argv: readonly string[], context: ParseContext): Promise<ParsedCall> {
  const given = new Map<string, string[]>();
  const positionals: string[] = [];
  let spec: CommandSpec | undefined;
  let name: string[] = [];
  let version = false;
  const tokens = tokenize(argv, context);
  const flagGiven = (...names: string[]) => tokens.some((each) => each.kind === "flag" && names.includes(each.name));
  const help = flagGiven("help", "h");
  for (const token of tokens) {
    if (token.kind === "argument" && spec !== undefined) {
      positionals.push(token.word);
    } else if (token.kind === "argument") {
      name = [...name, token.word];
      spec = context.commands.find((command) => command.name === name.join(" "));
      const isGroup = context.commands.some((command) => command.name.startsWith(`${name.join(" ")} `));
      if (spec === undefined && !isGroup) throw await unknownCommand(name, context);
    } else if (help) {
      // A call for help is answered, whatever else is wrong with it.
      continue;
    } else if (token.name === "version" && spec === undefined) {
      version = true;
    } else {
      await takeFlag(token, { known: [...context.globals, ...(spec?.flags ?? [])], spec, given });
    }
  }
  if (help) return { kind: "help", topic: name, all: flagGiven("all") };
  if (version) spec = context.commands.find((command) => command.name === "version");
  if (spec === undefined && name.length > 0) throw missingSubcommand(name, context);
  if (spec === undefined) return { kind: "help", topic: [], all: false };
  return {
    kind: "command",
    spec,
    positionals: checkPositionals(spec, positionals, context),
    flags: checkFlags(spec, given, context),
  };
}

/**
 * The words in order, each flag with its value. A name that is a switch in one command and takes a value in another goes
 * by the first word that is a command's.
 */
function tokenize(argv: readonly string[], { commands, globals }: ParseContext): Token[] {
  const switches = new Set(["help", "h", "version"]);
  for (const { kind, name, letter } of [...globals, ...commands.flatMap(({ flags }) => flags)]) {
    if (kind === "boolean") { for (const each of [name, `no-${name}`, letter ?? name]) switches.add(each); }
  }
  const command = argv.find((word) => commands.some(({ name }) => name.split(" ")[0] === word));
  for (const { name, flags } of commands) {
    if (name.split(" ")[0] !== command) continue;
    for (const { kind, name } of flags) if (kind !== "boolean") switches.delete(name);
  }
  const tokens: Token[] = [];
  for (const [at, word] of argv.entries()) {
    if (word === "--") return [...tokens, ...argv.slice(at + 1).map((word) => ({ kind: "argument", word }) as const)];
    const [, name, value] = /^--?(?=[\s\S])([^=]*)(?:=([\s\S]*))?$/.exec(word) ?? [];
    const last = tokens.at(-1);
    if (name !== undefined) {
      tokens.push({ kind: "flag", word, name, value: value ?? (switches.has(name) ? "true" : undefined) });
    } else if (last?.kind === "flag" && last.value === undefined) last.value = word;
    else tokens.push({ kind: "argument", word });
  }
  return tokens;
}

interface FlagContext {
  known: readonly FlagSpec[];
  spec: CommandSpec | undefined;
  /** The values of the flags so far, by name. */
  given: Map<string, string[]>;
}

async function takeFlag(token: Token & { kind: "flag" }, { known, spec, given }: FlagContext): Promise<void> {
  const negated = known.find((flag) => flag.negatable && token.name === `no-${flag.name}`);
  const flag = negated ?? known.find((flag) => flag.name === token.name || flag.letter === token.name);
  if (flag === undefined) throw await unknownFlag(token.word, known, spec);
  const shown = negated === undefined ? flag.name : `no-${flag.name}`;
  let { value } = token;
  if (value === undefined) throw usage(`Flag --${shown} needs a value: --${shown} ${flag.value ?? "VALUE"}`, spec);
  if (flag.kind === "boolean") {
    if (value !== "true" && value !== "false") throw usage(`Flag --${shown} is on or off, not ${quote(value)}`, spec);
    if (negated !== undefined) value = value === "true" ? "false" : "true";
  }
  const earlier = given.get(flag.name);
  if (earlier !== undefined && flag.repeatable !== true) throw usage(`Flag --${shown} is given twice`, spec);
  given.set(flag.name, [...(earlier ?? []), value]);
}

function checkFlags(
  spec: CommandSpec,
  given: ReadonlyMap<string, readonly string[]>,
  context: ParseContext,
): Record<string, FlagValue> {
  const values: Record<string, FlagValue> = {};
  for (const flag of [...context.globals, ...spec.flags]) {
    const variable = [flag.env, flag.other_env].find((name) => name !== undefined && context.env(name));
    const fromEnv = variable === undefined ? undefined : context.env(variable);
    const texts = given.get(flag.name) ?? one(fromEnv) ?? one(flag.default);
    if (texts === undefined) {
      if (flag.required) throw usage(`${capital(spec.name)} needs --${flag.name} ${flag.value ?? ""}`.trim(), spec);
      values[flag.name] = flag.kind === "boolean" && !flag.undecided ? false : flag.repeatable ? [] : null;
      continue;
    }
    const source = given.has(flag.name) ? `--${flag.name}` : variable ?? `--${flag.name}`;
    const read = texts.map((text) => readValue(flag, text, { source, spec, context }));
    values[flag.name] = flag.repeatable ? read.map(String) : read[0]!;
  }
  return values;
}

function readValue(
  flag: FlagSpec,
  text: string,
  at: { source: string; spec: CommandSpec; context: ParseContext },
): string | number | boolean {
  try {
    switch (flag.kind) {
      case "boolean":
        return parseSwitch(text);
      case "duration":
        return atLeast(parseDuration(text), flag, text);
      case "bytes":
        return parseBytes(text);
      case "integer":
        return parseInteger(text, flag.minimum ?? 0);
      case "file":
        return at.context.absolute(checkPath(text));
      // Planning knows what a store's location means.
      case "store":
        return text;
      case "string":
        return oneOf(flag, text);
    }
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    const hint = error.hint ?? helpOf(at.spec);
    throw new TaskdError("usage", `Cannot read ${at.source}: ${error.message}`, { cause: error, hint });
  }
}

function atLeast(ms: number, flag: FlagSpec, text: string): number {
  if (ms >= (flag.minimum ?? 0)) return ms;
  throw new TaskdError("usage", `${quote(text)} is shorter than ${flag.minimum}ms`);
}

/** Values of flags are checked before; variables of the environment also have 1 and 0. */
function parseSwitch(text: string): boolean {
  if (text === "true" || text === "1") return true;
  if (text === "false" || text === "0") return false;
  throw new TaskdError("usage", `${quote(text)} is neither 1 nor 0`);
}

function parseInteger(text: string, minimum: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value) || value < minimum) {
    throw new TaskdError("usage", `${quote(text)} is not a whole number of at least ${minimum}`);
  }
  return value;
}

function checkPath(text: string): string {
  if (text === "" || text.includes("\0")) {
    throw new TaskdError("usage", `${quote(text)} is not a path`, { hint: "Name a file" });
  }
  return text;
}

function checkPositionals(
  spec: CommandSpec,
  words: readonly string[],
  context: ParseContext,
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [index, positional] of spec.positionals.entries()) {
    const word = words[index];
    if (word === undefined) {
      if (positional.optional) continue;
      throw usage(`${capital(spec.name)} needs <${positional.name}>`, spec);
    }
    values[positional.name] = checkPositional(positional, word, context);
  }
  const extra = words[spec.positionals.length];
  if (extra !== undefined) throw usage(`${capital(spec.name)} takes no further argument ${quote(extra)}`, spec);
  return values;
}

function checkPositional(positional: PositionalSpec, word: string, context: ParseContext): string {
  switch (positional.kind) {
    case "database":
      return parseName(word, "database");
    case "name":
      return parseName(word, positional.name === "checkpoint" ? "checkpoint" : "branch");
    case "address":
      return formatAddress(parseAddress(word));
    case "branch": {
      const address = parseAddress(word);
      if (positional.named && !word.includes("@")) {
        throw new TaskdError("usage", `Cannot use ${quote(word)} here: it names no branch`, {
          hint: `If it is to be main, write ${formatAddress(address)}`,
        });
      }
      if (address.checkpoint === undefined) return formatAddress(address);
      throw new TaskdError("usage", `Cannot use ${quote(word)} here: it names a checkpoint, not a branch`, {
        hint: `Write ${address.db}@${address.branch}`,
      });
    }
    case "file":
      if (word !== "-") return context.absolute(checkPath(word));
      throw new TaskdError("usage", "A database is not written to stdout: name a file", {
        hint: "One of that name is ./-",
      });
    case "repo":
      // The broker works in another directory.
      return /^\.{1,2}(?:\/|$)/.test(word) ? context.absolute(checkPath(word)) : word;
    // Planning knows what a store's location means.
    case "store":
      return word;
    case "word":
      return oneOf(positional, word);
  }
}

function oneOf({ choices }: Pick<FlagSpec, "choices">, text: string): string {
  if (choices === undefined || choices.includes(text)) return text;
  throw new TaskdError("usage", `${quote(text)} is none of ${choices.join(", ")}`, { hint: "Write one of them" });
}

function one(text: string | undefined): string[] | undefined {
  return text === undefined ? undefined : [text];
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function helpOf(spec: CommandSpec | undefined): string {
  return `See taskd help${spec === undefined ? "" : ` ${spec.name}`}`;
}

function usage(message: string, spec: CommandSpec | undefined, guess?: string): TaskdError {
  const help = helpOf(spec);
  return new TaskdError("usage", message, { hint: guess === undefined ? help : `Did you mean ${guess}? ${help}` });
}

async function unknownFlag(
  word: string,
  known: readonly FlagSpec[],
  spec: CommandSpec | undefined,
): Promise<TaskdError> {
  const name = word.replace(/^-+/, "").replace(/=[\s\S]*$/, "");
  const names = known.flatMap((flag) => flag.negatable ? [flag.name, `no-${flag.name}`] : [flag.name]);
  const guess = await nearest(name, names);
  const where = spec === undefined ? "" : ` for ${spec.name}`;
  return usage(`Unknown flag ${quote(word)}${where}`, spec, guess === undefined ? guess : `--${guess}`);
}

async function unknownCommand(name: readonly string[], context: ParseContext): Promise<TaskdError> {
  const names = context.commands.flatMap((command) => [command.name, command.name.split(" ")[0]!]);
  const guess = await nearest(name.join(" "), [...new Set(names)]);
  return usage(`Unknown command ${quote(name.join(" "))}`, undefined, guess);
}

function missingSubcommand(name: readonly string[], context: ParseContext): TaskdError {
  const prefix = `${name.join(" ")} `;
  const rest = context.commands.filter((command) => command.name.startsWith(prefix))
    .map((command) => command.name.slice(prefix.length));
  const which = rest.length === 1 ? `${rest[0]} after it` : `one of ${rest.join(", ")}`;
  return new TaskdError("usage", `${capital(name.join(" "))} needs ${which}`, {
    hint: `See taskd help ${name.join(" ")}`,
  });
}

/** The nearest candidate, unless it is far; loaded only for a call that failed. */
async function nearest(word: string, candidates: readonly string[]): Promise<string | undefined> {
  return (await import("../../lib/text/nearest.ts")).nearest(word, candidates);
}
