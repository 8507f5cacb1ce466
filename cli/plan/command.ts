/**
 * What a command is: the row of the command table, from which parsing, help,
 * completion, documentation, permissions and launch flags are all read.
 *
 * @module
 */

import type { Io } from "../text/io.ts";
import type { Args } from "./args.ts";
import type { S3Access } from "../../lib/backend/s3_permissions.ts";
import type { S3StoreOptions } from "../../lib/store/open.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { Settings } from "../../broker/settings/shape.ts";
import type { HostPlace } from "./broker_host.ts";
import type { Operations } from "./operations.ts";
import type { PermissionSet } from "./permissions.ts";

/** How a flag's text is read: text, an absolute path, milliseconds, bytes, an integer, or on and off. */
export type FlagKind = "string" | "file" | "duration" | "bytes" | "integer" | "boolean";

/** A flag. Written `-name` or `--name`, its value after a space or `=`. */
export interface FlagSpec {
  /** Without dashes. */
  name: string;
  /** A letter that means the same: `f` for `-f`. */
  letter?: string;
  /** How its value is read. */
  kind: FlagKind;
  /** One line of help. */
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
  /** May be given more than once. */
  repeatable?: true;
  /** The command does not run without it. */
  required?: true;
  /** The only values there are, for completion; whoever does the work checks them. */
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

/** A positional argument. */
export interface PositionalSpec {
  name: string;
  kind: PositionalKind;
  help: string;
  optional?: true;
  /** Of a `branch`: its name has to be given, because what is done to it cannot be undone. */
  named?: true;
}

/** One example of help. */
export interface Example {
  /** The words after the program's name. */
  words: string;
  /** What it does. */
  why: string;
}

/** The groups of the overview, in its order. */
export const GROUPS = ["Branches", "History", "Inspect", "Daemon", "Tasks", "Broker", "Program"] as const;
/** A group of the overview. */
export type Group = typeof GROUPS[number];

/** Everything about a call that is known before the command's module is loaded. Plain data: it crosses to a Worker. */
export interface Plan {
  /** The command's name in the table. */
  command: string;
  positionals: Record<string, string>;
  flags: Record<string, FlagValue>;
  /** Present when the terminal does no more than show lines. */
  dumb?: boolean;
  /** The store's location: an absolute directory, or `s3://bucket/prefix`. */
  store: string;
  /** Absolute directory of checkouts, caches and locks: that of the store itself, if it is in one. */
  workspace: string;
  /** How buckets are reached; only when a store of the call is in one. */
  s3?: S3Plan;
  /** Absolute path of the daemon's socket. */
  socket: string;
  /** Who does the work: this process on the store, the daemon behind the socket, or nobody. */
  route: Route;
  /** Where the task broker is; only for commands that have to do with it. */
  broker?: BrokerPlace;
}

/** Where the task broker is. */
export interface BrokerPlace {
  /** The user's home directory, absolute; the broker's files are in `.taskd` below it. */
  home: string;
  /** Absolute path of the broker's socket; empty when the settings that name it cannot be loaded. */
  socket: string;
  /** Everything that is configured; only for commands that work with it, and if it can be loaded. */
  settings?: Settings;
  /** What there is on the host to touch; only for commands that work with the settings. */
  host?: HostPlace;
}

/** How a call reaches buckets. */
export interface S3Plan {
  /** As the engine takes it. */
  options: S3StoreOptions;
  /** What it may touch for that. */
  access: S3Access;
}

/** Who does the work of a command. */
export type Route = "none" | "store" | "socket";

/** A flag's value; null when it was not given and has no default. */
export type FlagValue = string | number | boolean | string[] | null;

/** What a command prints: the object of --json, and how people see it. */
export interface CommandModule<Result extends object = object> {
  /** Does the work. Long-running commands print as they go and return nothing. */
  run(args: Args, io: Io, ops: Operations): Promise<Result | undefined>;
  /** The result for people; lines without the last newline. */
  render(result: Result, io: Io, args: Args): string | Promise<string>;
  /** The exit status that the result stands for; 0 when absent. */
  exitCode?(result: Result): number;
}

/** A command that works without one store's operations: help, version, the daemon itself, a copy of a whole store. */
export interface LocalModule<Result extends object = object> {
  /** Does the work. */
  run(args: Args, io: Io): Promise<Result | undefined>;
  /** The result for people; lines without the last newline. */
  render(result: Result, io: Io, args: Args): string | Promise<string>;
  /** As in {@linkcode CommandModule}. */
  exitCode?(result: Result): number;
}

/** A command that asks the task broker. */
export interface BrokerModule<Result extends object = object> {
  /** Does the work. Long-running commands print as they go. */
  run(args: Args, io: Io, broker: BrokerClient): Promise<Result | undefined>;
  /** The result for people; lines without the last newline. */
  render(result: Result, io: Io, args: Args): string | Promise<string>;
  /** As in {@linkcode CommandModule}. */
  exitCode?(result: Result): number;
}

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
  /**
   * `data`: what it prints is the point and shows under -quiet; `note`: it says what was done.
   */
  output: "data" | "note";
  /** What the command may do, exactly. */
  needs(plan: Plan): PermissionSet;
}

/**
 * A row of the table. `uses` says who does the work: `nothing` runs inline with every permission revoked; `store`
 * always works on the store; `stores` on those that its arguments name; `branches` goes through the daemon when one is
 * alive; `daemon` needs one; `serve` is one. `broker` asks the task broker behind its socket; `home` works with what is in `~/.taskd` and with the settings. Where `config` is `may_be_broken`, the command also runs when these cannot be
 * loaded: it is what people put them right with.
 */
export type CommandSpec =
  & CommandBase
  & (
    | { uses: "nothing" | "serve" | "stores" | "store" | "branches" | "daemon" | "broker" }
    | { uses: "home"; config: "required" | "may_be_broken" }
  );
