/**
 * Sandboxes of bubblewrap: programs of the host, in namespaces of their own, with nothing to reach but the gateway and
 * the proxy. What a sandbox has is in bubblewrap_arguments.ts.
 *
 * A sandbox is the broker's own child and ends with it, also when the broker is killed: the kernel ends bwrap with the
 * thread that started it, and everything in the sandbox with bwrap. One that had not come so far is found by its command
 * line at the next start.
 */

import type { Clock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { namesIn, removeIfPresent, withFileError } from "../../../lib/fs.ts";
import { prepareSocketFolder } from "../../../lib/socket_folder.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../../egress/ports.ts";
import { AGENT_ID, MAPPED_BASE } from "../agent_user.ts";
import { ContainerProgram } from "../container_program.ts";
import { giveAway } from "../give_away.ts";
import { setVariables } from "../host_programs.ts";
import { MARKER, type RunningProcess, sweepProcesses } from "../processes.ts";
import type { ListenAddresses, Sandbox, SandboxRuntime, SandboxSpec } from "../runtime.ts";
import { bubblewrapSandbox, removeGroup } from "./bubblewrap_sandbox.ts";
import { type Bounding, controlGroup, groupRemoval } from "./control_groups.ts";
import { hostToolchain } from "./host_toolchain.ts";
import type { ReadHostView } from "./host_view.ts";
import type { FilterArch } from "./seccomp_filter.ts";
import { startCommand } from "./start_script.ts";

/** By which the user's systemd is found. */
const MANAGER_VARIABLES: readonly string[] = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
const TASK_ID = /^[0-9a-f]{32}$/;

export interface BubblewrapRuntimeOptions {
  /** The bwrap program, absolute. */
  program: string;
  /** A folder that is the broker's alone; the runtime makes one in it. */
  run_dir: string;
  view: ReadHostView;
  bounding: Bounding;
  /** The program that runs the forwarder in a sandbox, deno or a compiled one. */
  deno_path: string;
  owner: string;
  env: (name: string) => string | undefined;
  clock: Clock;
  /** Whether sandboxes reach neither the gateway nor the proxy. */
  reaches_nothing?: boolean;
}

export class BubblewrapRuntime implements SandboxRuntime {
  readonly name = "bubblewrap";
  readonly #options: BubblewrapRuntimeOptions;
  readonly #uid = Deno.uid() ?? 0;
  /** The tasks whose sandboxes are not an earlier broker's. */
  readonly #own = new Set<string>();

  constructor(options: BubblewrapRuntimeOptions) {
    if (!/^[0-9a-f]{8,64}$/.test(options.owner)) throw new TaskdError("usage", "A sandbox owner is hexadecimal digits");
    this.#options = options;
  }

  get programs(): readonly string[] {
    return this.#options.view.programs;
  }

  /** The host's user and group of sandboxes, where that is another than the broker. */
  get #agent(): number | undefined {
    return this.#uid === 0 ? MAPPED_BASE + AGENT_ID : undefined;
  }

  /** Of this broker alone: others of the same user have their sockets beside it. */
  get #folder(): string {
    return `${this.#options.run_dir}/bw-${this.#options.owner.slice(0, 8)}`;
  }

  get #manager(): Record<string, string> {
    return setVariables(this.#options.env, MANAGER_VARIABLES);
  }

  get #sockets(): { gateway: string; proxy: string } {
    return { gateway: `${this.#folder}/gateway`, proxy: `${this.#folder}/proxy` };
  }

  async version(): Promise<string> {
    const program = new ContainerProgram({ ...this.#options, path: this.#options.program });
    const attempted = "Cannot learn the version of bubblewrap";
    const version = versionOf(await program.do(["--version"], attempted));
    if (version !== undefined) return version;
    throw new TaskdError("sandbox_failed", `${attempted}: it prints none`);
  }

  toolchain(signal?: AbortSignal): Promise<string> {
    const { view, clock } = this.#options;
    return hostToolchain(view, { clock, signal });
  }

  /** Makes the folder of the sockets; nothing else is shared. */
  prepare(): Promise<{ listen: ListenAddresses }> {
    prepareSocketFolder(this.#folder);
    withFileError(`Cannot make ${this.#folder} for the sandboxes' sockets`, () => {
      Deno.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      Deno.chmodSync(this.#folder, 0o700);
    });
    const owner = this.#agent;
    const sockets = { ...this.#sockets, ...(owner === undefined ? {} : { owner }) };
    const listen = { hostname: "127.0.0.1", gateway_port: GATEWAY_PORT, proxy_port: PROXY_PORT, sockets };
    return Promise.resolve({ listen });
  }

  close(): Promise<void> {
    try {
      removeIfPresent(this.#folder);
    } catch {
      // Something is left in it, which the next start replaces.
    }
    return Promise.resolve();
  }

  /** Starts a sandbox; what the agent may write belongs to its user from now on. */
  async start(spec: SandboxSpec): Promise<Sandbox> {
    const attempted = `Cannot start the sandbox of task ${spec.task_id.slice(0, 64)}`;
    const { workload, task_id, memory_bytes, work_dir } = spec;
    if (!TASK_ID.test(task_id)) throw new TaskdError("usage", `${attempted}: that is no task id`);
    if (workload.kind !== "command") {
      throw new TaskdError("invalid_config", `${attempted}: bubblewrap runs programs, not the built-in agent`, {
        hint: "Set runtime: deno for the built-in agent",
      });
    }
    spec.signal?.throwIfAborted();
    const { program, view, bounding, deno_path, owner, clock, reaches_nothing } = this.#options;
    const owner_id = this.#agent;
    if (owner_id !== undefined) await giveAway(spec, { ...this.#options, owner: owner_id, attempted });
    const { max_pids } = workload;
    this.#own.add(task_id);
    const group = controlGroup(bounding, { name: groupOf(task_id), uid: this.#uid, memory_bytes, max_pids });
    const report = `${this.#folder}/${task_id}`;
    const start = startCommand({
      bwrap: program,
      uid: this.#uid,
      arch: Deno.build.arch as FilterArch,
      order: {
        work_dir,
        workload,
        memory_bytes,
        view,
        deno_path,
        sockets: reaches_nothing ? undefined : this.#sockets,
      },
      command: workload.command,
      max_pids,
      ...(group === undefined ? { process_bytes: memory_bytes } : { bounded_by: group.words }),
      owner,
      task_id,
      report,
    });
    return bubblewrapSandbox({ start, env: this.#manager, spec, clock, report, group });
  }

  /**
   * Ends what an earlier process of this broker left, which is little: see above. A process is known by how its command
   * line begins, with this bwrap and this owner, and is listed again right before it is killed. Then groups are empty.
   */
  async sweep(keep: ReadonlySet<string>): Promise<string[]> {
    const swept = await sweepProcesses(this.#options, keep, (process) => taskOf(process, this.#options));
    await this.#sweepGroups(keep);
    return [...swept];
  }

  /**
   * Takes away the control groups that an earlier process of this broker left. A report is there before its sandbox has a
   * group, and as long as it has one: groups of other brokers are not touched, whose sandboxes may be just starting.
   */
  async #sweepGroups(keep: ReadonlySet<string>): Promise<void> {
    const { bounding, clock } = this.#options;
    for (const task_id of namesIn(this.#folder)) {
      if (!TASK_ID.test(task_id) || keep.has(task_id) || this.#own.has(task_id)) continue;
      try {
        const removal = groupRemoval(bounding, { name: groupOf(task_id), uid: this.#uid });
        if (removal !== undefined) await removeGroup(removal, { clock, env: this.#manager });
        removeIfPresent(`${this.#folder}/${task_id}`);
      } catch {
        // The report is still there, and the next start tries again.
      }
    }
  }
}

/** The version that `bwrap --version` prints. */
export function versionOf(stdout: string): string | undefined {
  return /\b(\d+\.\d+(?:\.\d+)*)/.exec(stdout)?.[1];
}

function groupOf(task_id: string): string {
  return `taskd-${task_id}`;
}

function taskOf({ command_line }: RunningProcess, { program, owner }: BubblewrapRuntimeOptions): string | undefined {
  if (!command_line.startsWith(`${program} --args `)) return undefined;
  const at = command_line.indexOf(` ${MARKER}${owner}:`);
  const task_id = at < 0 ? "" : command_line.slice(at + 2 + MARKER.length + owner.length).split(" ")[0]!;
  return TASK_ID.test(task_id) ? task_id : undefined;
}
