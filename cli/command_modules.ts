/**
 * The commands' modules, for the Worker that runs one. They are no part of the command table: before a thread's first
 * line the runtime reads and looks through all that its modules name for an import, at any time, and every call begins
 * with the table.
 *
 * @module
 */

import type { BrokerModule, CommandModule, LocalModule } from "./command.ts";
import { openOperations } from "./operations.ts";
import type { Load } from "./run.ts";

/** Those that ask nobody. */
const LOCAL: Readonly<Record<string, () => Promise<LocalModule>>> = {
  "copy-store": () => import("./commands/copy_store.ts"),
  serve: () => import("./commands/serve.ts"),
  stats: () => import("./commands/stats.ts"),
  init: () => import("./commands/init.ts"),
  setup: () => import("./commands/setup.ts"),
  doctor: () => import("./commands/doctor.ts"),
  start: () => import("./commands/start.ts"),
  stop: () => import("./commands/stop.ts"),
  "service print": () => import("./commands/service_print.ts"),
  "service install": () => import("./commands/service_install.ts"),
  "service uninstall": () => import("./commands/service_uninstall.ts"),
  "policy explain": () => import("./commands/policy_explain.ts"),
  redteam: () => import("./commands/redteam.ts"),
};

/** Those that ask for one store's operations. */
const STORE: Readonly<Record<string, () => Promise<CommandModule>>> = {
  create: () => import("./commands/create.ts"),
  checkout: () => import("./commands/checkout.ts"),
  path: () => import("./commands/path.ts"),
  fork: () => import("./commands/fork.ts"),
  promote: () => import("./commands/promote.ts"),
  destroy: () => import("./commands/destroy.ts"),
  touch: () => import("./commands/touch.ts"),
  protect: () => import("./commands/protect.ts"),
  unprotect: () => import("./commands/unprotect.ts"),
  checkpoint: () => import("./commands/checkpoint.ts"),
  rollback: () => import("./commands/rollback.ts"),
  compact: () => import("./commands/compact.ts"),
  export: () => import("./commands/export.ts"),
  diff: () => import("./commands/diff.ts"),
  gc: () => import("./commands/gc.ts"),
  verify: () => import("./commands/verify.ts"),
  status: () => import("./commands/status.ts"),
  branches: () => import("./commands/branches.ts"),
  databases: () => import("./commands/databases.ts"),
  lease: () => import("./commands/lease.ts"),
  "session open": () => import("./commands/session_open.ts"),
  "session flush": () => import("./commands/session_flush.ts"),
  "session status": () => import("./commands/session_status.ts"),
  "session close": () => import("./commands/session_close.ts"),
  watch: () => import("./commands/watch.ts"),
  mcp: () => import("./commands/mcp.ts"),
};

/** Those that ask the task broker. */
const BROKER: Readonly<Record<string, () => Promise<BrokerModule>>> = {
  submit: () => import("./commands/submit.ts"),
  tasks: () => import("./commands/tasks.ts"),
  inspect: () => import("./commands/inspect.ts"),
  logs: () => import("./commands/logs.ts"),
  review: () => import("./commands/review.ts"),
  approve: () => import("./commands/approve.ts"),
  deny: () => import("./commands/deny.ts"),
  kill: () => import("./commands/kill.ts"),
  pending: () => import("./commands/pending.ts"),
  retry: () => import("./commands/retry.ts"),
  prune: () => import("./commands/prune.ts"),
  "queue add": () => import("./commands/queue_add.ts"),
  "queue list": () => import("./commands/queue_list.ts"),
  "queue cancel": () => import("./commands/queue_cancel.ts"),
  ui: () => import("./commands/ui.ts"),
};

/** Loads what a command needs in a Worker. */
export const loadInWorker: Load = async ({ name }) => {
  const [local, store, broker] = [LOCAL[name], STORE[name], BROKER[name]];
  if (local !== undefined) return { asks: "nobody", module: await local() };
  if (store !== undefined) return { asks: "store", module: await store(), open: openOperations };
  if (broker === undefined) throw new Error(`Command ${name} has no module`);
  const { BrokerClient } = await import("../broker/client/client.ts");
  return {
    asks: "broker",
    module: await broker(),
    client: (place, signal) => new BrokerClient(place, { signal }),
  };
};
