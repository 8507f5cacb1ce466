/**
 * A home directory of the demo's own, and this program run in it: nothing of the operator's configuration, keys and
 * tasks is seen or touched.
 */

import { stringify } from "@std/yaml/stringify";
import { join } from "@std/path/join";
import { BrokerClient } from "../../broker/client/client.ts";
import type { RuntimeName } from "../../broker/settings/settings.ts";
import { TOOL_VARIABLES } from "../../broker/sandbox/host_programs.ts";
import { randomHex, systemRandom } from "../../lib/clock.ts";
import { denoCache } from "../../lib/helper_process.ts";
import { DEMO_VARIABLES } from "../table/demo.ts";
import { DaemonProcess, type OwnProcessOptions, runOwn } from "./own_process.ts";

export type DemoRuntime = "deno" | "podman";

/** The operator's environment, of which the demo's daemons get a part. */
export interface DemoHost {
  home: string;
  env: (name: string) => string | undefined;
}

export interface BrokerHomeOptions {
  /** An empty directory of this user alone: what `HOME` names. */
  dir: string;
  host: DemoHost;
  runtime: RuntimeName;
  model_url: string;
  /** The model's key, which only the broker may have. */
  api_key: string;
  signal: AbortSignal;
  entry: string;
}

/** The model as the configuration names it, and what it costs, USD per million tokens. */
const MODEL = "scripted-model";
export const PRICES = { input: 3, output: 15 };
export const BUDGET_USD = 0.5;
const SECOND_LOOK_PATHS = "billing/**";

export class BrokerHome {
  /** `~/.taskd`. */
  readonly taskd: string;
  readonly socket: string;
  /** Name of its containers' network, and the gateway's address: drawn, so that several demos can be shown at a time. */
  readonly network = `taskd-demo-${randomHex(systemRandom, 4)}`;
  readonly gateway_ip = `10.${systemRandom(2).map((byte, index) => index === 0 ? 192 + byte % 32 : byte).join(".")}.1`;
  /** How a program runs in it. */
  readonly process: OwnProcessOptions;

  private constructor(options: BrokerHomeOptions) {
    const { dir, entry, signal } = options;
    this.taskd = join(dir, ".taskd");
    this.socket = join(dir, "broker.sock");
    this.process = { entry, signal, env: { ...environment(options), HOME: dir }, cwd: dir };
  }

  /** Initialises it as `taskd init` does, and configures it. */
  static async make(options: BrokerHomeOptions): Promise<BrokerHome> {
    // On a first run packages are still to be downloaded, which may take the operator's proxies and certificates.
    await runOwn(["version"], options);
    const home = new BrokerHome(options);
    await runOwn(["init"], home.process);
    await Deno.writeTextFile(join(home.taskd, "config.yaml"), configuration(options, home));
    await Deno.writeTextFile(join(home.taskd, "api-keys.env"), `DEMO_API_KEY=${options.api_key}\n`, { mode: 0o600 });
    return home;
  }

  /** Starts the broker of this home and waits until it serves. */
  start(): Promise<DaemonProcess<BrokerClient>> {
    const { signal } = this.process;
    return DaemonProcess.start(["start"], this.process, () => new BrokerClient({ socket: this.socket }, { signal }));
  }
}

/** Only what a program needs to run: no key and no setting of the operator's. */
function environment({ dir, host: { home, env } }: BrokerHomeOptions): Record<string, string> {
  const kept = [...TOOL_VARIABLES, ...DEMO_VARIABLES].flatMap((name) => {
    const value = env(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    // A container program finds its images by these, or by HOME, which is another one here.
    XDG_CONFIG_HOME: join(home, ".config"),
    XDG_DATA_HOME: join(home, ".local/share"),
    ...Object.fromEntries(kept),
    TMPDIR: dir,
    DENO_DIR: denoCache(home, env),
    NO_COLOR: "1",
  };
}

function configuration({ runtime, model_url }: BrokerHomeOptions, home: BrokerHome): string {
  const { network, gateway_ip, socket } = home;
  return stringify({
    runtime,
    default_agent: "agent_d",
    task_budget_usd: BUDGET_USD,
    notifications: false,
    network,
    gateway_ip,
    broker: { socket },
    compat: { base_url: model_url, api_key_env: "DEMO_API_KEY", model: MODEL, prices: { [MODEL]: PRICES } },
    diff_policy: { second_look_paths: [SECOND_LOOK_PATHS] },
  });
}
