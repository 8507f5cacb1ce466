/**
 * What a sandbox is to the rest of the broker, whichever runtime keeps it: one task's work folder, the gateway, a wall
 * clock, an end. Runtimes differ in what they can run; each refuses, before anything is started, what it cannot.
 *
 * A sandbox that was started ends exactly once, and {@linkcode Sandbox.wait} returns how. What a crashed broker left
 * behind is found again by the task ids it was started with and ended by {@linkcode SandboxRuntime.sweep}.
 */

/** Runtimes that run images. */
export const CONTAINER_RUNTIMES = ["podman", "docker", "container"] as const;
export type ContainerKind = (typeof CONTAINER_RUNTIMES)[number];

/**
 * The runtimes there can be; `bubblewrap` runs programs of this machine, `deno` is embedded and needs nothing installed.
 */
export type SandboxRuntimeName = ContainerKind | "bubblewrap" | "deno";

export function isContainerRuntime(name: SandboxRuntimeName): name is ContainerKind {
  return CONTAINER_RUNTIMES.some((one) => one === name);
}

/** The broker's own agent, which edits files, and runs commands where there is a sandbox for them. */
export interface BuiltInAgentWorkload {
  kind: "built_in_agent";
  /** `http://host:port` of the gateway, without a path. */
  gateway_url: string;
  token: string;
  model: string;
  instruction: string;
  /** Conversation turns after which it is ended; the agent's own default when absent. */
  max_turns?: number;
  /** Databases that it may change: files of one folder, which lies beside the work folder. */
  databases?: { directory: string; files: readonly { name: string; file: string }[] };
}

export interface Container {
  image: string;
  /** Name of the network that has the gateway and the proxy and nothing else. */
  network: string;
  /** `os/arch` of the image, when it is not the host's own. */
  platform?: string;
}

export interface CommandWorkload extends Container {
  kind: "command";
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** What it sees of the host beside the work folder; both paths absolute. */
  mounts: readonly { source: string; target: string; writable: boolean }[];
  max_pids: number;
  /** What of the network it reaches; both when absent. Setup commands need no model. */
  reach?: "gateway_and_proxy" | "proxy";
}

export type Workload = BuiltInAgentWorkload | CommandWorkload;

/**
 * Where a line of output is cut, in UTF-16 units before control characters are escaped; a row of the built-in agent is
 * far below it.
 */
export const MAX_LINE_LENGTH = 16 << 10;

/** A line that came out of a sandbox, safe to show and of bounded length. */
export interface OutputLine {
  stream: "stdout" | "stderr";
  text: string;
}

export interface SandboxSpec {
  task_id: string;
  /** The only folder of the host that it can change, absolute. */
  work_dir: string;
  workload: Workload;
  memory_bytes: number;
  timeout_ms: number;
  /** Ends the start at once, and what it runs; then nothing of the sandbox is left to be put in order. */
  signal?: AbortSignal | undefined;
  /** Bytes of output that are passed on; what follows is discarded. */
  max_output_bytes: number;
  onOutput(line: OutputLine): void;
  /** What the runtime itself has to say of the task, before it acts on it. */
  onNote?(text: string): Promise<unknown>;
}

export interface SandboxEnd {
  /**
   * `exited` by itself, `timed_out` at its deadline, `stopped` because {@linkcode Sandbox.stop} was called,
   * `out_of_memory` because it needed more than it may have.
   */
  reason: "exited" | "timed_out" | "stopped" | "out_of_memory";
  /** Exit code; 128 + n after signal n. */
  code: number;
  signal?: string;
  output_truncated: boolean;
}

export interface Sandbox {
  /** Resolves when nothing of it runs any more and its last line was delivered. */
  wait(): Promise<SandboxEnd>;
  /** Ends it, by force after a short grace; resolves as {@linkcode Sandbox.wait} does. */
  stop(): Promise<SandboxEnd>;
}

/** Where the gateway and the proxy have to listen so that sandboxes reach them at this address. */
export interface ListenAddresses {
  hostname: string;
  /** Either port is 0 for any free one, where no image has to agree. */
  gateway_port: number;
  proxy_port: number;
  /** Sockets that they listen on in place of it: in each sandbox, the address leads to them. */
  sockets?: SandboxSockets;
}

export interface SandboxSockets {
  gateway: string;
  proxy: string;
  /** The host's user and group of sandboxes, where that is another than the broker. */
  owner?: number;
}

export interface SandboxRuntime {
  readonly name: SandboxRuntimeName;
  /** The agents' programs that it can run, by their names; absent where that is the image's affair. */
  readonly programs?: readonly string[];
  /**
   * Puts in place what sandboxes share, before anything listens: the network and what holds its address. Can be
   * called again. Throws `sandbox_failed` when an image is missing or the network cannot be had.
   */
  prepare(): Promise<{ listen: ListenAddresses }>;
  /** The digest of the image that a name leads to at present; undefined when that is not known. Absent where there are no images. */
  imageDigest?(image: string, signal?: AbortSignal): Promise<string | undefined>;
  /** What identifies the programs that sandboxes build with, where those are the host's; throws when it is not known. */
  toolchain?(signal?: AbortSignal): Promise<string>;
  /** The runtime's version, as it reports it; throws `sandbox_failed` when it does not work. */
  version(): Promise<string>;
  /** Starts a sandbox; throws `invalid_config` for a workload it cannot run, `sandbox_failed` when starting fails. */
  start(spec: SandboxSpec): Promise<Sandbox>;
  /**
   * Ends the sandboxes of this broker that an earlier process of it left behind, except those of the tasks in `keep`.
   *
   * @returns The tasks whose sandboxes were ended.
   */
  sweep(keep: ReadonlySet<string>): Promise<string[]>;
  /** Takes away what {@linkcode prepare} put in place; sandboxes are to have ended. */
  close(): Promise<void>;
}
