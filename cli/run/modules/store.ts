/**
 * The modules of commands that ask for one store's operations, for their Worker.
 *
 * @module
 */

import type { CommandModule } from "../../plan/command_module.ts";
import { Operations } from "../../plan/operations.ts";
import type { Load } from "../run.ts";

const MODULES: Readonly<Record<string, () => Promise<CommandModule>>> = {
  create: () => import("../../commands/create.ts"),
  checkout: () => import("../../commands/checkout.ts"),
  path: () => import("../../commands/path.ts"),
  fork: () => import("../../commands/fork.ts"),
  promote: () => import("../../commands/promote.ts"),
  destroy: () => import("../../commands/destroy.ts"),
  touch: () => import("../../commands/touch.ts"),
  protect: () => import("../../commands/protect.ts"),
  unprotect: () => import("../../commands/protect.ts"),
  checkpoint: () => import("../../commands/checkpoint.ts"),
  rollback: () => import("../../commands/rollback.ts"),
  compact: () => import("../../commands/compact.ts"),
  export: () => import("../../commands/export.ts"),
  diff: () => import("../../commands/diff.ts"),
  gc: () => import("../../commands/gc.ts"),
  verify: () => import("../../commands/verify.ts"),
  status: () => import("../../commands/status.ts"),
  branches: () => import("../../commands/branches.ts"),
  databases: () => import("../../commands/databases.ts"),
  lease: () => import("../../commands/lease.ts"),
  "session open": () => import("../../commands/session_open.ts"),
  "session flush": () => import("../../commands/session_flush.ts"),
  "session status": () => import("../../commands/session_status.ts"),
  "session close": () => import("../../commands/session_close.ts"),
  watch: () => import("../../commands/watch.ts"),
  mcp: () => import("../../commands/mcp.ts"),
};

/** Loads such a command. */
export const loadForStore: Load = async ({ name }) => {
  const load = MODULES[name];
  if (load === undefined) throw new Error(`Command ${name} uses no store`);
  return { backend: "store", module: await load(), open: Operations.open };
};
