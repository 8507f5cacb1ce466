/**
 * Sandboxes in containers of podman, docker or Apple's container, each on a network that has nothing but the gateway
 * and the proxy.
 *
 * A container's root file system is read-only, its capabilities are dropped, processes and memory bounded, its user
 * has no rights outside of it. Its first program sets up a firewall that leaves two destinations and then drops what it
 * needed for that, so that nothing in the sandbox can take it down. Containers carry the labels of their broker and
 * task: what a crashed broker left is found by them, and other containers are not touched.
 *
 * Apple's container makes a virtual machine for each, with bounded memory and the same first program, and lacks the rest:
 * its root file system is writable, only the first program drops capabilities, processes and /tmp have no bound, and a
 * network that exists already is not checked. Only podman itself ends what outlives its broker.
 */

import type { ContainerKind } from "./runtime.ts";
import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { giveAway } from "./give_away.ts";
import { resourceLimits } from "./installed_runtimes.ts";
import { ContainerProgram, printed, refusedImage } from "./container_program.ts";
import { containerSandbox, type ContainerState, remove } from "./_container_sandbox.ts";
import { shareNetworkNamespaces } from "./_network_namespaces.ts";
import { SharedNetwork, type SharedNetworkOptions } from "./_shared_network.ts";
import {
  type ContainerHost,
  createArgs,
  envFile,
  hostOwner,
  type Identity,
  type Limits,
  OWNER_LABEL,
  ROLE_LABEL,
  TASK_LABEL,
} from "./container_arguments.ts";
import type { ListenAddresses, Sandbox, SandboxRuntime, SandboxSpec } from "./runtime.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../egress/ports.ts";

const MAX_OPEN_FILES = 65_536;
/** Most processes of all sandboxes of a machine; each has its own bound below. */
const MAX_PROCESSES = 16_384;
/** Seconds after its deadline at which podman itself ends a container whose broker is gone. */
const BACKSTOP_S = 60;

export interface ContainerRuntimeOptions extends SharedNetworkOptions {
  /** Its program, absolute. */
  program: string;
  rootless: boolean;
  /** OCI runtime by name or path; empty takes the program's own, or another installed one where that does not work. */
  oci_runtime: string;
  env: (name: string) => string | undefined;
  /** The broker's user and group; those of this process when absent. */
  ids?: { uid: number; gid: number };
  onWarning?: ((message: string) => void) | undefined;
}

export class ContainerRuntime implements SandboxRuntime {
  readonly name: ContainerKind;
  readonly #options: ContainerRuntimeOptions;
  readonly #program: ContainerProgram;
  readonly #identity: Identity;
  readonly #shared: SharedNetwork;
  #limits: Promise<Limits | undefined> | undefined;

  constructor(options: ContainerRuntimeOptions) {
    if (!/^[0-9a-f]{8,64}$/.test(options.owner)) throw new TaskdError("usage", "A sandbox owner is hexadecimal digits");
    const { kind, program, env, clock, rootless } = options;
    const { uid, gid } = options.ids ?? { uid: Deno.uid() ?? 0, gid: Deno.gid() ?? 0 };
    this.name = kind;
    this.#options = options;
    this.#identity = { rootless, uid, gid };
    this.#program = new ContainerProgram({ path: program, env, clock });
    this.#shared = new SharedNetwork(this.#program, options);
  }

  async version(): Promise<string> {
    const stdout = await this.#program.do(["--version"], `Cannot learn the version of ${this.name}`);
    const version = /\b(\d+\.\d+\.\d+[^\s,]*)/.exec(stdout)?.[1];
    if (version !== undefined) return version;
    throw new TaskdError("sandbox_failed", `Cannot learn the version of ${this.name}: it prints none`);
  }

  /** The digest that podman and docker know of an image; Apple's container has none. */
  async imageDigest(image: string, signal?: AbortSignal): Promise<string | undefined> {
    if (this.name === "container") return undefined;
    const { code, stdout } = await this.#program.ask(["image", "inspect", "--format={{.Id}}", image], { signal });
    const digits = code === 0 ? /^(?:sha256:)?([0-9a-f]{64})$/.exec(stdout.trim())?.[1] : undefined;
    return digits === undefined ? undefined : `sha256:${digits}`;
  }

  async prepare(): Promise<{ listen: ListenAddresses }> {
    if (this.name === "podman" && !this.#identity.rootless) {
      const left = await shareNetworkNamespaces(new ContainerProgram({ ...this.#options, path: "/bin/sh" }));
      if (left !== undefined) this.#options.onWarning?.(left);
    }
    await this.#shared.prepare(await this.#host());
    return {
      listen: { hostname: this.#options.gateway_ip, gateway_port: GATEWAY_PORT, proxy_port: PROXY_PORT },
    };
  }

  /** Ends the anchor; the network stays. */
  async close(): Promise<void> {
    await this.#shared.close();
  }

  /** Creates and starts a container; what the agent may write belongs to its user from now on. */
  async start(spec: SandboxSpec): Promise<Sandbox> {
    const attempted = `Cannot start the sandbox of task ${spec.task_id.slice(0, 64)}`;
    const { workload } = spec;
    if (!/^[0-9a-f]{32}$/.test(spec.task_id)) throw new TaskdError("usage", `${attempted}: that is no task id`);
    if (workload.kind !== "command") {
      throw new TaskdError("invalid_config", `${attempted}: containers run programs, not the built-in agent`, {
        hint: "Set runtime: deno for the built-in agent",
      });
    }
    const host = await this.#host();
    const name = `taskd-${this.#options.owner.slice(0, 12)}-${spec.task_id}`;
    const args = createArgs(host, {
      name,
      labels: { [OWNER_LABEL]: this.#options.owner, [TASK_LABEL]: spec.task_id, [ROLE_LABEL]: "task" },
      work_dir: spec.work_dir,
      workload,
      memory_bytes: spec.memory_bytes,
      backstop_s: Math.ceil(spec.timeout_ms / 1_000) + BACKSTOP_S,
    });
    const owner = hostOwner({ kind: this.name, identity: this.#identity });
    if (owner !== undefined) await giveAway(spec, { ...this.#options, owner, attempted });
    const answer = await this.#program.ask(args, { attempted, stdin: envFile(workload.env), signal: spec.signal })
      .catch((error: unknown) => {
        // What it had begun goes too; the task does not wait for a program that may not answer.
        void remove(this.#program, name, this.#options.clock).catch(() => {});
        throw error;
      });
    if (answer.code !== 0) throw refusedImage(attempted, answer, workload.image);
    return containerSandbox({
      program: this.#program,
      name,
      spec,
      clock: this.#options.clock,
      // Apple's does not record how one ended; its reader's exit code does.
      inspect: this.name === "container" ? undefined : inspectState,
    });
  }

  async sweep(keep: ReadonlySet<string>): Promise<string[]> {
    const swept: string[] = [];
    for (const { name, task_id } of await LIST[this.name](this.#program, this.#options.owner)) {
      if (keep.has(task_id)) continue;
      await remove(this.#program, name, this.#options.clock);
      swept.push(task_id);
    }
    return [...new Set(swept)];
  }

  async #host(): Promise<ContainerHost> {
    const { kind, gateway_ip, oci_runtime } = this.#options;
    const limits = this.#shared.works?.limits ?? await (this.#limits ??= this.#readLimits());
    return {
      kind,
      identity: this.#identity,
      oci_runtime: this.#shared.works?.oci_runtime ?? oci_runtime,
      gateway_ip,
      ...(limits === undefined ? {} : { limits }),
    };
  }

  /** A container cannot be given more than its maker has, and podman's defaults may be more. */
  async #readLimits(): Promise<Limits | undefined> {
    const program = (path: string) => new ContainerProgram({ ...this.#options, path });
    const limits = await resourceLimits((path, args) => program(path).ask(args)).catch(() => undefined);
    if (limits === undefined) return undefined;
    return {
      open_files: Math.min(limits.open_files, MAX_OPEN_FILES),
      processes: Math.min(limits.processes, MAX_PROCESSES),
    };
  }
}

const StateSchema = v.object({
  StartedAt: v.nullish(v.string()),
  Running: v.nullish(v.boolean()),
  ExitCode: v.number(),
  OOMKilled: v.nullish(v.boolean()),
  Error: v.nullish(v.string()),
});

async function inspectState(program: ContainerProgram, name: string): Promise<ContainerState> {
  const attempted = `Cannot learn how the sandbox ${name} ended`;
  const stdout = await program.do(["inspect", "--type=container", "--format={{json .State}}", name], attempted);
  const state = printed(StateSchema, stdout, attempted);
  return {
    started: !(state.StartedAt ?? "0001").startsWith("0001"),
    running: state.Running === true,
    code: state.ExitCode,
    out_of_memory: state.OOMKilled === true,
    error: sanitizeLine(state.Error ?? "").slice(0, 500),
  };
}

interface Listed {
  name: string;
  task_id: string;
}

const ListSchema = v.array(v.object({
  configuration: v.object({ id: v.string(), labels: v.nullish(v.record(v.string(), v.string())) }),
}));

const LIST: Readonly<Record<ContainerKind, (program: ContainerProgram, owner: string) => Promise<Listed[]>>> = {
  podman: listByLabels,
  docker: listByLabels,
  async container(program, owner) {
    // It filters nothing by itself.
    const attempted = "Cannot list the sandboxes";
    const stdout = await program.do(["list", "--all", "--format", "json"], attempted);
    return printed(ListSchema, stdout, attempted).flatMap(({ configuration: { id, labels } }) =>
      labels?.[ROLE_LABEL] === "task" && labels[OWNER_LABEL] === owner ? listed(id, labels[TASK_LABEL]) : []
    );
  },
};

async function listByLabels(program: ContainerProgram, owner: string): Promise<Listed[]> {
  const stdout = await program.do([
    "ps",
    "--all",
    `--filter=label=${OWNER_LABEL}=${owner}`,
    `--filter=label=${ROLE_LABEL}=task`,
    "--format={{.Names}}",
  ], "Cannot list the sandboxes");
  // Podman and docker write labels differently; the name has the task too.
  return stdout.split("\n").flatMap((line) => listed(line.trim(), line.trim().split("-").at(-1)));
}

function listed(name: string | undefined, task_id: string | undefined): Listed[] {
  return name !== undefined && task_id !== undefined && /^[0-9a-f]{32}$/.test(task_id) ? [{ name, task_id }] : [];
}
