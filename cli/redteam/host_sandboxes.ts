/**
 * Sandboxes of bubblewrap for attacks: run as the broker runs them, with sockets of their own beside the broker's, so
 * that a running broker and its tasks are not in the way.
 */

import type { HttpListener } from "../../lib/http/server.ts";
import { randomHex } from "../../lib/clock.ts";
import { EMPTY_VIEW } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { listenForSandboxes } from "../../broker/sandbox/bubblewrap/sandbox_sockets.ts";
import { openRuntime } from "../../broker/sandbox/open_runtime.ts";
import { type Sandboxes, type SandboxNetworkOptions, startRun } from "./sandbox_network.ts";

/** Python of the system, which every sandbox sees. */
export const PYTHON = "/usr/bin/python3";

/** What is left in the folder is removed with it. */
export type OpenHostSandboxes = (folder: string) => Promise<HostSandboxes>;

export interface HostSandboxes extends Sandboxes {
  /** Listens where the gateway or the proxy does. */
  listen(name: "gateway" | "proxy"): Promise<HttpListener>;
  close(): Promise<void>;
}

export async function openHostSandboxes(options: SandboxNetworkOptions, folder: string): Promise<HostSandboxes> {
  const { runtime: found, settings, random } = options;
  const runtime = await openRuntime({
    ...options,
    settings: { ...settings, runtime: found.name, strict_container_version: false },
    view: EMPTY_VIEW,
    run_dir: folder,
    owner: randomHex(random, 16),
  });
  const { listen } = await runtime.prepare();
  return {
    gateway_ip: listen.hostname,
    python: PYTHON,
    listen: (name) => listenForSandboxes(listen.sockets![name], listen.sockets!.owner),
    start: (run) => startRun(runtime, run, { task_id: randomHex(random, 16), network: "none", image: "none" }),
    async close() {
      await runtime.sweep(new Set());
      await runtime.close();
    },
  };
}
