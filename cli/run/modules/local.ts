/**
 * The modules of commands that need neither a store's operations nor the broker's client, for their Worker.
 */

import type { LocalModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";

const MODULES: Readonly<Record<string, () => Promise<LocalModule>>> = {
  "copy-store": () => import("../../commands/copy_store.ts"),
  serve: () => import("../../commands/serve.ts"),
  stats: () => import("../../commands/stats.ts"),
  init: () => import("../../commands/init.ts"),
  setup: () => import("../../commands/setup.ts"),
  doctor: () => import("../../commands/doctor.ts"),
  start: () => import("../../commands/start.ts"),
  stop: () => import("../../commands/stop.ts"),
  "service print": async () => (await import("../../commands/service.ts")).print,
  "service install": async () => (await import("../../commands/service.ts")).install,
  "service uninstall": async () => (await import("../../commands/service.ts")).uninstall,
  "policy explain": () => import("../../commands/policy_explain.ts"),
  demo: () => import("../../commands/demo.ts"),
  redteam: () => import("../../commands/redteam.ts"),
};

export const loadLocal: Load = async ({ name }) => {
  const load = MODULES[name];
  if (load === undefined) throw new Error(`Command ${name} needs a backend`);
  return { backend: "none", module: await load() };
};
