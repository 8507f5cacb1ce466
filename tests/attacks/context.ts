/**
 * What attacks are carried out on: the very parts that a broker is made of, in a folder of their own. Each is
 * exchangeable, so that a test can put a broken one in its place and see that the attack finds it.
 */

import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { sanitizeText } from "../../lib/text/sanitize.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import { Admission, type AdmissionOptions } from "../../broker/admission/admission.ts";
import { classifyAddress } from "../../broker/egress/address_class.ts";
import { EgressProxy, type EgressProxyOptions } from "../../broker/egress/proxy.ts";
import { Gateway, type GatewayOptions } from "../../broker/gateway/gateway.ts";
import { checkAdmin } from "../../broker/http/listener_policy.ts";
import { serveBroker, type ServeBrokerOptions } from "../../broker/serve.ts";
import { verifyTrace } from "../broker/task/verify_trace.ts";
import { webResponse } from "../../broker/web/web.ts";
import type { SecurityPromise } from "../../cli/redteam/security_promise.ts";
import type { ReadTimeout } from "./raw_connections.ts";
import { type BrokerUnderAttack, StagedBroker } from "./staged_broker.ts";

const TIMEOUT_MS = 10_000;

export type CommonPromise = SecurityPromise<AttackContext>;

/** Parts that are functions, attacked as they are. */
const FUNCTIONS = { classifyAddress, checkAdmin, verifyTrace, sanitizeText, webResponse };

export interface Surfaces extends Readonly<typeof FUNCTIONS> {
  proxy(
    address: { hostname: string; port: number },
    options: EgressProxyOptions,
  ): Pick<EgressProxy, "address" | "admit" | "close">;
  gateway(options: GatewayOptions): Pick<Gateway, "address" | "lease" | "close">;
  broker(options: ServeBrokerOptions): Promise<BrokerUnderAttack>;
  admission(options: AdmissionOptions): Promise<Pick<Admission, "claim" | "close">>;
}

const REAL_SURFACES: Surfaces = {
  ...FUNCTIONS,
  proxy: (address, options) => EgressProxy.listen(address, options),
  gateway: (options) => Gateway.start(options),
  broker: (options) => serveBroker(options),
  admission: (options) => Admission.open(options),
};

export interface AttackOptions {
  surfaces?: Partial<Surfaces>;
  /** Where the host's programs may be; by default fixed places. */
  programs?: ServeBrokerOptions["programs"];
  /** How long an answer is waited for; by default 10 s, so that a busy machine is not taken for a hole. */
  timeout_ms?: number;
}

/** A scratch folder and what is attacked; everything is gone once it is disposed of. */
export class AttackContext implements AsyncDisposable {
  readonly surfaces: Surfaces;
  readonly clock: Clock = systemClock;
  readonly random: RandomBytes = systemRandom;
  readonly timeout: ReadTimeout;
  readonly #options: AttackOptions;
  // Short, because the path of a socket is.
  readonly #scratch = Deno.makeTempDirSync({ prefix: "taskd-at-" });
  #folders = 0;
  #broker: Promise<StagedBroker> | undefined;
  #gate: Promise<TaskView> | undefined;

  constructor(options: AttackOptions = {}) {
    this.#options = options;
    this.surfaces = { ...REAL_SURFACES, ...options.surfaces };
    this.timeout = { clock: this.clock, timeout_ms: options.timeout_ms ?? TIMEOUT_MS };
  }

  async folder(): Promise<string> {
    const path = `${this.#scratch}/${++this.#folders}`;
    await Deno.mkdir(path, { mode: 0o700 });
    return path;
  }

  /** A whole broker, started once. */
  broker(): Promise<StagedBroker> {
    return this.#broker ??= this.stageBroker();
  }

  /** That broker, and a task of a hostile agent at its gate, made once. */
  async atGate(): Promise<{ broker: StagedBroker; task: TaskView }> {
    const broker = await this.broker();
    return { broker, task: await (this.#gate ??= broker.taskAtGate()) };
  }

  /** A broker of the caller's, who stops it. */
  async stageBroker(): Promise<StagedBroker> {
    const { clock, random, timeout, surfaces } = this;
    return await StagedBroker.start({
      root: await this.folder(),
      clock,
      random,
      timeout,
      deno_cache_dir: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
      programs: this.#options.programs,
      serve: surfaces.broker,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const broker = await this.#broker?.catch(() => undefined);
    await broker?.stop();
    await Deno.remove(this.#scratch, { recursive: true });
  }
}
