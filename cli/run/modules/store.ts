/** The modules of commands that ask for one store's operations, for their Worker. */

import type { CommandModule } from "../../plan/command_module.ts";
import { Operations } from "../../plan/operations.ts";
import type { Load } from "../run.ts";
import { exportsOf, moduleOf } from "./_rows.ts";

const MODULES: Readonly<Record<string, () => Promise<CommandModule>>> = {
  ...exportsOf(() => import("../../commands/branch_changes.ts"), [
    "create",
    "fork",
    "promote",
    "rollback",
    "destroy",
    "undo",
    "touch",
    "protect",
    "unprotect",
  ]),
  ...exportsOf(() => import("../../commands/merge.ts"), ["merge", "revert", "reset"]),
  ...exportsOf(() => import("../../commands/branch_content.ts"), ["checkout", "path", "checkpoint", "compact"]),
  export: async () => (await import("../../commands/branch_content.ts")).exportFile,
  ...exportsOf(() => import("../../commands/store_status.ts"), ["databases", "branches", "status", "lease"]),
  ...exportsOf(() => import("../../commands/store_upkeep.ts"), ["gc", "repair", "verify"]),
  ...exportsOf(() => import("../../commands/session.ts"), ["open", "flush", "status", "close"], "session"),
  diff: () => import("../../commands/diff.ts"),
  ...exportsOf(() => import("../../commands/log.ts"), ["log"]),
  watch: () => import("../../commands/watch.ts"),
  mcp: () => import("../../commands/mcp.ts"),
};

export const loadForStore: Load = async ({ name }) => {
  return { backend: "store", module: await moduleOf(MODULES, name), open: Operations.open };
};
