/**
 * Container sandboxes for attacks: the installed images, run as the broker runs them, on a network of their own beside
 * the broker's, so that a running broker and its tasks are not in the way.
 */

import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { ContainerProgram } from "../../broker/sandbox/container_program.ts";
import { EMPTY_VIEW } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { openRuntime } from "../../broker/sandbox/open_runtime.ts";
import type { CommandWorkload, SandboxEnd, SandboxRuntime } from "../../broker/sandbox/runtime.ts";
import type { FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";
import type { Settings } from "../../broker/settings/settings.ts";

/** Networks that are tried; one may be taken by something else of this host. */
const NETWORK_TRIES = 5;
/** Longest run of a script of attempts. */
const RUN_MS = 45_000;

/** Makes a network; nothing of it stays after {@linkcode SandboxNetwork.close}. */
export type OpenNetwork = () => Promise<SandboxNetwork>;

export interface ContainerRun
  extends Pick<CommandWorkload, "command">, Partial<Pick<CommandWorkload, "env" | "mounts" | "reach" | "max_pids">> {
  work_dir: string;
  onLine?: (line: string) => void;
}

export interface SandboxNetwork extends Sandboxes<ContainerStarted> {
  close(): Promise<void>;
}

export interface StartedRun {
  stop(): Promise<ContainerEnd>;
  wait(): Promise<ContainerEnd>;
}

export interface ContainerStarted extends StartedRun {
  address(): Promise<string>;
}

/** Where sandboxes are started. */
export interface Sandboxes<Run extends StartedRun = StartedRun> {
  /** Address of the gateway and the proxy, as they have it. */
  gateway_ip: string;
  /** Starts a program; `wait` resolves with its end and its lines, `stop` ends it. */
  start(run: ContainerRun): Promise<Run>;
  /** Python in a sandbox, where PATH may lead to another. */
  python?: string;
}

export interface ContainerEnd extends SandboxEnd {
  out: string[];
  err: string[];
}

export interface SandboxNetworkOptions {
  /** A runtime that works and is not the embedded one. */
  runtime: FoundRuntime;
  settings: Settings;
  env: (name: string) => string | undefined;
  deno_path: string;
  deno_cache_dir: string;
  clock: Clock;
  random: RandomBytes;
}

export async function openNetwork(options: SandboxNetworkOptions): Promise<SandboxNetwork> {
  const { runtime: found, settings, env, clock, random } = options;
  const owner = randomHex(random, 16);
  const network = `taskd-redteam-${owner.slice(0, 8)}`;
  const program = new ContainerProgram({ path: found.path, env, clock });
  const removeNetwork = () => program.ask(["network", "rm", ...(found.name === "podman" ? ["--force"] : []), network]);
  let failure: unknown;
  for (let tries = 0; tries < NETWORK_TRIES; tries++) {
    const [second = 0, third = 0] = random(2);
    const gateway_ip = `10.${128 + second % 100}.${third}.1`;
    const runtime = await openRuntime({
      ...options,
      view: EMPTY_VIEW,
      run_dir: "/",
      settings: { ...settings, runtime: found.name, network, gateway_ip, strict_container_version: false },
      owner,
    });
    try {
      await runtime.prepare();
    } catch (error) {
      failure = error;
      await runtime.close().catch(() => {});
      await removeNetwork();
      continue;
    }
    return {
      gateway_ip,
      async start(run) {
        const task_id = randomHex(random, 16);
        const started = await startRun(runtime, run, { task_id, network, image: settings.sandbox_image });
        const address = async () => {
          const name = `taskd-${owner.slice(0, 12)}-${task_id}`;
          const format = "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
          return (await program.do(["inspect", format, name], "Cannot learn the sandbox's address")).trim();
        };
        return { ...started, address };
      },
      async close() {
        await runtime.sweep(new Set());
        await runtime.close();
        await removeNetwork();
      },
    };
  }
  throw failure;
}

export async function startRun(
  runtime: SandboxRuntime,
  { work_dir, onLine, ...program }: ContainerRun,
  { task_id, ...container }: { task_id: string; network: string; image: string },
): Promise<StartedRun> {
  const out: string[] = [];
  const err: string[] = [];
  const sandbox = await runtime.start({
    task_id,
    work_dir,
    workload: { kind: "command", env: {}, mounts: [], max_pids: 128, ...program, ...container },
    memory_bytes: 512 << 20,
    timeout_ms: RUN_MS,
    max_output_bytes: 1 << 20,
    onOutput: ({ stream, text }) => {
      if (stream === "stderr") return void err.push(text);
      out.push(text);
      onLine?.(text);
    },
  });
  return {
    stop: async () => ({ ...await sandbox.stop(), out, err }),
    wait: async () => ({ ...await sandbox.wait(), out, err }),
  };
}
