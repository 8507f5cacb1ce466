/**
 * The modules of commands that ask the task broker, for their Worker.
 *
 * @module
 */

import { BrokerClient } from "../../../broker/client/client.ts";
import type { BrokerModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";

const MODULES: Readonly<Record<string, () => Promise<BrokerModule>>> = {
  submit: () => import("../../commands/submit.ts"),
  tasks: () => import("../../commands/tasks.ts"),
  inspect: () => import("../../commands/inspect.ts"),
  logs: () => import("../../commands/logs.ts"),
  review: () => import("../../commands/review.ts"),
  approve: () => import("../../commands/approve.ts"),
  deny: () => import("../../commands/deny.ts"),
  kill: () => import("../../commands/kill.ts"),
  pending: () => import("../../commands/pending.ts"),
  retry: () => import("../../commands/retry.ts"),
  prune: () => import("../../commands/prune.ts"),
  "queue add": () => import("../../commands/queue_add.ts"),
  "queue list": () => import("../../commands/queue_list.ts"),
  "queue cancel": () => import("../../commands/queue_cancel.ts"),
  ui: () => import("../../commands/ui.ts"),
};

/** Loads such a command. */
export const loadForBroker: Load = async ({ name }) => {
  const load = MODULES[name];
  if (load === undefined) throw new Error(`Command ${name} does not ask the broker`);
  return { backend: "broker", module: await load(), client: (place, signal) => new BrokerClient(place, { signal }) };
};
