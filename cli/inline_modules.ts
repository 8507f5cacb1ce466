/**
 * The modules of commands that run inline: all that the program's first thread ever loads of the commands.
 *
 * @module
 */

import type { LocalModule } from "./command.ts";
import type { Load } from "./run.ts";

/** They ask nobody. */
const INLINE: Readonly<Record<string, () => Promise<LocalModule>>> = {
  version: () => import("./commands/version.ts"),
  help: () => import("./commands/help.ts"),
  completion: () => import("./commands/completion.ts"),
};

/** Loads what a command needs that is allowed nothing. */
export const loadInline: Load = async ({ name }) => {
  const load = INLINE[name];
  if (load === undefined) throw new Error(`Command ${name} does not run inline`);
  return { asks: "nobody", module: await load() };
};
