/**
 * Runs commands in this process that a file of tests has run as a process before, in the same shape: the command, the names
 * of its flags, and whether a daemon works. A start costs more than most commands do; the process itself, its permissions,
 * streams and exit status are the same for calls of one shape.
 *
 * Nothing of this process is changed: the directory, the environment and the streams are given. What asks the process for
 * them stays a process: commands that set up or serve, buckets, stdin, failures of the call's own words.
 */

import { planCall } from "../../../cli/plan/launch.ts";
import { parseCall } from "../../../cli/plan/parse.ts";
import type { Plan } from "../../../cli/plan/plan.ts";
import type { CommandSpec } from "../../../cli/plan/command_spec.ts";
import { makeStoreDirectory } from "../../../cli/plan/store_directory.ts";
import { loadForBroker } from "../../../cli/run/modules/broker.ts";
import { loadForStore } from "../../../cli/run/modules/store.ts";
import { backendOf, runCommand } from "../../../cli/run/run.ts";
import { COMMANDS, GLOBAL_FLAGS } from "../../../cli/table/commands.ts";
import { Io } from "../../../cli/text/io.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { absolutePath } from "../../../lib/real_path.ts";
import { hostName, readDaemonInfo } from "../../../lib/store/daemon_lock.ts";
import type { Outcome } from "./taskd.ts";

/** Where a call runs. */
export interface CallPlace {
  /** Its directory. */
  base: string;
  /** Its environment; nothing else of this process's is read. */
  env: Readonly<Record<string, string>>;
}

/** Shapes of calls that ran as processes, in this file of tests. */
const started = new Set<string>();

/** What the call comes to; undefined for one that has to be a process, which the first of its shape is. */
export async function repeatedHere(words: readonly string[], place: CallPlace): Promise<Outcome | undefined> {
  const call = await planned(words, place);
  if (call === undefined) return undefined;
  const { spec, plan } = call;
  const flags = Object.entries(plan.flags).map(([name, value]) =>
    typeof value === "boolean" ? `${name}=${value}` : name
  );
  const shape = [spec.name, plan.route, ...flags.sort(), ...Object.keys(plan.positionals)].join(" ");
  if (started.has(shape)) return await runHere(spec, plan);
  started.add(shape);
  return undefined;
}

async function planned(
  words: readonly string[],
  { base, env }: CallPlace,
): Promise<{ spec: CommandSpec; plan: Plan } | undefined> {
  const variable = (name: string) => env[name] || undefined;
  const absolute = (path: string) => absolutePath(path.startsWith("/") ? path : `${base}/${path}`);
  const context = { commands: COMMANDS, globals: GLOBAL_FLAGS, env: (name: string) => env[name], absolute };
  try {
    const call = await parseCall(words, context);
    if (call.kind === "help" || backendOf(call.spec) === "none" || ["mcp", "watch"].includes(call.spec.name)) {
      return undefined;
    }
    const plan = await planCall(call, {
      home: variable("HOME"),
      entry: "",
      env: variable,
      absolute,
      daemonSocket: async (workspace) => (await readDaemonInfo(workspace))?.socket,
    });
    const is_process = plan.s3 !== undefined || plan.flags["print-permissions"] === true || words.includes("-");
    return is_process ? undefined : { spec: call.spec, plan: { ...plan, machine: hostName() } };
  } catch (error) {
    if (error instanceof TaskdError) return undefined;
    throw error;
  }
}

async function runHere(spec: CommandSpec, plan: Plan): Promise<Outcome> {
  const streams = { stdout: "", stderr: "" };
  const sink = (name: keyof typeof streams) => {
    const decoder = new TextDecoder();
    return {
      writeSync: (bytes: Uint8Array) => (streams[name] += decoder.decode(bytes, { stream: true }), bytes.length),
      isTerminal: () => false,
    };
  };
  const io = new Io({
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    json: plan.flags.json === true,
    quiet: plan.flags.quiet === true,
    no_color: true,
    signal: new AbortController().signal,
    now: () => performance.now(),
  });
  if (plan.route === "store" && (plan.makes_store || plan.store !== plan.workspace)) {
    await makeStoreDirectory(plan.workspace);
  }
  const code = await runCommand(spec, plan, io, backendOf(spec) === "broker" ? loadForBroker : loadForStore);
  return { code, ...streams };
}
