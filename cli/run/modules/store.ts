/**
 * The modules of commands that ask for one store's operations, for their Worker.
 */

import type { CommandModule } from "../../plan/command_module.ts";
import { Operations } from "../../plan/operations.ts";
import type { Load } from "../run.ts";

const MODULES: Readonly<Record<string, () => Promise<CommandModule>>> = {
  create: async () => (await import("../../commands/branch_changes.ts")).create,
  fork: async () => (await import("../../commands/branch_changes.ts")).fork,
  promote: async () => (await import("../../commands/branch_changes.ts")).promote,
  rollback: async () => (await import("../../commands/branch_changes.ts")).rollback,
  destroy: async () => (await import("../../commands/branch_changes.ts")).destroy,
  touch: async () => (await import("../../commands/branch_changes.ts")).touch,
  protect: async () => (await import("../../commands/branch_changes.ts")).protect,
  unprotect: async () => (await import("../../commands/branch_changes.ts")).protect,
  checkout: async () => (await import("../../commands/branch_content.ts")).checkout,
  path: async () => (await import("../../commands/branch_content.ts")).path,
  checkpoint: async () => (await import("../../commands/branch_content.ts")).checkpoint,
  compact: async () => (await import("../../commands/branch_content.ts")).compact,
  export: async () => (await import("../../commands/branch_content.ts")).exportFile,
  databases: async () => (await import("../../commands/store_status.ts")).databases,
  branches: async () => (await import("../../commands/store_status.ts")).branches,
  status: async () => (await import("../../commands/store_status.ts")).status,
  lease: async () => (await import("../../commands/store_status.ts")).lease,
  gc: async () => (await import("../../commands/store_upkeep.ts")).gc,
  verify: async () => (await import("../../commands/store_upkeep.ts")).verify,
  "session open": async () => (await import("../../commands/session.ts")).open,
  "session flush": async () => (await import("../../commands/session.ts")).flush,
  "session status": async () => (await import("../../commands/session.ts")).status,
  "session close": async () => (await import("../../commands/session.ts")).close,
  diff: () => import("../../commands/diff.ts"),
  watch: () => import("../../commands/watch.ts"),
  mcp: () => import("../../commands/mcp.ts"),
};

export const loadForStore: Load = async ({ name }) => {
  const load = MODULES[name];
  if (load === undefined) throw new Error(`Command ${name} uses no store`);
  return { backend: "store", module: await load(), open: Operations.open };
};
