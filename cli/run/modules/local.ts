/** The modules of commands that need neither a store's operations nor the broker's client, for their Worker. */

import type { LocalModule } from "../../plan/command_module.ts";
import type { Load } from "../run.ts";
import { exportsOf, moduleOf } from "./_rows.ts";

const MODULES: Readonly<Record<string, () => Promise<LocalModule>>> = {
  "copy-store": () => import("../../commands/copy_store.ts"),
  serve: () => import("../../commands/serve.ts"),
  stats: () => import("../../commands/stats.ts"),
  ...exportsOf(() => import("../../commands/init.ts"), ["init"]),
  setup: () => import("../../commands/setup.ts"),
  doctor: () => import("../../commands/doctor.ts"),
  start: () => import("../../commands/start.ts"),
  ...exportsOf(() => import("../../commands/stop.ts"), ["stop"]),
  ...exportsOf(() => import("../../commands/service.ts"), ["print", "install", "uninstall"], "service"),
  "policy explain": () => import("../../commands/policy_explain.ts"),
  ...exportsOf(() => import("../../commands/egress.ts"), ["suggest", "allow"], "egress"),
  demo: () => import("../../commands/demo.ts"),
  redteam: () => import("../../commands/redteam.ts"),
};

export const loadLocal: Load = async ({ name }) => ({ backend: "none", module: await moduleOf(MODULES, name) });
