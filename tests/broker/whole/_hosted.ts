/**
 * A whole broker whose repository is on a code host.
 */

import type { SubmitRequest, TaskRecord } from "../../../broker/task/schema.ts";
import type { Stage } from "../../../broker/task/stages.ts";
import { type BenchOptions, BrokerBench } from "../engine/bench.ts";
import { CodeHost } from "./_code_host.ts";

/** What a test works with. */
export interface Hosted {
  bench: BrokerBench;
  host: CodeHost;
  /** Submits a task of the hosted repository. */
  submit(request?: Partial<SubmitRequest>): Promise<TaskRecord>;
  /** Approves a task once it is at the gate; resolves when it is in one of `stages`, or has ended. */
  approve(id: string, ...stages: Stage[]): Promise<TaskRecord>;
  /** Submits and approves. */
  through(request?: Partial<SubmitRequest>, ...stages: Stage[]): Promise<TaskRecord>;
}

/** Starts both, and ends both. */
export async function withCodeHost(options: BenchOptions, test: (hosted: Hosted) => Promise<void>): Promise<void> {
  const env: Record<string, string> = {};
  const programs: Record<string, string[]> = {};
  await using bench = await BrokerBench.prepare({ ...options, env, programs });
  await using host = await CodeHost.start(bench.git.root);
  Object.assign(env, host.env, options.env);
  programs.gh = [host.gh_path];
  await bench.serve();
  const submit = (request: Partial<SubmitRequest> = {}) => bench.submit({ repo: host.repo, ...request });
  const approve = async (id: string, ...stages: Stage[]) => {
    const { gate, reason } = await bench.reaches(id, "awaiting_approval");
    if (gate === undefined) throw new Error(`The task did not come to its gate: ${reason}`);
    await bench.engine.approve(id, { diff_sha256: gate.diff_sha256, acknowledge: gate.second_look });
    return await bench.reaches(id, ...stages);
  };
  const through = async (request: Partial<SubmitRequest> = {}, ...stages: Stage[]) =>
    await approve((await submit(request)).id, ...stages);
  await test({ bench, host, submit, approve, through });
}
