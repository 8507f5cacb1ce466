/**
 * Everything `doctor` looks at, in the order in which one would put it right. Nothing is
 * changed, and no secret is shown.
 *
 * @module
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import type { DaemonInfo } from "../../lib/store/daemon_lock.ts";
import type { PolicyView } from "../../broker/settings/policy_view.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import { taskdHome } from "../../broker/settings/load.ts";
import { checkBroker, checkStore } from "./_broker_checks.ts";
import { checkCredentials } from "./_credential_checks.ts";
import { checkClock, checkConfig, checkHome } from "./_home_checks.ts";
import { checkDisk, checkGh, checkGit } from "./_host_checks.ts";
import { checkImages, checkPorts, checkRuntime } from "./_runtime_checks.ts";
import { checked, failedCheck, type HostCheck } from "./check.ts";
import type { AskProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import type { FoundBroker } from "../../broker/client/lifecycle.ts";
import { findRuntimes, type FoundRuntime } from "../../broker/sandbox/runtimes.ts";

/** What the doctor is given; everything outside of the process comes through here. */
export interface DoctorOptions {
  home: string;
  uid: number;
  env: (name: string) => string | undefined;
  ask: AskProgram;
  /** Asks gh, which alone may know the code host's tokens. */
  askGh: AskProgram;
  places?: typeof PROGRAM_PATHS;
  /** The deno program of the embedded runtime. */
  deno: { path: string; version: string };
  untested: (runtime: FoundRuntime) => string | undefined;
  findBroker: () => Promise<FoundBroker>;
  /** The settings of the broker at a socket; null when it does not say them. */
  livePolicy: (socket: string) => Promise<PolicyView | null>;
  /** Who serves the branch store. */
  storeDaemon: () => Promise<DaemonInfo | undefined>;
  clock?: Clock;
}

/** Looks at everything. */
export async function examine(options: DoctorOptions): Promise<HostCheck[]> {
  const { home, uid, env, ask, askGh, places, clock = systemClock } = options;
  const now = clock.now();
  const checks = await checked("home", () => checkHome({ home, uid }));
  const [configChecks, resolved] = await checkConfig({ home, uid, env });
  checks.push(...configChecks, ...await checked("clock", () => [checkClock({ home, now })]));
  const broker = await settled(options.findBroker());
  const isServing = broker.ok && broker.value.state === "serving";
  if (resolved !== undefined) {
    const { settings } = resolved;
    checks.push(...await checked("credentials", () => checkCredentials({ home, env, settings, now })));
    checks.push(...await checked("runtime", () => runtimeChecks(options, { settings, isServing })));
    checks.push(...await checked("disk", () => checkDisk(settings, taskdHome(home))));
  }
  checks.push(await checkGit(ask, places), await checkGh(askGh, places));
  if (broker.ok) {
    const live = broker.value.state === "serving" ? await options.livePolicy(broker.value.socket) : null;
    checks.push(...checkBroker(broker.value, { resolved, live }));
  } else checks.push(failedCheck("broker", broker.error));
  checks.push(await checkStore(options.storeDaemon));
  return checks;
}

async function runtimeChecks(
  options: DoctorOptions,
  known: { settings: Settings; isServing: boolean },
): Promise<HostCheck[]> {
  const { ask, deno, places, untested } = options;
  const { settings, isServing } = known;
  const shared = places === undefined ? {} : { places };
  const found = await findRuntimes({ ask, deno, ...shared });
  const [checks, chosen] = await checkRuntime({ settings, found, ask, untested, ...shared });
  if (chosen === undefined) return checks;
  return [...checks, ...await checkImages(settings, chosen, ask), ...await checkPorts(settings, chosen, isServing)];
}

type Settled<T> = { ok: true; value: T } | { ok: false; error: unknown };

function settled<T>(work: Promise<T>): Promise<Settled<T>> {
  return work.then((value) => ({ ok: true, value }), (error) => ({ ok: false, error }));
}
