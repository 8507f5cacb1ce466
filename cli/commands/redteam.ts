/** The command `taskd redteam`. */

import { PROMISES } from "../redteam/catalogue.ts";
import { openHostSandboxes, PYTHON } from "../redteam/host_sandboxes.ts";
import { openNetwork } from "../redteam/sandbox_network.ts";
import { type InstalledFiles, RedteamContext, type RedteamOptions } from "../redteam/context.ts";
import { GROUP_TITLES, type SecurityPromise } from "../redteam/security_promise.ts";
import { groupOf, type RedteamReport, runRedteam, type TriedPromise } from "../redteam/run_promises.ts";
import { hasProgram, remedyOf } from "../../broker/sandbox/open_runtime.ts";
import { isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import { denoCache } from "../../lib/helper_process.ts";
import { findBroker } from "../../broker/client/lifecycle.ts";
import { chooseRuntime, describeRuntime, findRuntimes } from "../../broker/sandbox/installed_runtimes.ts";
import type { RuntimeName, Settings } from "../../broker/settings/settings.ts";
import { systemClock, systemRandom } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileErrorCode, isFile } from "../../lib/fs.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import type { Args } from "../plan/args.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { asking, environment, findOptions } from "./_environment.ts";

export interface RedteamResult extends RedteamReport {
  /** Whose sandboxes were attacked; absent where none were. */
  runtime?: string;
}

export async function run(args: Args, io: Io): Promise<RedteamResult> {
  const promises = chosen(args.texts("only"));
  const settings = args.settings;
  const found = await sandboxes(args, io, { settings, promises });
  await using context = await RedteamContext.open({
    temporary: args.host.temporary,
    env: environment(args),
    deno_path: args.host.deno,
    deno_cache_dir: denoCache(args.broker.home, environment(args)),
    ...await installed(args, settings),
    ...found.places,
    programs: args.host.programs,
  });
  const live = io.live();
  let group: string | undefined;
  const report = await runRedteam({
    promises,
    context,
    clock: systemClock,
    signal: io.signal,
    onBegin: (promise) => void live?.show(`trying ${promise.id}`),
    onResult: (tried) => {
      if (io.json) return;
      if (group !== tried.group) io.out(GROUP_TITLES[tried.group] ?? tried.group);
      group = tried.group;
      io.out(lines(tried).join("\n"));
    },
  });
  return { ...report, ...(found.runtime === undefined ? {} : { runtime: found.runtime }) };
}

function chosen(names: readonly string[]): SecurityPromise[] {
  const isOf = (promise: SecurityPromise, name: string) => promise.id === name || groupOf(promise) === name;
  for (const name of names) {
    if (PROMISES.some((promise) => isOf(promise, name))) continue;
    throw new TaskdError("usage", `Cannot try ${JSON.stringify(name)}: there is no such promise, nor group of them`, {
      hint: `Groups are ${Object.keys(GROUP_TITLES).join(", ")}; without --only every promise is tried`,
    });
  }
  return PROMISES.filter((promise) => names.length === 0 || names.some((name) => isOf(promise, name)));
}

type Places = Pick<RedteamOptions, "containers" | "host_sandboxes">;

const none = (why: string): Places => ({ containers: { why }, host_sandboxes: { why } });

/** The sandboxes of the runtime that was chosen, or why there are none. */
async function sandboxes(
  args: Args,
  io: Io,
  { settings, promises }: { settings: Settings; promises: readonly SecurityPromise[] },
): Promise<{ places: Places; runtime?: string }> {
  const requested = args.choice<RuntimeName>("runtime") ?? settings.runtime;
  const groups = promises.map(groupOf);
  if (!groups.includes("container") && !groups.includes("bubblewrap")) return { places: none("not asked for") };
  const deno = { path: args.host.deno, version: Deno.version.deno };
  const names = requested === "deno" ? { names: ["bubblewrap", "deno"] as const } : {};
  const found = await findRuntimes({ ask: asking(args, io.signal), deno, places: args.host.programs, ...names });
  const runtime = chooseRuntime(requested, found, hasProgram(settings, args.host.view));
  if (runtime === undefined) {
    const broken = found.find(({ name }) => name === requested);
    const why = broken ? describeRuntime(broken) : "it is not installed";
    throw new TaskdError("sandbox_failed", `Cannot attack ${requested}: ${why}`, {
      hint: remedyOf(requested, broken) ?? "Repair or install it; taskd doctor checks each runtime",
    });
  }
  // The built-in agent's commands run as an agent does behind bubblewrap, and reach less.
  const tried = runtime.name === "deno" ? runtime.commands : runtime;
  if (tried === undefined) {
    return { places: none("the runtime is deno, which runs no programs without bubblewrap; taskd doctor shows why") };
  }
  const env = environment(args);
  const own = { deno_path: deno.path, deno_cache_dir: denoCache(args.broker.home, env) };
  const options = { runtime: tried, settings, env, ...own, clock: systemClock, random: systemRandom };
  const places = none(`the runtime is ${runtime.name}`);
  if (isContainerRuntime(tried.name)) places.containers = () => openNetwork(options);
  else {places.host_sandboxes = isFile(PYTHON)
      ? (folder) => openHostSandboxes(options, folder)
      : { why: `${PYTHON}, which the attacks are written for, is not installed` };}
  return { places, runtime: describeRuntime(runtime) };
}

/** Where the installed broker keeps its things; nothing without a `~/.taskd`. */
async function installed(args: Args, settings: Settings): Promise<{ installed?: InstalledFiles }> {
  const { directory } = args.host;
  try {
    await Deno.lstat(directory);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return {};
    throw error;
  }
  const broker = await findBroker(findOptions(args));
  return {
    installed: {
      directory,
      audit_root: settings.audit_root,
      squid_run_dir: settings.squid_run_dir,
      ...(broker.state === "serving" ? { live_socket: broker.socket } : {}),
    },
  };
}

const MARKS = { held: "held   ", hole: "HOLE   ", skipped: "skipped" } as const;

function lines({ id, promise, verdict, holes, why }: TriedPromise): string[] {
  const reason = why === undefined ? "" : `: ${sanitizeLine(why)}`;
  return [
    `  ${MARKS[verdict]}  ${promise} (${id})${reason}`,
    ...holes.map((hole) => `           ${sanitizeLine(hole).slice(0, 400)}`),
  ];
}

/** The verdict; the promises were printed as they were tried. */
export function render({ held, holes, skipped, attempts, duration_ms, runtime }: RedteamResult): string {
  const counts = [`${held} held`, `${holes} ${holes === 1 ? "HOLE" : "HOLES"}`, `${skipped} skipped`].join(", ");
  const where = runtime === undefined ? "" : `, sandboxes of ${runtime}`;
  return `${counts}: ${attempts} attacks in ${formatDuration(duration_ms)}${where}`;
}

export function exitCode({ holes }: RedteamResult): number {
  return holes > 0 ? EXIT_FAILURE : EXIT_OK;
}
