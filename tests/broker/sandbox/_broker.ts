/**
 * A broker that a test can kill: starts a sandbox of the place in its arguments, with another agent if one is named, and
 * passes on what it prints.
 */

import { systemClock } from "../../../lib/clock.ts";
import { DenoRuntime } from "../../../broker/sandbox/deno_runtime.ts";

const [owner, task_id, work_dir, gateway_url, cache_dir, instruction, agent_module] = Deno.args as string[];
const runtime = new DenoRuntime({
  deno_path: Deno.execPath(),
  cache_dir: cache_dir!,
  owner: owner!,
  clock: systemClock,
  ...(agent_module === undefined ? {} : { agent: { name: "agent" as const, module: agent_module } }),
});
const sandbox = await runtime.start({
  task_id: task_id!,
  work_dir: work_dir!,
  workload: {
    kind: "built_in_agent",
    gateway_url: gateway_url!,
    token: "t",
    model: "m",
    instruction: instruction!,
  },
  memory_bytes: 128 << 20,
  timeout_ms: 600_000,
  max_output_bytes: 1 << 20,
  onOutput: ({ text }) => console.log(text),
});
await sandbox.wait();
