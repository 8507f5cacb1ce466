/**
 * What a command is: the row of the command table, from which parsing, help,
 * completion, documentation, permissions and launch flags are all read.
 */

import type { PermissionSet } from "./permissions.ts";
import type { Plan } from "./plan.ts";

/** How a flag's text is read: text, an absolute path, a store's location, milliseconds, bytes, an integer, or on and off. */
export type FlagKind = "string" | "file" | "store" | "duration" | "bytes" | "integer" | "boolean";

/** A flag. Written `-name` or `--name`, its value after a space or `=`. */
export interface FlagSpec {
  name: string;
  /** A letter that means the same: `f` for `-f`. */
  letter?: string;
  kind: FlagKind;
  help: string;
  /** What the value stands for in help, for example `FILE`. Booleans have none. */
  value?: string;
  /** The value when it is not given, as it would be written. */
  default?: string;
  /** The environment variable that stands in for the flag. */
  env?: string;
  /** The one that is asked where that is not set: a name that others gave the same thing. */
  other_env?: string;
  /** A boolean that is on unless `--no-<name>` is given. */
  negatable?: true;
  /** A boolean of which it counts whether it was given at all: null when not. */
  undecided?: true;
  repeatable?: true;
  required?: true;
  /** The only valid values. */
  choices?: readonly string[];
  /** Smallest integer, or duration in milliseconds, that is accepted. */
  minimum?: number;
}

/**
 * What a positional argument is checked as: `address` may name a checkpoint, `branch` may not, `name` is a
 * branch or checkpoint name, `file` becomes an absolute path, `store` an absolute directory or `s3://bucket/prefix`,
 * `repo` is anything but a relative path, which becomes an absolute one, `word` is anything.
 */
export type PositionalKind = "database" | "address" | "branch" | "name" | "file" | "store" | "repo" | "word";

export interface PositionalSpec {
  name: string;
  kind: PositionalKind;
  help: string;
  optional?: true;
  /** The only valid words. */
  choices?: readonly string[];
  /** Of a `branch`: its name is required, because the command cannot be undone. */
  named?: true;
}

export interface Example {
  /** The words after the program's name. */
  words: string;
  why: string;
}

/** The groups of the overview, in its order. */
export const GROUPS = ["Branches", "History", "Inspect", "Daemon", "Tasks", "Broker", "Program"] as const;
export type Group = typeof GROUPS[number];

interface CommandBase {
  /** One word, or two for the commands of a group such as `session open`. */
  name: string;
  group: Group;
  /** One line, an imperative. */
  summary: string;
  /** More, for the command's own help. */
  details?: string;
  positionals: readonly PositionalSpec[];
  flags: readonly FlagSpec[];
  examples: readonly Example[];
  /** Whether it makes a store where there is none; others refuse a location that was named and has none. */
  makes_store?: true;
  /** `data`: its output is the purpose and shows under --quiet; `note`: it reports what was done. */
  output: "data" | "note";
  needs(plan: Plan): PermissionSet;
}

/**
 * A row of the table. `uses` names who does the work: `nothing` runs inline with every permission revoked; `store`
 * always works on the store; `stores` on those that its arguments name; `branches` goes through the daemon when one is
 * alive; `daemon` needs one; `serve` is one. `broker` asks the task broker behind its socket; `home` works with what is
 * in `~/.taskd` and with the settings. Where `config` is `may_be_broken`, the command also runs when these cannot be
 * loaded: people repair them with it.
 */
export type CommandSpec = CommandBase & CommandUse;

export type CommandUse =
  | { uses: "nothing" | "serve" | "stores" | "store" | "branches" | "daemon" | "broker" }
  | { uses: "home"; config: "required" | "may_be_broken" };

/** A row as it is written: what it leaves out, `commands` of cli/table/_row.ts adds. */
export type CommandRow =
  & Omit<CommandBase, "group" | "positionals" | "flags" | "output">
  & Partial<Pick<CommandBase, "positionals" | "flags" | "output">>
  & CommandUse;
