/** The command `taskd start`. */

import { serveBroker } from "../../broker/serve.ts";
import { findBroker, stopBroker } from "../../broker/client/lifecycle.ts";
import { openLogFile } from "../setup/log_file.ts";
import { preflight } from "../setup/preflight.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { startDetached, type StartResult } from "./_detached.ts";
import { settleFound } from "./_running_tasks.ts";
import { environment, findOptions, livePolicy, terminating } from "./_environment.ts";

export async function run(args: Args, io: Io): Promise<StartResult | undefined> {
  const log_file = args.text("log-file");
  if (args.on("detach")) {
    await settleFound(await findBroker(findOptions(args)), args, io);
    return await startDetached(args, io, log_file ?? `${args.host.directory}/broker.log`);
  }
  using log = log_file === undefined ? undefined : openLogFile(log_file);
  const env = ownEnvironment(args);
  const replaced_pid = await replace(args, io, env);
  const broker = await serveBroker({
    home: args.broker.home,
    env,
    write: (line) => log === undefined ? io.error(line) : log.write(`${line}\n`),
    terminal: log === undefined && io.errorIsTerminal,
    signal: io.signal,
    programs: args.host.programs,
    view: args.host.view,
    open_files: args.plan.open_files,
  });
  const { socket, addr, ui_url } = broker;
  const result: StartResult = { pid: Deno.pid, socket, ui_url, addr, replaced_pid, log: log_file };
  if (io.json) io.outJson({ ok: true, ...result });
  else if (!io.quiet) io.out(render(result));
  await broker.finished;
  return undefined;
}

/** The environment; --socket takes precedence over BROKER_SOCKET. */
function ownEnvironment(args: Args): (name: string) => string | undefined {
  const env = environment(args);
  const named = args.text("socket");
  return (name) => name === "BROKER_SOCKET" ? named ?? env(name) : env(name);
}

/** Ends the running broker, once the current configuration is known to work. */
async function replace(args: Args, io: Io, env: ReturnType<typeof environment>): Promise<number | undefined> {
  const options = findOptions(args);
  const found = await findBroker(options);
  const live = found.state === "serving" ? await livePolicy(found.socket, io.signal) : null;
  const { deno: deno_path, programs: places, view } = args.host;
  await preflight({ home: args.broker.home, env, deno_path, places, view, live, signal: io.signal });
  if (found.state === "none") return undefined;
  await settleFound(found, args, io);
  return await stopBroker({
    ...options,
    terminate: terminating(args, io.signal),
    timeout_ms: args.numberOf("timeout"),
    signal: io.signal,
  });
}

export function render({ pid, socket, addr, replaced_pid, log }: StartResult): string {
  return [
    `The broker serves (pid ${pid}) on ${socket}${addr === undefined ? "" : ` and ${addr}`}`,
    ...(replaced_pid === undefined ? [] : [`It replaced process ${replaced_pid}`]),
    ...(log === undefined ? [] : [`It logs to ${log}`]),
    "Next: taskd submit <repo> <instruction>, and taskd ui for the web pages",
  ].join("\n");
}
