/** How the command table is written: a word for each kind of flag, and what rows have in common said once. */

import type { CommandRow, CommandSpec, CommandUse, FlagKind, FlagSpec, Group } from "../plan/command_spec.ts";
import { branchNeeds, brokerNeeds, socketNeeds, storeNeeds } from "../plan/needs.ts";
import { NO_PERMISSIONS } from "../plan/permissions.ts";

type More = Partial<Omit<FlagSpec, "name" | "kind" | "value" | "help">>;

/** What the commands of a group have alike, except those whose row says otherwise. */
type Alike = CommandUse & Pick<CommandRow, "needs"> & Partial<Pick<CommandRow, "output">>;

/**
 * The rows of a group; one that says nothing of it takes no arguments and no flags, its output is its purpose, and it does
 * its work as most of the group do.
 */
export function commands(
  group: Group,
  alike: Alike,
  rows: readonly (CommandRow | Omit<CommandRow, keyof Alike | "config">)[],
): CommandSpec[] {
  return rows.map((row) => ({ group, positionals: [], flags: [], output: "data", ...alike, ...row }));
}

/** A command that works on branches, through the daemon where one runs. */
export const ON_BRANCHES = { uses: "branches", needs: branchNeeds } as const;
export const ON_STORE = { uses: "store", needs: storeNeeds } as const;
export const ASKS_DAEMON = { uses: "daemon", needs: socketNeeds } as const;
/** A command that only asks the broker. */
export const ASKS_BROKER = { uses: "broker", needs: brokerNeeds } as const;
export const NEEDS_NOTHING = { uses: "nothing", needs: () => NO_PERMISSIONS } as const;

/** A command that works with `~/.taskd` and the settings. */
export function atHome(
  config: "required" | "may_be_broken",
  needs: CommandRow["needs"],
): CommandUse & Pick<CommandRow, "needs"> {
  return { uses: "home", config, needs };
}

/** A switch. */
export function on(name: string, help: string, more: More = {}): FlagSpec {
  return { name, kind: "boolean", help, ...more };
}

/** A switch that is on unless `--no-<name>` is given; `help` is of that. */
export function off(name: string, help: string): FlagSpec {
  return on(name, help, { default: "true", negatable: true });
}

/** A flag with a value, named as help shows it, `log-file FILE`; one with a `unit` always by that. */
function valued(kind: FlagKind, unit?: string) {
  return (word: string, help: string, more: More = {}): FlagSpec => {
    const [name = "", value = unit ?? ""] = word.split(" ");
    return { name, kind, value, help, ...more };
  };
}

export const text = valued("string");
export const file = valued("file");
/** The location of another store. */
export const store = valued("store");
export const integer = valued("integer");
export const duration = valued("duration", "DURATION");
export const bytes = valued("bytes", "BYTES");
