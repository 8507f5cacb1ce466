/** The modules of commands that ask the task broker, for their Worker. */

import { COMMAND_LINE } from "../../../broker/api/socket_host.ts";
import { BrokerClient } from "../../../broker/client/client.ts";
import type { BrokerModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";
import { exportsOf, moduleOf } from "./_rows.ts";

const MODULES: Readonly<Record<string, () => Promise<BrokerModule>>> = {
  ...exportsOf(() => import("../../commands/submit.ts"), ["submit", "push", "retry"]),
  ...exportsOf(() => import("../../commands/tasks.ts"), ["tasks", "pending", "ui"]),
  inspect: () => import("../../commands/inspect.ts"),
  logs: () => import("../../commands/logs.ts"),
  ...exportsOf(() => import("../../commands/gate.ts"), ["review", "approve"]),
  ...exportsOf(() => import("../../commands/task_ends.ts"), ["deny", "kill", "prune"]),
  ...exportsOf(() => import("../../commands/queue.ts"), ["add", "list", "cancel"], "queue"),
  ...exportsOf(() => import("../../commands/egress.ts"), ["grant"], "egress"),
  ...exportsOf(() => import("../../commands/token.ts"), ["create", "list", "revoke"], "token"),
};

export const loadForBroker: Load = async ({ name }) => {
  const module = await moduleOf(MODULES, name);
  return {
    backend: "broker",
    module,
    client: (place, signal) => new BrokerClient(place, { signal, user_agent: COMMAND_LINE }),
  };
};
