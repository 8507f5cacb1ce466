/**
 * A compiled program as a helper of itself: `taskd internal NAME`, which help does not list, runs one of the modules of
 * lib/helper_process.ts.
 *
 * Deno's flags cannot narrow a compiled program. So the module runs in a Worker that is made with exactly the helper's
 * permissions, as every command is; once it is ready this thread drops every permission. A heap has no limit here: this
 * thread ends the process when its memory grows beyond what the heap and the runtime may take.
 */

import { parseArgs } from "node:util";
import { revokeAll, toDenoPermissions, unionOf } from "../plan/permissions.ts";
import { EXIT_FAILURE } from "../text/exit_codes.ts";
// Makes the Worker's module part of the program, so that whatever caches or packs it has it.
import type { ToHelper } from "./workers/helper.ts";
import type { FromWorker } from "./worker_host.ts";

/** MiB that the runtime itself and SQLite may take beside the heap. */
const BESIDE_HEAP_MIB = 768;
const LOOK_MS = 50;

/** Runs the helper that `args` name, without the word `internal`, and returns its exit status. */
export function runInternal(args: readonly string[]): Promise<number> {
  const { positionals: [name = ""], values } = parseArgs({
    args: [...args],
    allowPositionals: true,
    // The marker is read by others, from the list of processes.
    strict: false,
    options: {
      "allow-read": { type: "string" },
      "allow-write": { type: "string" },
      "allow-net": { type: "string" },
      "heap-mib": { type: "string" },
    },
  });
  const list = (kind: "allow-read" | "allow-write" | "allow-net") => {
    const value = values[kind];
    return typeof value === "string" && value !== "" ? value.split(",") : [];
  };
  const permissions = unionOf({ read: list("allow-read"), write: list("allow-write"), net: list("allow-net") });
  const limit_bytes = (Number(values["heap-mib"] ?? 0) + BESIDE_HEAP_MIB) * 2 ** 20;
  return new Promise((resolve) => {
    const worker = new Worker(new URL("./workers/helper.ts", import.meta.url), {
      type: "module",
      name,
      deno: { permissions: toDenoPermissions(permissions) },
    });
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === "exit") return resolve(data.code);
      revokeAll();
      worker.postMessage({ type: "run", name } satisfies ToHelper);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      console.error(event.message);
      resolve(EXIT_FAILURE);
    };
    setInterval(() => {
      if (Deno.memoryUsage().rss <= limit_bytes) return;
      console.error(`out of memory: more than ${limit_bytes} bytes`);
      resolve(EXIT_FAILURE);
    }, LOOK_MS);
  });
}
