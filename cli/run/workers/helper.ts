/**
 * The Worker in which a compiled program runs its helpers. Each helper's module is loaded before the permissions of the
 * main thread are dropped, and does nothing until it is called.
 */

import { runBuiltInAgent } from "../../../broker/agent/main.ts";
import { runFiles } from "../../../broker/agent/files_main.ts";
import { runForwarder } from "../../../broker/sandbox/bubblewrap/forwarder.js";
import { runInspector } from "../../../broker/databases/inspector_main.ts";
import type { HelperName } from "../../../lib/helper_process.ts";
import { runHostileAgent } from "../../redteam/hostile_agent.ts";
import type { WorkerScope } from "../worker_host.ts";

export type ToHelper = { type: "run"; name: string };

const HELPERS: Readonly<Record<HelperName, () => Promise<number>>> = {
  "agent": runBuiltInAgent,
  "files": runFiles,
  "forwarder": runForwarder,
  "hostile-agent": runHostileAgent,
  "inspector": runInspector,
};

const scope = globalThis as unknown as WorkerScope<ToHelper>;
scope.onmessage = async ({ data: { name } }) => {
  if (!Object.hasOwn(HELPERS, name)) throw new Error(`There is no helper ${name}`);
  scope.postMessage({ type: "exit", code: await HELPERS[name as HelperName]() });
};
scope.postMessage({ type: "ready" });
