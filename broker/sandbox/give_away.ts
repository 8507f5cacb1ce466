/**
 * Makes a sandbox's user the owner of what it may write, where that is another than the broker. Links are not followed:
 * one of a repository may point anywhere.
 */

import { ContainerProgram, type ContainerProgramOptions } from "./container_program.ts";
import type { SandboxSpec } from "./runtime.ts";

export interface GiveAwayOptions extends Omit<ContainerProgramOptions, "path"> {
  /** User and group on the host. */
  owner: number;
  attempted: string;
}

/** Gives away the work tree and the workload's writable folders; throws `sandbox_failed`. */
export async function giveAway(spec: SandboxSpec, { owner, attempted, env, clock }: GiveAwayOptions): Promise<void> {
  const mounts = spec.workload.kind === "command" ? spec.workload.mounts : [];
  const folders = [spec.work_dir, ...mounts.filter(({ writable }) => writable).map(({ source }) => source)];
  const program = new ContainerProgram({ path: "/bin/chown", env, clock });
  await program.do(
    ["--recursive", "-P", "--no-dereference", `${owner}:${owner}`, "--", ...folders],
    attempted,
    spec.signal,
  );
}
