/**
 * The modules of commands that ask the task broker, for their Worker.
 */

import { BrokerClient } from "../../../broker/client/client.ts";
import type { BrokerModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";

const MODULES: Readonly<Record<string, () => Promise<BrokerModule>>> = {
  submit: async () => (await import("../../commands/submit.ts")).submit,
  retry: async () => (await import("../../commands/submit.ts")).retry,
  tasks: async () => (await import("../../commands/tasks.ts")).tasks,
  pending: async () => (await import("../../commands/tasks.ts")).pending,
  inspect: () => import("../../commands/inspect.ts"),
  logs: () => import("../../commands/logs.ts"),
  review: async () => (await import("../../commands/gate.ts")).review,
  approve: async () => (await import("../../commands/gate.ts")).approve,
  ui: () => import("../../commands/ui.ts"),
  deny: async () => (await import("../../commands/task_ends.ts")).deny,
  kill: async () => (await import("../../commands/task_ends.ts")).kill,
  prune: async () => (await import("../../commands/task_ends.ts")).prune,
  "queue add": async () => (await import("../../commands/queue.ts")).add,
  "queue list": async () => (await import("../../commands/queue.ts")).list,
  "queue cancel": async () => (await import("../../commands/queue.ts")).cancel,
};

export const loadForBroker: Load = async ({ name }) => {
  const load = MODULES[name];
  if (load === undefined) throw new Error(`Command ${name} does not ask the broker`);
  return { backend: "broker", module: await load(), client: (place, signal) => new BrokerClient(place, { signal }) };
};
