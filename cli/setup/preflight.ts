/**
 * What `start` tries before it ends the running broker, so that configuration which cannot
 * work leaves that broker running.
 */

import { type Clock, randomHex, systemClock, systemRandom } from "../../lib/clock.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { createEmptyFile, fileError, fileErrorCode, removeIfPresent } from "../../lib/fs.ts";
import { parseHttpAddress } from "../../lib/http/address.ts";
import { LANES } from "../../broker/agents.ts";
import { parsePriceFile } from "../../broker/gateway/prices.ts";
import { readApiTokens } from "../../broker/http/api_tokens.ts";
import { prepareSocketFolder } from "../../lib/socket_folder.ts";
import type { PolicyView } from "../../broker/settings/policy_view.ts";
import { apiKey, apiTokensPath, metricsToken, readKeys } from "../../broker/settings/keys.ts";
import { loadSettings, type ResolvedSettings, taskdHome } from "../../broker/settings/load.ts";
import { readPrivateFile } from "../../broker/settings/private_file.ts";
import { requireOwnRoots, ROOTS } from "../../broker/settings/roots.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import type { ReadHostView } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import { openRuntime } from "../../broker/sandbox/open_runtime.ts";
import { askProgram, findProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { isThere } from "./images.ts";

export interface PreflightOptions {
  home: string;
  env: (name: string) => string | undefined;
  deno_path: string;
  /** Where the host's programs may be; their fixed places by default. */
  places?: typeof PROGRAM_PATHS;
  /** What sandboxes see of this machine, where its own programs run in them. */
  view: ReadHostView;
  /** The settings of the running broker: an address that it holds cannot be tried. */
  live: PolicyView | null;
  clock?: Clock;
  signal?: AbortSignal | undefined;
}

/**
 * Tries everything; what it makes are the directories of the settings.
 *
 * @throws {TaskdError} what the start itself would fail with.
 */
export async function preflight(options: PreflightOptions): Promise<ResolvedSettings> {
  const { home, env } = options;
  requireHome(taskdHome(home));
  const resolved = await loadSettings({ home, env });
  await tryKeys(resolved.settings, options);
  const prices = `${taskdHome(home)}/prices.json`;
  const text = await readPrivateFile(prices, "own");
  if (text !== undefined) parsePriceFile(text, prices);
  const { settings } = resolved;
  requireOwnRoots(settings, home);
  for (const name of ROOTS) tryDirectory(settings[name]);
  prepareSocketFolder(settings.broker.socket);
  tryAddresses(settings, options.live);
  await tryRuntime(settings, options);
  return resolved;
}

function requireHome(directory: string): void {
  try {
    Deno.statSync(directory);
  } catch (error) {
    if (fileErrorCode(error) !== "not_found") throw fileError(error, `Cannot use ${directory}`);
    throw new TaskdError("not_found", `Cannot start: there is no ${directory}`, { hint: "Run taskd setup first" });
  }
}

async function tryKeys({ compat, broker }: Settings, { home, env }: PreflightOptions): Promise<void> {
  const file = await readKeys(home);
  metricsToken(broker, { env, file });
  await readApiTokens(apiTokensPath(home));
  for (const lane of LANES) apiKey(lane, { env, file, compat_variable: compat.api_key_env });
}

function tryDirectory(path: string): void {
  const probe = `${path}/.probe-${randomHex(systemRandom, 8)}`;
  try {
    Deno.mkdirSync(path, { recursive: true, mode: 0o700 });
    createEmptyFile(probe);
    removeIfPresent(probe);
  } catch (error) {
    throw fileError(error, `Cannot use the directory ${path}`);
  }
}

const ADDRESSES = ["addr", "api_addr", "metrics_addr"] as const;

/** The listeners over TCP, but those whose very address the running broker has for one of its own. */
function tryAddresses({ broker }: Settings, live: PolicyView | null): void {
  const held = ADDRESSES.map((name) => live?.fields.find(({ setting }) => setting === `broker.${name}`)?.value);
  for (const name of ADDRESSES) {
    const address = broker[name];
    if (address === "" || held.includes(address)) continue;
    const { hostname, port } = parseHttpAddress(address);
    try {
      Deno.listen({ hostname, port }).close();
    } catch (cause) {
      throw new TaskdError("unavailable", `Cannot listen on ${address}: ${messageOf(cause)}`, {
        cause,
        hint: `Choose another broker.${name}, or end the program that has it`,
      });
    }
  }
}

/** That it is there, works, has a tested version where only such are allowed, and has its images. */
async function tryRuntime(settings: Settings, options: PreflightOptions): Promise<void> {
  const { env, deno_path, places = PROGRAM_PATHS, view, clock = systemClock, signal } = options;
  const runtime = await openRuntime({
    settings,
    // Of no broker: nothing is started under it.
    owner: "00000000",
    env,
    deno_path,
    deno_cache_dir: "/",
    view,
    run_dir: "/",
    clock,
    places,
    signal,
  });
  await runtime.version();
  if (!isContainerRuntime(runtime.name)) return;
  const path = findProgram(runtime.name, places)!;
  const ask = askProgram({ env, clock, signal });
  for (const setting of ["sandbox_image", "anchor_image"] as const) {
    if (await isThere("image", settings[setting], { name: runtime.name, path }, ask)) continue;
    throw new TaskdError("sandbox_failed", `Cannot run tasks: ${runtime.name} has no image ${settings[setting]}`, {
      hint: `Run taskd setup to build it, or set ${setting}`,
    });
  }
}
