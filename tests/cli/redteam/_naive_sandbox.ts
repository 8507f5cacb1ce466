/**
 * A sandbox that holds nothing: the agent runs with every permission.
 */

import type { Surfaces } from "../../../cli/redteam/context.ts";
import type { SandboxEnd } from "../../../broker/sandbox/runtime.ts";

/** Starts one. */
export const naiveSandbox: Surfaces["embedded"] = ({ deno_path, agent }) => ({
  start: async ({ work_dir, workload, onOutput }) => {
    const child = new Deno.Command(deno_path, {
      args: ["run", "-A", "--no-prompt", "--cached-only", "--no-config", agent!.module],
      cwd: work_dir,
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(JSON.stringify(workload)));
    const end = child.output().then(({ code, stdout }): SandboxEnd => {
      for (const text of new TextDecoder().decode(stdout).split("\n")) onOutput({ stream: "stdout", text });
      return { reason: "exited", code, output_truncated: false };
    });
    return { wait: () => end, stop: () => end };
  },
});
