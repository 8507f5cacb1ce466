/** What the module of a command exports: its work, and how people see the result. */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Io } from "../text/io.ts";
import type { Args } from "./args.ts";
import type { Operations } from "./operations.ts";

/** What every command prints: the object of --json, and how people see it. */
interface Presentation<Result extends object> {
  /** The result for people, lines without the last newline; absent when the command prints as it goes. */
  render?(result: Result, io: Io, args: Args): string | Promise<string>;
  /** The exit status that the result stands for; 0 when absent. */
  exitCode?(result: Result): number;
}

/** A command that works with the operations of one store. Long-running commands print as they go and return nothing. */
export interface CommandModule<Result extends object = object> extends Presentation<Result> {
  run(args: Args, io: Io, ops: Operations): Promise<Result | undefined>;
}

/** A command that works without one store's operations: help, version, the daemon itself, a copy of a whole store. */
export interface LocalModule<Result extends object = object> extends Presentation<Result> {
  run(args: Args, io: Io): Promise<Result | undefined>;
}

/** A command that asks the task broker. Long-running commands print as they go. */
export interface BrokerModule<Result extends object = object> extends Presentation<Result> {
  run(args: Args, io: Io, broker: BrokerClient): Promise<Result | undefined>;
}

/** A row of a module with several commands that ask a store: the type of its result is that of `run`. */
export function storeCommand<Result extends object>(command: CommandModule<Result>): CommandModule {
  return command;
}

export function brokerCommand<Result extends object>(command: BrokerModule<Result>): BrokerModule {
  return command;
}

export function localCommand<Result extends object>(command: LocalModule<Result>): LocalModule {
  return command;
}
