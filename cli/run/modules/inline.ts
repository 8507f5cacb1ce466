/**
 * The modules of commands that run inline: all that the program's first thread knows of the commands' modules.
 *
 * They are no part of the command table, and those of each kind of Worker are a list of their own: before a thread's
 * first line the runtime reads every module that an import of that thread may ever load.
 */

import type { LocalModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";

const MODULES: Readonly<Record<string, () => Promise<LocalModule>>> = {
  version: () => import("../../commands/version.ts"),
  help: () => import("../../commands/help.ts"),
  completion: () => import("../../commands/completion.ts"),
};

export const loadInline: Load = async ({ name }) => {
  const load = MODULES[name];
  if (load === undefined) throw new Error(`Command ${name} does not run inline`);
  return { backend: "none", module: await load() };
};
