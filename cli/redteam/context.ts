/**
 * What attacks are carried out on: the very parts that a broker of this installation is made of, in a folder of their
 * own, and the installed broker's files, which are only inspected.
 *
 * The parts are exchangeable, so that a test can replace each with a broken one and see that the attack finds it.
 */

import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import { fileError } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { sanitizeText } from "../../lib/text/sanitize.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import { Admission, type AdmissionOptions } from "../../broker/admission/admission.ts";
import { classifyAddress } from "../../broker/egress/address_class.ts";
import { EgressProxy, type EgressProxyOptions } from "../../broker/egress/proxy.ts";
import { Gateway, type GatewayOptions } from "../../broker/gateway/gateway.ts";
import { collectFacts } from "../../broker/git/diff_facts.ts";
import { parseRepo } from "../../broker/git/repo_url.ts";
import { checkAdmin } from "../../broker/http/listener_policy.ts";
import { DenoRuntime, type DenoRuntimeOptions } from "../../broker/sandbox/deno_runtime.ts";
import type { SandboxRuntime } from "../../broker/sandbox/runtime.ts";
import { serveBroker, type ServeBrokerOptions } from "../../broker/serve.ts";
import { readKeys } from "../../broker/settings/keys.ts";
import { verifyTrace } from "../../broker/task/trace.ts";
import { webResponse } from "../../broker/web/web.ts";
import type { OpenNetwork } from "./sandbox_network.ts";
import type { ReadTimeout } from "./raw_connections.ts";
import { type BrokerUnderAttack, StagedBroker } from "./staged_broker.ts";

const TIMEOUT_MS = 10_000;
/** How long the end of everything may take: a broker, its sandboxes, and a network of containers. */
const END_MS = 60_000;

/** Parts that are functions, attacked as they are. */
const FUNCTIONS = {
  classifyAddress,
  collectFacts,
  parseRepo,
  checkAdmin,
  readKeys,
  verifyTrace,
  sanitizeText,
  webResponse,
};

export interface Surfaces extends Readonly<typeof FUNCTIONS> {
  proxy(
    address: { hostname: string; port: number },
    options: EgressProxyOptions,
  ): Pick<EgressProxy, "address" | "admit" | "close">;
  gateway(options: GatewayOptions): Promise<Pick<Gateway, "address" | "lease" | "close">>;
  embedded(options: DenoRuntimeOptions): Pick<SandboxRuntime, "start">;
  broker(options: ServeBrokerOptions): Promise<BrokerUnderAttack>;
  admission(options: AdmissionOptions): Promise<Pick<Admission, "claim" | "close">>;
  /** Sets the umask of this whole process, and returns the one before. */
  umask(mask: number): number;
}

const INSTALLED_SURFACES: Surfaces = {
  ...FUNCTIONS,
  proxy: (address, options) => EgressProxy.listen(address, options),
  gateway: (options) => Gateway.start(options),
  embedded: (options) => new DenoRuntime(options),
  broker: (options) => serveBroker(options),
  admission: (options) => Admission.open(options),
  umask: (mask) => Deno.umask(mask),
};

/** Where the installed broker keeps its things; only their modes are inspected. */
export interface InstalledFiles {
  /** `~/.taskd`. */
  directory: string;
  audit_root: string;
  squid_run_dir: string;
  /** The socket of the broker that runs; undefined when none does. */
  live_socket?: string;
}

export interface RedteamOptions {
  /** An existing directory below which the scratch folder is made. */
  temporary: string;
  /** A variable of the environment: what runs sandboxes finds its own state by it. No key is asked for. */
  env: (name: string) => string | undefined;
  deno_path: string;
  deno_cache_dir: string;
  /** Where the host's programs may be; by default fixed places. */
  programs?: ServeBrokerOptions["programs"];
  /** The installed broker; absent when nothing is set up. */
  installed?: InstalledFiles;
  /** Containers of this host, or why there are none. */
  containers: OpenNetwork | { why: string };
  surfaces?: Partial<Surfaces>;
  clock?: Clock;
  random?: RandomBytes;
  /** How long an answer is waited for; by default 10 s, so that a busy machine is not taken for a hole. */
  timeout_ms?: number;
}

/** A scratch folder and what is attacked; everything is gone once it is disposed of. */
export class RedteamContext implements AsyncDisposable {
  readonly scratch: string;
  readonly options: RedteamOptions;
  readonly surfaces: Surfaces;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly timeout: ReadTimeout;
  readonly #cleanup = new AsyncDisposableStack();
  readonly #kept = new Map<string, Promise<unknown>>();
  #folders = 0;

  private constructor(scratch: string, options: RedteamOptions) {
    this.scratch = scratch;
    this.options = options;
    this.surfaces = { ...INSTALLED_SURFACES, ...options.surfaces };
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? systemRandom;
    this.timeout = { clock: this.clock, timeout_ms: options.timeout_ms ?? TIMEOUT_MS };
  }

  static async open(options: RedteamOptions): Promise<RedteamContext> {
    try {
      // Short, because the path of a socket is.
      const scratch = await Deno.makeTempDir({ dir: options.temporary, prefix: "taskd-rt-" });
      return new RedteamContext(await Deno.realPath(scratch), options);
    } catch (error) {
      throw fileError(error, `Cannot make a folder in ${options.temporary}`);
    }
  }

  async folder(): Promise<string> {
    const path = `${this.scratch}/${++this.#folders}`;
    await Deno.mkdir(path, { mode: 0o700 });
    return path;
  }

  /** Makes something that several promises share, once; one that cannot be made fails each of them. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const known = this.#kept.get(name) as Promise<T> | undefined;
    if (known !== undefined) return known;
    const made = make();
    this.#kept.set(name, made);
    return made;
  }

  /** Ends something with the context, the latest first. */
  defer(end: () => void | Promise<void>): void {
    this.#cleanup.defer(end);
  }

  /** A whole broker with a task of its own, started once. */
  broker(): Promise<StagedBroker> {
    return this.once("broker", async () => {
      const broker = await this.stageBroker();
      this.defer(() => broker.stop());
      return broker;
    });
  }

  /** That broker, and a task of a hostile agent at its gate, made once. */
  async atGate(): Promise<{ broker: StagedBroker; task: TaskView }> {
    const broker = await this.broker();
    return { broker, task: await this.once("gate", () => broker.taskAtGate()) };
  }

  /** Another whole broker, which the caller stops. */
  async stageBroker(): Promise<StagedBroker> {
    const { clock, random, timeout, options: { deno_cache_dir, programs }, surfaces } = this;
    const root = await this.folder();
    return await StagedBroker.start({ root, clock, random, timeout, deno_cache_dir, programs, serve: surfaces.broker });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      // What an attack has left hanging is not waited for.
      await withDeadline(this.#cleanup.disposeAsync(), this.clock, END_MS);
    } finally {
      await removeTree(this.scratch, this.clock);
    }
  }
}
