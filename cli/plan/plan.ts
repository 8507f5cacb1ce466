/** Everything about a call that is known before the command's module is loaded. */

import type { Settings } from "../../broker/settings/settings.ts";
import type { S3Access } from "../../lib/backend/s3_permissions.ts";
import type { S3StoreOptions } from "../../lib/store/open.ts";
import type { HostPlace } from "./broker_host.ts";

/** Plain data: it crosses to a Worker. */
export interface Plan {
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
  /** Whether the call makes a store where there is none: that is its purpose, or no location was named. */
  makes_store?: boolean;
  /** Absolute path of the daemon's socket. */
  socket: string;
  /** Name of this host, which a command itself may not ask for; empty where it is not known. */
  machine?: string;
  /** Descriptors that a daemon may have open; absent for other commands, and where it is not known. */
  open_files?: number | undefined;
  /** Who does the work: this process on the store, the daemon behind the socket, or neither. */
  route: Route;
  /** Where the task broker is; only for commands that have to do with it. */
  broker?: BrokerPlace;
}

export interface BrokerPlace {
  /** The user's home directory, absolute; the broker's files are in `.taskd` below it. */
  home: string;
  /** Absolute path of the broker's socket; empty when the settings that name it cannot be loaded. */
  socket: string;
  /** Everything that is configured; only for commands that work with it, and if it can be loaded. */
  settings?: Settings;
  /** The host's files and programs; only for commands that work with the settings. */
  host?: HostPlace;
}

export interface S3Plan {
  options: S3StoreOptions;
  access: S3Access;
}

export type Route = "none" | "store" | "socket";

/** A flag's value; null when it was not given and has no default. */
export type FlagValue = string | number | boolean | string[] | null;

export function brokerOf({ command, broker }: Plan): BrokerPlace {
  if (broker === undefined) throw new Error(`Command ${command} has nothing to do with the broker`);
  return broker;
}

export function hostOf(plan: Plan): HostPlace {
  const { host } = brokerOf(plan);
  if (host === undefined) throw new Error(`Command ${plan.command} has nothing to do with the host`);
  return host;
}
