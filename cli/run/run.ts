/**
 * Runs one planned command, inside a Worker or inline: loads its module, does the work, prints the result, and turns
 * whatever happens into an exit status.
 */

import { Args } from "../plan/args.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { CommandSpec } from "../plan/command_spec.ts";
import type { BrokerModule, CommandModule, LocalModule } from "../plan/command_module.ts";
import { EXIT_OK } from "../text/exit_codes.ts";
import { reportFailure } from "../text/failure.ts";
import { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { brokerOf, type BrokerPlace, type Plan } from "../plan/plan.ts";

/** The loaded module of a command, with what gives it its backend. */
export type LoadedCommand =
  | { backend: "none"; module: LocalModule }
  | { backend: "store"; module: CommandModule; open(plan: Plan, signal: AbortSignal): Promise<Operations> }
  | { backend: "broker"; module: BrokerModule; client(place: BrokerPlace, signal: AbortSignal): BrokerClient };

/** What a command needs loaded: the operations of a store, the client of the broker, or neither. */
export function backendOf({ uses }: CommandSpec): LoadedCommand["backend"] {
  if (uses === "broker") return "broker";
  return uses === "store" || uses === "branches" || uses === "daemon" ? "store" : "none";
}

export type Load = (spec: CommandSpec) => Promise<LoadedCommand>;

export function processIo(plan: Pick<Plan, "flags" | "dumb">, signal: AbortSignal): Io {
  return new Io({
    stdout: Deno.stdout,
    stderr: Deno.stderr,
    json: plan.flags.json === true,
    quiet: plan.flags.quiet === true,
    no_color: Deno.noColor,
    dumb: plan.dumb === true,
    signal,
    now: () => performance.now(),
  });
}

/** Runs a command and returns its exit status. Never throws. */
export async function runCommand(spec: CommandSpec, plan: Plan, io: Io, load: Load): Promise<number> {
  try {
    const args = new Args(plan);
    const loaded = await load(spec);
    const result = await runLoaded(loaded, plan, args, io).finally(() => io.clearProgress());
    if (result === undefined) return EXIT_OK;
    await print(spec, result, io, () => loaded.module.render?.(result, io, args));
    return loaded.module.exitCode?.(result) ?? EXIT_OK;
  } catch (error) {
    return reportFailure(error, io);
  }
}

async function runLoaded(loaded: LoadedCommand, plan: Plan, args: Args, io: Io): Promise<object | undefined> {
  if (loaded.backend === "none") return await loaded.module.run(args, io);
  if (loaded.backend === "broker") {
    return await loaded.module.run(args, io, loaded.client(brokerOf(plan), io.signal));
  }
  const ops = await loaded.open(plan, io.signal);
  try {
    return await loaded.module.run(args, io, ops);
  } finally {
    await ops.close();
  }
}

async function print(
  spec: CommandSpec,
  result: object,
  io: Io,
  render: () => string | Promise<string> | undefined,
): Promise<void> {
  if (io.json) io.outJson({ ok: true, ...result });
  else if (spec.output === "data" || !io.quiet) {
    const text = await render();
    if (text !== undefined) io.out(text);
  }
}
