/**
 * The embedded runtime: the built-in agent in a Deno process of its own, held by Deno's permissions.
 *
 * The process may read and write the task's work folder, and the folder of its databases where it has some, and connect
 * to the gateway's address and port. It has no environment, no subprocesses, no system information, no native code, no
 * imports except the agent's own modules, and a bounded heap. Symbolic links are put aside while it runs, because
 * permissions follow them.
 */

import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { DEFAULT_MAX_TURNS, encodeConfig } from "../agent/config.ts";
import { runProcess } from "../../lib/process.ts";
import { type Helper, helperArgs, helperEnv, helperPrefix } from "../../lib/helper_process.ts";
import { type ParkedLinks, parkLinks, restoreLinks } from "./_parked_links.ts";
import { supervise } from "./_supervised_sandbox.ts";
import { endProcesses, type RunningProcess, signalProcess } from "./processes.ts";
import type {
  BuiltInAgentWorkload,
  ListenAddresses,
  Sandbox,
  SandboxRuntime,
  SandboxRuntimeName,
  SandboxSpec,
} from "./runtime.ts";
// Makes the agent part of the program, so that caches and packages include it.
import type {} from "../agent/main.ts";

/** Milliseconds between SIGTERM and SIGKILL: the agent has nothing to save. */
const GRACE_MS = 1_000;
/** A runtime that does not answer is none. */
const VERSION_DEADLINE_MS = 30_000;
const MAX_VERSION_BYTES = 64 << 10;
/** V8 does not start with less. */
const MIN_HEAP_MIB = 32;

/** The argument by which a process is known again; see {@linkcode DenoRuntime.sweep}. */
const MARKER = "--taskd-sandbox=";

export interface DenoRuntimeOptions {
  deno_path: string;
  /** Deno's cache (DENO_DIR), absolute; the agent cannot read it, the runtime below it does. */
  cache_dir: string;
  owner: string;
  clock: Clock;
  /** What runs in the place of the built-in agent: for tests of the sandbox. */
  agent?: Pick<Helper, "name" | "module">;
}

export class DenoRuntime implements SandboxRuntime {
  readonly name: SandboxRuntimeName = "deno";
  readonly #options: DenoRuntimeOptions;

  constructor(options: DenoRuntimeOptions) {
    if (!/^[0-9a-f]{8,64}$/.test(options.owner)) throw new TaskdError("usage", "A sandbox owner is hexadecimal digits");
    this.#options = options;
  }

  /** Nothing is shared: its sandboxes are processes of this host. */
  prepare(): Promise<{ listen: ListenAddresses }> {
    return Promise.resolve({ listen: { hostname: "127.0.0.1", gateway_port: 0, proxy_port: 0 } });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async version(): Promise<string> {
    const { cache_dir, deno_path } = this.#options;
    // A compiled program is its own runtime, and knows no flag of deno.
    if (Deno.build.standalone) return Deno.version.deno;
    const attempted = "Cannot learn the embedded runtime's version";
    const { code, stdout } = await runProcess(deno_path, {
      args: ["--version"],
      env: helperEnv(cache_dir),
      cwd: "/",
      deadline_ms: VERSION_DEADLINE_MS,
      max_bytes: MAX_VERSION_BYTES,
      clock: this.#options.clock,
      attempted,
      signal: undefined,
    }).catch((cause: unknown) => {
      throw failed(`${attempted}: ${deno_path} cannot be started`, cause);
    });
    const version = /^deno (\d+\.\d+\.\d+\S*)/.exec(new TextDecoder().decode(stdout))?.[1];
    if (code !== 0 || version === undefined) throw failed(`${attempted}: ${deno_path} is not deno`);
    return version;
  }

  async start(spec: SandboxSpec): Promise<Sandbox> {
    const attempted = `Cannot start the sandbox of task ${spec.task_id.slice(0, 64)}`;
    const { workload } = spec;
    if (workload.kind !== "built_in_agent") {
      throw new TaskdError("invalid_config", `${attempted}: the embedded runtime runs no programs`, {
        hint: "Use agent_d, whose built-in client needs none, without setup commands; or install podman",
      });
    }
    if (!/^[0-9a-f]{32}$/.test(spec.task_id)) throw new TaskdError("usage", `${attempted}: that is no task id`);
    const gateway = gatewayAddress(workload, attempted);
    const work_dir = await realFolder(spec.work_dir, attempted);
    const databases = await databasesOf(workload, work_dir, attempted);
    const parked = await parkLinks(work_dir, spec.signal);
    let child: Deno.ChildProcess;
    try {
      child = new Deno.Command(this.#options.deno_path, {
        args: this.#args(spec, { gateway, databases_dir: databases?.directory }),
        cwd: work_dir,
        env: helperEnv(this.#options.cache_dir),
        clearEnv: true,
        detached: true,
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
    } catch (cause) {
      await restoreLinks(parked, spec.signal);
      throw failed(`${attempted}: ${this.#options.deno_path} cannot be started`, cause);
    }
    const config = encodeConfig({
      gateway_url: workload.gateway_url,
      token: workload.token,
      model: workload.model,
      instruction: workload.instruction,
      work_dir,
      max_turns: workload.max_turns ?? DEFAULT_MAX_TURNS,
      links: parked.links.map(({ path, target }) => ({ path: path.slice(work_dir.length + 1), target })),
      ...(databases === undefined ? {} : { databases: databases.files }),
    });
    return denoSandbox(child, { spec, config, parked, clock: this.#options.clock });
  }

  /**
   * Ends what an earlier process of this broker left. A process is known by its whole command line: this deno program
   * first, the marker with this owner and a task id last; and it is listed again right before it is killed.
   */
  async sweep(keep: ReadonlySet<string>): Promise<string[]> {
    const swept = new Set<string>();
    const orphans = (processes: readonly RunningProcess[]) =>
      processes.flatMap((process) => {
        const task_id = this.#taskOf(process);
        return task_id === undefined || keep.has(task_id) ? [] : [{ ...process, task_id }];
      });
    const ended = await endProcesses(this.#options.clock, orphans, { onKilled: ({ task_id }) => swept.add(task_id) });
    if (ended) return [...swept];
    throw new TaskdError("sandbox_failed", "Cannot end the sandboxes of an earlier run: they are still there", {
      hint: `Look for processes with ${MARKER}${this.#options.owner} and end them`,
    });
  }

  #taskOf({ command_line }: RunningProcess): string | undefined {
    const { deno_path, owner } = this.#options;
    if (!command_line.startsWith(`${deno_path} ${helperPrefix()}`)) return undefined;
    const last = command_line.slice(command_line.lastIndexOf(" ") + 1);
    const start = `${MARKER}${owner}:`;
    const task_id = last.startsWith(start) ? last.slice(start.length) : "";
    return /^[0-9a-f]{32}$/.test(task_id) ? task_id : undefined;
  }

  #args(
    { task_id, memory_bytes }: SandboxSpec,
    { gateway, databases_dir }: { gateway: string; databases_dir: string | undefined },
  ): string[] {
    const { agent, owner } = this.#options;
    const heap_mib = Math.max(MIN_HEAP_MIB, Math.floor(memory_bytes / (1 << 20)));
    // The process starts in the work folder. By its name it could not be granted if that has a comma.
    const folders = [".", ...(databases_dir === undefined ? [] : [`../${basename(databases_dir)}`])];
    return helperArgs({
      name: agent?.name ?? "agent",
      module: agent?.module ?? import.meta.resolve("../agent/main.ts"),
      folders,
      net: gateway,
      heap_mib,
      marker: `${MARKER}${owner}:${task_id}`,
    });
  }
}

function denoSandbox(
  child: Deno.ChildProcess,
  { spec, config, parked, clock }: { spec: SandboxSpec; config: string; parked: ParkedLinks; clock: Clock },
): Sandbox {
  const writer = child.stdin.getWriter();
  // It may end before it has read everything; its exit code is the reason.
  const fed = writer.write(new TextEncoder().encode(config)).catch(() => {});
  return supervise({
    spec,
    clock,
    grace_ms: GRACE_MS,
    attach: () => child,
    signal: (name) => void signalProcess(-child.pid, name),
    // Whatever else is in the group ends with its leader, whose number may be another process's from now on.
    onExit: () => void signalProcess(-child.pid, "SIGKILL"),
    ended: ({ code, signal }) => ({ code, ...(signal === null ? {} : { signal }) }),
    async release() {
      await fed;
      await writer.close().catch(() => {});
      await restoreLinks(parked, spec.signal);
    },
  });
}

/** `host:port` for the permission. */
function gatewayAddress({ gateway_url }: BuiltInAgentWorkload, attempted: string): string {
  const url = URL.parse(gateway_url);
  if (url === null || url.protocol !== "http:" || url.pathname !== "/" || url.search !== "" || url.username !== "") {
    throw new TaskdError("usage", `${attempted}: the gateway's address is not http://host:port`);
  }
  return `${url.hostname}:${url.port === "" ? 80 : url.port}`;
}

/** The databases by their absolute names; their folder can only be granted where it lies beside the work folder. */
async function databasesOf(
  { databases }: BuiltInAgentWorkload,
  work_dir: string,
  attempted: string,
): Promise<{ directory: string; files: { name: string; path: string }[] } | undefined> {
  if (databases === undefined) return undefined;
  const directory = await realFolder(databases.directory, attempted);
  if (dirname(directory) !== dirname(work_dir) || basename(directory).includes(",")) {
    throw new TaskdError("usage", `${attempted}: the databases' folder does not lie beside the work folder`);
  }
  return { directory, files: databases.files.map(({ name, file }) => ({ name, path: `${directory}/${file}` })) };
}

async function realFolder(path: string, attempted: string): Promise<string> {
  try {
    const real = await Deno.realPath(path);
    if ((await Deno.stat(real)).isDirectory && real !== "/") return real;
  } catch (error) {
    throw fileError(error, attempted);
  }
  throw new TaskdError("usage", `${attempted}: the work folder ${path} is not a folder`);
}

function failed(message: string, cause?: unknown): TaskdError {
  return new TaskdError("sandbox_failed", message, { cause, hint: "Check that deno is installed and can be executed" });
}
