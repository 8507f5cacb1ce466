/**
 * A broker that a test can kill: starts a sandbox of bubblewrap in a Worker, as the program does, and says when it runs.
 */

import { BubblewrapRuntime } from "../../../broker/sandbox/bubblewrap/bubblewrap_runtime.ts";
import type { Bounding } from "../../../broker/sandbox/bubblewrap/control_groups.ts";
import { EMPTY_VIEW } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import { systemClock } from "../../../lib/clock.ts";
import { BWRAP } from "../../support/bubblewrap.ts";

const [owner, task_id, run_dir, bounding] = Deno.args as [string, string, string, Bounding];

if (!("WorkerGlobalScope" in globalThis)) {
  new Worker(import.meta.url, { type: "module" });
} else {
  const runtime = new BubblewrapRuntime({
    program: BWRAP,
    run_dir,
    view: EMPTY_VIEW,
    bounding,
    deno_path: Deno.execPath(),
    owner,
    env: () => undefined,
    clock: systemClock,
  });
  const sandbox = await runtime.start({
    task_id,
    work_dir: await Deno.makeTempDir({ dir: run_dir }),
    workload: {
      kind: "command",
      image: "none",
      network: "none",
      command: ["/bin/sh", "-c", "setsid sleep 600 & echo running; sleep 600"],
      env: {},
      mounts: [],
      max_pids: 64,
    },
    memory_bytes: 256 << 20,
    timeout_ms: 600_000,
    max_output_bytes: 1 << 20,
    onOutput: ({ text }) => console.log(text),
  });
  await sandbox.wait();
}
