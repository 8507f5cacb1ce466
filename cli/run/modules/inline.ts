/**
 * The modules of commands that run inline: all that the program's first thread knows of the commands' modules.
 *
 * They are no part of the command table, and those of each kind of Worker are a list of their own: before a thread's
 * first line the runtime reads every module that an import of that thread may ever load.
 */

import type { LocalModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";
import { exportsOf, moduleOf } from "./_rows.ts";

const MODULES: Readonly<Record<string, () => Promise<LocalModule>>> = exportsOf(
  () => import("../../commands/program.ts"),
  ["version", "help", "completion"],
);

export const loadInline: Load = async ({ name }) => ({ backend: "none", module: await moduleOf(MODULES, name) });
