/** The checks of `doctor`, in the order of repair. Nothing is changed, and no secret is shown. */

import { type Clock, systemClock } from "../../lib/clock.ts";
import type { UntrustedPlace } from "../../broker/settings/own_places.ts";
import type { PolicyView } from "../../broker/settings/policy_view.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import { taskdHome } from "../../broker/settings/load.ts";
import { checkBroker, checkStore } from "./_broker_checks.ts";
import { checkCredentials, checkEndpoint } from "./_credential_checks.ts";
import { checkClock, checkConfig, checkHome, checkRecords } from "./_home_checks.ts";
import { checkDisk, checkExchangeable, checkGh, checkGit } from "./_host_checks.ts";
import { checkImages, checkPorts, checkRuntime } from "./_runtime_checks.ts";
import { checked, type FoundStore, type HostCheck } from "./check.ts";
import type { AskProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import type { ReadHostView } from "../../broker/sandbox/bubblewrap/host_view.ts";
import type { FoundBroker } from "../../broker/client/lifecycle.ts";
import { findRuntimes, type FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";

export interface DoctorOptions {
  home: string;
  uid: number;
  env: (name: string) => string | undefined;
  ask: AskProgram;
  /** Asks gh, which alone may know the code host's tokens. */
  askGh: AskProgram;
  places?: typeof PROGRAM_PATHS;
  /** Programs that are there and not used, since another user of the machine could exchange them. */
  exchangeable_programs: readonly string[];
  /** The deno program of the embedded runtime. */
  deno: { path: string; version: string };
  untested: (runtime: FoundRuntime) => string | undefined;
  /** What sandboxes see of this machine, where its own programs run in them. */
  view: ReadHostView;
  findBroker: () => Promise<FoundBroker>;
  /** The settings of the broker at a socket; null when its answer has none. */
  livePolicy: (socket: string) => Promise<PolicyView | null>;
  /** What another user of the machine could decide about. */
  untrusted: () => readonly UntrustedPlace[] | Promise<readonly UntrustedPlace[]>;
  /** The daemon of the branch store; undefined when none runs. */
  storeDaemon: () => Promise<FoundStore | undefined>;
  clock?: Clock;
}

export async function examine(options: DoctorOptions): Promise<HostCheck[]> {
  const { home, uid, env, ask, askGh, places, clock = systemClock } = options;
  const now = clock.now();
  const checks = await checked("home", async () => checkHome(home, await options.untrusted()));
  const [configChecks, resolved] = await checkConfig({ home, uid, env });
  checks.push(...configChecks, ...await checked("clock", () => checkClock({ home, now })));
  const finding = options.findBroker();
  const isServing = await finding.then(({ state }) => state === "serving", () => false);
  if (resolved !== undefined) {
    const { settings } = resolved;
    checks.push(...await checked("credentials", () => checkCredentials({ home, env, settings, now })));
    checks.push(...await checked("endpoint", () => checkEndpoint(settings), "warn"));
    checks.push(...await checked("runtime", () => runtimeChecks(options, { settings, isServing })));
    checks.push(...await checked("disk", () => checkDisk(settings, taskdHome(home))));
    checks.push(...await checked("records", () => checkRecords({ home, audit_root: settings.audit_root })));
  }
  checks.push(
    ...await checked("programs", () => checkExchangeable(options.exchangeable_programs), "warn"),
    ...await checked("git", () => checkGit(ask, places)),
    ...await checked("gh", () => checkGh(askGh, places), "warn"),
    ...await checked("broker", async () => {
      const found = await finding;
      const live = found.state === "serving" ? await options.livePolicy(found.socket) : null;
      return checkBroker(found, { resolved, live });
    }),
    ...await checked("branch store", async () => checkStore(await options.storeDaemon()), "warn"),
  );
  return checks;
}

async function runtimeChecks(
  { ask, deno, places, untested, view }: DoctorOptions,
  { settings, isServing }: { settings: Settings; isServing: boolean },
): Promise<HostCheck[]> {
  const shared = places === undefined ? {} : { places };
  const found = await findRuntimes({ ask, deno, ...shared });
  const [checks, chosen] = await checkRuntime({ settings, found, ask, untested, view, ...shared });
  if (chosen === undefined) return checks;
  return [...checks, ...await checkImages(settings, chosen, ask), ...await checkPorts(settings, chosen, isServing)];
}
