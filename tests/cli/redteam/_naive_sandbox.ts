/**
 * A sandbox that holds nothing: the agent runs with every permission, and its calls are done here.
 */

import { CALL_MARK, parseCall } from "../../../broker/agent/calls.ts";
import { callTool } from "../../../broker/agent/tools.ts";
import { WorkTree } from "../../../broker/agent/work_tree.ts";
import { systemClock } from "../../../lib/clock.ts";
import { encodeLine } from "../../../lib/protocol/lines.ts";
import { textLines } from "../../support/text_lines.ts";
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
    await writer.write(encodeLine(workload));
    const context = { tree: new WorkTree(work_dir), clock: systemClock };
    const run = async (): Promise<SandboxEnd> => {
      for await (const text of textLines(child.stdout)) {
        if (text.charCodeAt(0) !== CALL_MARK) {
          onOutput({ stream: "stdout", text });
          continue;
        }
        const call = parseCall(text.slice(1));
        await writer.write(encodeLine(await callTool(call.name, call.arguments, context)));
      }
      const { code } = await child.status;
      await writer.close().catch(() => {});
      return { reason: "exited", code, output_truncated: false };
    };
    const end = run();
    return { wait: () => end, stop: () => end };
  },
});
