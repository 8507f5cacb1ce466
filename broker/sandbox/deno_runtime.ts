/**
 * The embedded runtime: the built-in agent in two Deno processes, each held by Deno's permissions and by limits of the
 * system.
 *
 * The agent's process may connect to the gateway's address and port, and has no file: native code that asks for no
 * permission, such as SQLite's, the storage of browsers and their cache, finds that it can write none either. It has no
 * environment, no subprocesses, no system information, no native code of its own, no imports except the agent's own
 * modules, and a bounded heap.
 *
 * What it would do with files it has done by the other process, which has the task's work folder, and the folder of its
 * databases where it has some, and no network. Symbolic links are put aside meanwhile, because permissions follow them.
 *
 * Where there is bubblewrap, the agent may have commands run, each in a sandbox that reaches nothing.
 */

import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { createEmptyFile, fileErrorCode, lstatIfPresent, removeFolder, withFileError } from "../../lib/fs.ts";
import { MAX_CALLS } from "../agent/calls.ts";
import { type AgentDatabase, DEFAULT_MAX_TURNS, encodeConfig } from "../agent/config.ts";
import { systemPrompt } from "../agent/system_prompt.ts";
import { toolDefinitions } from "../agent/tools.ts";
import { grownBytes } from "../task/database_schema.ts";
import { runProcess, withLimits } from "../../lib/process.ts";
import { type Helper, helperArgs, helperEnv, helperPrefix } from "../../lib/helper_process.ts";
import { AgentCommands, linksOf } from "./_agent_commands.ts";
import type { BubblewrapRuntime } from "./bubblewrap/bubblewrap_runtime.ts";
import { embeddedSandbox } from "./_embedded_sandbox.ts";
import { parkLinks, restoreLinks } from "./_parked_links.ts";
import { MARKER, type RunningProcess, sweepProcesses } from "./processes.ts";
import type {
  BuiltInAgentWorkload,
  ListenAddresses,
  Sandbox,
  SandboxRuntime,
  SandboxRuntimeName,
  SandboxSpec,
} from "./runtime.ts";
// Makes them part of the program, so that caches and packages include them.
import type {} from "../agent/main.ts";
import type {} from "../agent/files_main.ts";

/** A runtime that does not answer is none. */
const VERSION_DEADLINE_MS = 30_000;
const MAX_VERSION_BYTES = 64 << 10;
/** V8 does not start with less. */
const MIN_HEAP_MIB = 32;
/** A call of the largest size, some times over. */
const FILES_HEAP_MIB = 256;
/** Long enough to load the agent's modules; no time that anything waits for. */
const WARM_DEADLINE_MS = 30_000;
/** What deno may read of its own cache for the agent: compiled modules, and those of packages. */
const CACHED = ["gen", "remote"];
/** Links the first two arguments into the folder of the third, and becomes the rest: Deno's own call needs every permission. */
const LINK_AND_RUN = '/bin/ln -s -- "$1" "$2" "$3" && shift 3 && exec "$@"';

const AGENT = { name: "agent", module: import.meta.resolve("../agent/main.ts"), folders: [] } as const;

export interface DenoRuntimeOptions {
  deno_path: string;
  /** Deno's cache (DENO_DIR), absolute; the agent cannot use it, the runtime below it reads of it. */
  cache_dir: string;
  owner: string;
  clock: Clock;
  /** What commands run in, which reaches nothing; without it the agent has none. */
  commands?: BubblewrapRuntime | undefined;
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

  /**
   * Nothing is shared but the compiled modules: the agent's process could not keep them, and would compile them at each
   * start.
   */
  async prepare(): Promise<{ listen: ListenAddresses }> {
    await this.#options.commands?.prepare();
    if (!Deno.build.standalone) await this.#warm();
    return { listen: { hostname: "127.0.0.1", gateway_port: 0, proxy_port: 0 } };
  }

  async close(): Promise<void> {
    await this.#options.commands?.close();
  }

  async version(): Promise<string> {
    const { cache_dir, deno_path } = this.#options;
    // A compiled program is its own runtime, and knows no flag of deno.
    if (Deno.build.standalone) return Deno.version.deno;
    const attempted = "Cannot learn the embedded runtime's version";
    const { code, stdout } = await runProcess(deno_path, {
      args: ["--version"],
      env: helperEnv(cache_dir),
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
    if (await isMissing(this.#options.deno_path)) throw failed(`${attempted}: there is no ${this.#options.deno_path}`);
    const cache_dir = `${work_dir}.deno`;
    const parked = await parkLinks(work_dir, spec.signal);
    let agent: Deno.ChildProcess;
    try {
      await this.#makeCache(cache_dir);
      agent = this.#startAgent(spec, gateway, cache_dir);
    } catch (cause) {
      await removeFolder(cache_dir);
      await restoreLinks(parked, spec.signal);
      throw cause instanceof TaskdError ? cause : failed(`${attempted}: its process cannot be started`, cause);
    }
    const max_turns = workload.max_turns ?? DEFAULT_MAX_TURNS;
    const links = linksOf(parked, work_dir);
    const { clock, commands: runtime } = this.#options;
    const commands = runtime && new AgentCommands({ runtime, spec, work_dir, parked, clock });
    const runs = commands !== undefined;
    const files = databases?.files ?? [];
    const { gateway_url, token, model, instruction } = workload;
    const configs = {
      agent: encodeConfig({
        gateway_url,
        token,
        model,
        system_prompt: systemPrompt({ max_turns, links: links.length, databases: files.map(({ name }) => name), runs }),
        instruction,
        tools: toolDefinitions({ databases: files.length > 0, runs }),
        max_turns,
      }),
      files: encodeConfig({ work_dir, links, databases: files, runs }),
    };
    const startFiles = () => this.#startFiles(spec.task_id, work_dir, databases);
    const max_calls = max_turns * MAX_CALLS;
    return embeddedSandbox({ agent, startFiles, spec, configs, max_calls, parked, commands, cache_dir, clock });
  }

  /**
   * Ends what an earlier process of this broker left. A process is known by its whole command line: this deno program
   * first, the marker with this owner and a task id last; and it is listed again right before it is killed.
   */
  async sweep(keep: ReadonlySet<string>): Promise<string[]> {
    const commands = new Set(await this.#options.commands?.sweep(keep));
    return [...commands.union(await sweepProcesses(this.#options, keep, (process) => this.#taskOf(process)))];
  }

  #taskOf({ command_line }: RunningProcess): string | undefined {
    const { deno_path, owner } = this.#options;
    if (!command_line.startsWith(`${deno_path} ${helperPrefix()}`)) return undefined;
    const last = command_line.slice(command_line.lastIndexOf(" ") + 1);
    const start = `${MARKER}${owner}:`;
    const task_id = last.startsWith(start) ? last.slice(start.length) : "";
    return /^[0-9a-f]{32}$/.test(task_id) ? task_id : undefined;
  }

  #startAgent({ task_id, memory_bytes }: SandboxSpec, net: string, own_cache_dir: string): Deno.ChildProcess {
    const { agent, cache_dir, deno_path } = this.#options;
    const args = helperArgs({
      ...AGENT,
      ...agent,
      net,
      heap_mib: Math.max(MIN_HEAP_MIB, Math.floor(memory_bytes / (1 << 20))),
      marker: this.#marker(task_id),
    });
    const cached = CACHED.map((name) => `${cache_dir}/${name}`);
    const run = ["-c", LINK_AND_RUN, "sh", ...cached, `${own_cache_dir}/`, deno_path, ...args];
    return spawn("/bin/sh", run, { cwd: "/", cache_dir: own_cache_dir, file_bytes: 0 });
  }

  #startFiles(task_id: string, work_dir: string, databases: TaskFiles | undefined): Deno.ChildProcess {
    const { cache_dir, deno_path } = this.#options;
    const args = helperArgs({
      name: "files",
      module: import.meta.resolve("../agent/files_main.ts"),
      // The process starts in the work folder. By its name it could not be granted if that has a comma.
      folders: [".", ...(databases === undefined ? [] : [`../${basename(databases.directory)}`])],
      heap_mib: FILES_HEAP_MIB,
      marker: this.#marker(task_id),
    });
    const file_bytes = databases?.max_bytes ?? grownBytes(0);
    try {
      return spawn(deno_path, args, { cwd: work_dir, cache_dir, file_bytes });
    } catch (cause) {
      throw failed("The process that has the task's files cannot be started", cause);
    }
  }

  #marker(task_id: string): string {
    return `${MARKER}${this.#options.owner}:${task_id}`;
  }

  /**
   * Makes a DENO_DIR of its own for the agent's process. In the one that all share, the runtime, which may write nothing,
   * would empty its databases at each start, and what tasks left in their storage could be read.
   */
  async #makeCache(path: string): Promise<void> {
    // A broker that was killed may have left it.
    await removeFolder(path);
    await Deno.mkdir(path, { mode: 0o700 });
    // In the place of the folder of localStorage and caches.
    createEmptyFile(`${path}/location_data`);
  }

  /** Has deno compile the agent's modules where that was never done: with no configuration, the agent ends at once. */
  async #warm(): Promise<void> {
    const { cache_dir, clock, deno_path } = this.#options;
    const run = runProcess(deno_path, {
      args: helperArgs({ ...AGENT, heap_mib: FILES_HEAP_MIB }),
      env: helperEnv(cache_dir),
      deadline_ms: WARM_DEADLINE_MS,
      max_bytes: MAX_VERSION_BYTES,
      on_excess: "cut",
      clock,
      attempted: "Cannot start the built-in agent",
      signal: undefined,
    });
    // What does not work will be reported by the task that needs it.
    await run.catch(() => {});
  }
}

/** A write beyond `file_bytes` fails: a process that it ended could not say why. */
function spawn(
  path: string,
  helper_args: readonly string[],
  { cwd, cache_dir, file_bytes }: { cwd: string; cache_dir: string; file_bytes: number },
): Deno.ChildProcess {
  const { program, args } = withLimits(path, helper_args, { file_bytes, outlives_file_bytes: true });
  return new Deno.Command(program, {
    args,
    cwd,
    env: helperEnv(cache_dir),
    clearEnv: true,
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** `host:port` for the permission. */
function gatewayAddress({ gateway_url }: BuiltInAgentWorkload, attempted: string): string {
  const url = URL.parse(gateway_url);
  if (url === null || url.protocol !== "http:" || url.pathname !== "/" || url.search !== "" || url.username !== "") {
    throw new TaskdError("usage", `${attempted}: the gateway's address is not http://host:port`);
  }
  return `${url.hostname}:${url.port === "" ? 80 : url.port}`;
}

interface TaskFiles {
  directory: string;
  files: AgentDatabase[];
  /** Of the largest file that may come of them. */
  max_bytes: number;
}

/** The databases by their absolute names; their folder can only be granted where it lies beside the work folder. */
async function databasesOf(
  { databases }: BuiltInAgentWorkload,
  work_dir: string,
  attempted: string,
): Promise<TaskFiles | undefined> {
  if (databases === undefined) return undefined;
  const directory = await realFolder(databases.directory, attempted);
  if (dirname(directory) !== dirname(work_dir) || basename(directory).includes(",")) {
    throw new TaskdError("usage", `${attempted}: the databases' folder does not lie beside the work folder`);
  }
  const files = databases.files.map(({ name, file }) => ({ name, path: `${directory}/${file}` }));
  const sizes = files.map(({ path }) => lstatIfPresent(path)?.size ?? 0);
  return { directory, files, max_bytes: grownBytes(Math.max(0, ...sizes)) };
}

/** Whether a program is seen not to be there; a shell that starts it would only say so later. */
async function isMissing(path: string): Promise<boolean> {
  try {
    return !(await Deno.stat(path)).isFile;
  } catch (error) {
    return fileErrorCode(error) === "not_found";
  }
}

async function realFolder(path: string, attempted: string): Promise<string> {
  const folder = await withFileError(attempted, async () => {
    const real = await Deno.realPath(path);
    return (await Deno.stat(real)).isDirectory && real !== "/" ? real : undefined;
  });
  if (folder !== undefined) return folder;
  throw new TaskdError("usage", `${attempted}: the work folder ${path} is not a folder`);
}

function failed(message: string, cause?: unknown): TaskdError {
  return new TaskdError("sandbox_failed", message, { cause, hint: "Check that deno is installed and can be executed" });
}
