/**
 * Runs a call: parse, plan, narrow the permissions to the command's own set, run it, return the exit status.
 *
 * A command that needs nothing runs inline after every permission is revoked. Any other runs in a Worker that is made
 * with exactly its set; once it is ready this thread drops every permission too.
 */

import { openFileLimit } from "../../lib/descriptors.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { CommandSpec } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { COMMANDS, GLOBAL_FLAGS } from "../table/commands.ts";
import { EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED } from "../text/exit_codes.ts";
import { reportFailure } from "../text/failure.ts";
import { planCall } from "../plan/launch.ts";
import { absolutePath } from "../../lib/real_path.ts";
import { requireTrustedAbove } from "../../lib/trusted_path.ts";
import { hostName } from "../../lib/store/daemon_lock.ts";
import type { LaunchContext } from "../plan/locations.ts";
import { loadInline } from "./modules/inline.ts";
import { parseCall } from "../plan/parse.ts";
import { PERMISSION_KINDS, type PermissionSet, revokeAll, toDenoPermissions } from "../plan/permissions.ts";
import { backendOf, type Load, type LoadedCommand, processIo, runCommand } from "./run.ts";
import { makeStoreDirectory } from "../plan/store_directory.ts";
import type { FromWorker, ToWorker } from "./worker_host.ts";
// Makes the Workers' modules part of the program, so that whatever caches or packs it has them.
import type {} from "./workers/broker.ts";
import type {} from "./workers/local.ts";
import type {} from "./workers/store.ts";

/** Where commands' modules come from; tests put probes in their place. */
export interface DispatchModules {
  /** The Worker's module, by the command's backend. */
  workers: Readonly<Record<LoadedCommand["backend"], URL>>;
  load: Load;
}

const MODULES: DispatchModules = {
  workers: {
    none: new URL("./workers/local.ts", import.meta.url),
    store: new URL("./workers/store.ts", import.meta.url),
    broker: new URL("./workers/broker.ts", import.meta.url),
  },
  load: loadInline,
};

const DAEMONS: ReadonlySet<string> = new Set(["serve", "start"]);

/** Runs the call that `argv` makes and returns its exit status; `entry` is the URL of the program's main module. */
export async function dispatch(
  argv: readonly string[],
  entry: string,
  modules: DispatchModules = MODULES,
): Promise<number> {
  let plan: Plan;
  let spec: CommandSpec;
  let needs: PermissionSet;
  try {
    ({ plan, spec } = await understand(argv, entry));
    if (plan.flags["print-permissions"] === true) return printPermissions(plan, spec.needs(plan));
    for (const directory of directoriesToMake(plan, spec)) await makeStoreDirectory(directory);
    needs = spec.needs(plan);
    requireOwnPlaces(needs, spec);
  } catch (error) {
    return reportFailure(error, processIo({ flags: { json: asksForJson(argv) } }, new AbortController().signal));
  }
  if (spec.uses !== "nothing") return await runInWorker(plan, needs, modules.workers[backendOf(spec)]);
  revokeAll();
  return await runCommand(spec, plan, processIo(plan, new AbortController().signal), modules.load);
}

async function understand(argv: readonly string[], entry: string): Promise<{ plan: Plan; spec: CommandSpec }> {
  const env = (name: string) => Deno.env.get(name);
  const context = { commands: COMMANDS, globals: GLOBAL_FLAGS, env, absolute: absolutePath };
  let call = await parseCall(argv, context);
  if (call.kind === "help") call = await parseCall(["help", ...call.topic, ...(call.all ? ["--all"] : [])], context);
  if (call.kind === "help") throw new Error("Help has no plan");
  const nonEmpty = (name: string) => env(name) || undefined;
  const launch: LaunchContext = { home: nonEmpty("HOME"), entry, env: nonEmpty, absolute: absolutePath, daemonSocket };
  // What the command itself may not ask for.
  const host = { machine: hostName(), ...(DAEMONS.has(call.spec.name) ? { open_files: openFileLimit() } : {}) };
  return { plan: { ...await planCall(call, launch), ...host }, spec: call.spec };
}

/**
 * Makes sure of what leads to the sockets that a command may use, and to what a broker writes: the command itself may
 * inspect nothing above.
 */
function requireOwnPlaces({ net, write }: PermissionSet, { name }: CommandSpec): void {
  for (const item of net) if (item.startsWith("unix:/")) requireTrustedAbove(item.slice("unix:".length), "socket");
  if (name === "start") { for (const path of write) requireTrustedAbove(path, "root"); }
}

/** What the call may write to, and the command itself could not make: it is not allowed to touch what is above. */
function directoriesToMake({ route, store, workspace, positionals, makes_store }: Plan, spec: CommandSpec): string[] {
  // The workspace of a store elsewhere is made with the store, or before it is known that there is one.
  if ((route === "store" && (makes_store || store !== workspace)) || spec.uses === "serve") return [workspace];
  if (spec.uses !== "stores") return [];
  const target = positionals.target ?? "";
  return target.startsWith("/") ? [target] : [];
}

/** The words could not be read, so this is all there is to tell whether a program or a person is calling. */
function asksForJson(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return argv.slice(0, end < 0 ? undefined : end).some((word) => /^--?json(=true)?$/.test(word));
}

function printPermissions(plan: Plan, set: PermissionSet): number {
  const io = processIo(plan, new AbortController().signal);
  if (io.json) io.outJson({ ok: true, command: plan.command, permissions: set });
  else for (const kind of PERMISSION_KINDS) io.out(`${kind.padEnd(7)}${set[kind].join(" ") || "nothing"}`);
  return EXIT_OK;
}

function runInWorker(plan: Plan, needs: PermissionSet, module: URL): Promise<number> {
  return new Promise((resolve) => {
    const worker = new Worker(module, {
      type: "module",
      name: plan.command,
      deno: { permissions: toDenoPermissions(needs) },
    });
    const send = (message: ToWorker) => worker.postMessage(message);
    // The first Ctrl-C or SIGTERM asks the command to stop and clean up; a Ctrl-C after that ends the process. A further
    // SIGTERM does not: two that replace a broker may each send one, and what it keeps has to be put away all the same.
    let asked: number | undefined;
    const stopListening = onSignals((code) => {
      if (asked !== undefined) return code === EXIT_INTERRUPTED ? resolve(code) : undefined;
      asked = code;
      send({ type: "interrupt" });
    });
    // By default it ends the process in silence; with a listener, a write beyond ulimit -f fails with EFBIG.
    Deno.addSignalListener("SIGXFSZ", () => {});
    const finish = (code: number) => {
      stopListening();
      resolve(code === EXIT_INTERRUPTED ? asked ?? code : code);
    };
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === "exit") return finish(data.code);
      // Until now the runtime read the Worker's modules with this thread's permissions.
      revokeAll();
      send({ type: "run", plan });
    };
    worker.onerror = (event) => {
      event.preventDefault();
      const error = new TaskdError("internal", `The command's thread failed: ${event.message}`, {
        hint: "This is a defect in taskd; please report it with this line",
      });
      reportFailure(error, processIo(plan, new AbortController().signal));
      finish(EXIT_FAILURE);
    };
  });
}

/** Calls back with the exit status that a signal stands for; returns what ends that. */
function onSignals(callback: (code: number) => void): () => void {
  const listeners = ([["SIGINT", EXIT_INTERRUPTED], ["SIGTERM", EXIT_TERMINATED]] as const).map(([signal, code]) => {
    const listener = () => callback(code);
    Deno.addSignalListener(signal, listener);
    return { signal, listener };
  });
  return () => {
    for (const { signal, listener } of listeners) Deno.removeSignalListener(signal, listener);
  };
}

async function daemonSocket(workspace: string): Promise<string | undefined> {
  const { readDaemonInfo } = await import("../../lib/store/daemon_lock.ts");
  return (await readDaemonInfo(workspace))?.socket;
}
