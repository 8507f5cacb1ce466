/**
 * One task's right to use the gateway: its token, its caps and what it has spent.
 *
 * Checking and claiming happen in one turn of the event loop, so that no burst gets past a cap, and every claim is
 * settled exactly once, however its request ends. The budget is soft: it is checked when a request begins and when it goes out, and never
 * ends a running one, so that at most the requests in flight overshoot it.
 */

import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import type { Lane } from "../agents.ts";
import { isBeyond, isSpent, usdText } from "./usd_limit.ts";
import { type Metered, totalInput } from "./metering/usage.ts";
import type { RouteRow } from "./routes.ts";
import { Refusal } from "./refusal.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** Requests of a task when `task_max_requests` is 0; the contract's number. */
export const DEFAULT_MAX_REQUESTS = 1000;

export type AuthMode = "api_key" | "subscription";

export interface LeaseOptions {
  task_id: string;
  lane: Lane;
  auth: AuthMode;
  /** USD; 0 admits nothing that has a price. Unused with a subscription. */
  budget_usd: number;
  /** Concurrent requests; 0 is no cap. */
  max_inflight: number;
  /** USD reserved for each running request; 0 reserves nothing. Unused with a subscription. */
  max_request_cost_usd: number;
  /** Requests in all; 0 is {@linkcode DEFAULT_MAX_REQUESTS}. */
  max_requests: number;
  /** What vendors may do in the agent's stead, and fields that may pass, by the names that refusals give. */
  allow_tools?: readonly string[];
  /** Holds the most that each request may cost against the budget, and against these; absent for `budget_mode: soft`. */
  strict?: Ceilings;
  /** Called after each settlement, with the figures as they then are. */
  onSpend?: (spend: Spend) => void;
}

/** What bounds all tasks together. */
export interface Ceilings {
  /** Holds USD until the settlement that names them, or says why there is no room. */
  hold(usd: number): string | undefined;
  /** Gives up what a request that never went out held. */
  release(usd: number): void;
}

export interface Spend {
  /** With a subscription: what the same tokens cost by list price. */
  usd: number;
  /** Requests that went to the vendor, running ones included. */
  requests: number;
  /** Of these, how many ended without figures that can be believed; what they cost is not in `usd`, or not all of it. */
  unmetered_requests: number;
  /** Input tokens, cached ones included. */
  input_tokens: number;
  output_tokens: number;
  in_flight: number;
  /** Whether `usd` covers every request that has ended. */
  priced: boolean;
}

/** What an endpoint itself says that requests cost, beside what they were charged here. */
export interface ReportedCost {
  /** Requests whose answers said so. */
  requests: number;
  /** By the endpoint. */
  usd: number;
  /** As the gateway metered the same requests. */
  metered_usd: number;
}

export type Ending = "complete" | "client_gone" | "upstream_failed" | "cut_off";

/** One settled request; nothing in it is secret. */
export interface Settlement extends Pick<LeaseOptions, "task_id" | "lane" | "auth"> {
  route: RouteRow["name"];
  model: string | undefined;
  /** The vendor's status; undefined when there was none. */
  status: number | undefined;
  ending: Ending;
  usd: number;
  unmetered: boolean;
  /** USD that were held against the ceilings for it, and are free now. */
  held_usd: number;
  metered: Metered | undefined;
  duration_ms: number;
}

/** A claim on a lease, from the arrival of a request to its settlement. */
export interface Claim {
  readonly settled: boolean;
  /** USD held against the ceilings. */
  readonly held_usd: number;
  /** Throws the refusal of a budget that others have spent since: a body may have taken its time to come. */
  recheck(): void;
  /**
   * Reserves what a request of a priced model may cost, `bound_usd` at most; throws a refusal when the budget, or with
   * `strict` a ceiling, has no room for it.
   */
  reserve(bound_usd: number): void;
  /** From now on the request counts, however it ends. */
  markSent(): void;
  /** Ends the claim and books the settlement; a second call does nothing. */
  settle(settlement: Settlement): void;
  /** Ends the claim of a request that never went out; does nothing after {@linkcode settle} or {@linkcode markSent}. */
  withdraw(): void;
}

export interface GatewayLease {
  /** The task's secret; the gateway keeps only its digest. */
  readonly token: string;
  spend(): Spend;
  /** Undefined where no answer said what it cost. */
  reported(): ReportedCost | undefined;
  /** Refuses what comes later, cuts the clients off, waits until everything is settled and gives the final figures. */
  end(): Promise<Spend>;
}

export class TaskLease {
  readonly options: LeaseOptions;
  readonly allow_tools: ReadonlySet<string>;
  /** SHA-256 of the token, in hex, by which it is looked up: the time of a lookup reveals nothing about the token. */
  readonly digest: string;
  readonly ending: AbortController = new AbortController();
  readonly #idle: (() => void)[] = [];
  #usd = 0;
  #reserved_usd = 0;
  #requests = 0;
  #in_flight = 0;
  #unmetered = 0;
  #input_tokens = 0;
  #output_tokens = 0;
  readonly #reported: ReportedCost = { requests: 0, usd: 0, metered_usd: 0 };

  private constructor(options: LeaseOptions, digest: string) {
    this.options = options;
    this.allow_tools = new Set(options.allow_tools ?? []);
    this.digest = digest;
  }

  static create(options: LeaseOptions, random: RandomBytes): { lease: TaskLease; token: string } {
    const token = `taskd-${randomHex(random, 32)}`;
    return { lease: new TaskLease(options, sha256Hex(token)), token };
  }

  /** Claims a place for one request; throws the refusal of the first cap that is reached. */
  claim(): Claim {
    const { max_inflight } = this.options;
    if (this.ending.signal.aborted) throw new Refusal("unauthorized", "The task of this token has ended");
    const max_requests = this.options.max_requests > 0 ? this.options.max_requests : DEFAULT_MAX_REQUESTS;
    if (this.#requests >= max_requests) {
      throw new Refusal(
        "request_cap",
        `The task has made ${this.#requests} of ${max_requests} requests; raise task_max_requests`,
      );
    }
    this.#checkBudget();
    if (max_inflight > 0 && this.#in_flight >= max_inflight) {
      throw new Refusal(
        "in_flight_cap",
        `${this.#in_flight} of ${max_inflight} requests are running; wait, or raise task_max_inflight`,
      );
    }
    this.#requests++;
    this.#in_flight++;
    return this.#place();
  }

  #place(): Claim {
    let reserved_usd = 0;
    let held_usd = 0;
    let is_sent = false;
    let is_settled = false;
    return {
      get settled() {
        return is_settled;
      },
      get held_usd() {
        return held_usd;
      },
      recheck: () => this.#checkBudget(),
      reserve: (bound_usd) => {
        reserved_usd = this.#reserve(bound_usd);
        held_usd = this.#holdCeilings(bound_usd);
      },
      markSent: () => void (is_sent = true),
      settle: (settlement) => {
        if (is_settled) return;
        is_settled = true;
        this.#book(settlement);
        this.#leave(reserved_usd);
      },
      withdraw: () => {
        if (is_settled || is_sent) return;
        is_settled = true;
        this.#requests--;
        if (held_usd > 0) this.options.strict?.release(held_usd);
        this.#leave(reserved_usd);
      },
    };
  }

  #checkBudget(): void {
    const { auth, budget_usd } = this.options;
    if (auth === "subscription" || this.#usd === 0 || !isSpent(this.#usd, budget_usd)) return;
    throw new Refusal(
      "budget_exhausted",
      `The task has spent ${usdText(this.#usd)} of ${usdText(budget_usd)}; raise task_budget_usd`,
    );
  }

  #reserve(bound_usd: number): number {
    const { auth, budget_usd, max_request_cost_usd, strict } = this.options;
    if (auth === "subscription") return 0;
    if (budget_usd <= 0) {
      throw new Refusal("budget_exhausted", "The task's budget is $0; raise task_budget_usd");
    }
    const usd = Math.max(max_request_cost_usd, strict ? bound_usd : 0);
    if (usd <= 0) return 0;
    const committed = this.#usd + this.#reserved_usd;
    if (isBeyond(committed + usd, budget_usd)) {
      const sum = `${usdText(this.#usd)} spent, ${usdText(this.#reserved_usd)} reserved by running requests and ` +
        `${usdText(usd)} for this one exceed ${usdText(budget_usd)}`;
      // What others reserved may yet be freed.
      if (this.#reserved_usd > 0) throw new Refusal("in_flight_cap", `${sum}; wait for them`);
      const lower = strict ? ", ask for fewer tokens or set budget_mode: soft" : " or lower max_request_cost_usd";
      throw new Refusal("budget_exhausted", `${sum}; raise task_budget_usd${lower}`);
    }
    this.#reserved_usd += usd;
    return usd;
  }

  #holdCeilings(bound_usd: number): number {
    const { strict } = this.options;
    if (strict === undefined || bound_usd <= 0) return 0;
    const refusal = strict.hold(bound_usd);
    if (refusal !== undefined) throw new Refusal("budget_exhausted", refusal);
    return bound_usd;
  }

  #book({ usd, unmetered, metered }: Settlement): void {
    // A sum that is once not a number stays so, and no budget would limit it.
    const known = Number.isFinite(usd) && usd >= 0;
    if (known) this.#usd += usd;
    if (unmetered || !known) this.#unmetered++;
    if (known && metered?.reported_usd !== undefined) {
      this.#reported.requests++;
      this.#reported.usd += metered.reported_usd;
      this.#reported.metered_usd += usd;
    }
    for (const { usage } of metered?.used ?? []) {
      this.#input_tokens += totalInput(usage);
      this.#output_tokens += usage.output_tokens;
    }
  }

  spend(): Spend {
    return {
      usd: this.#usd,
      requests: this.#requests,
      unmetered_requests: this.#unmetered,
      input_tokens: this.#input_tokens,
      output_tokens: this.#output_tokens,
      in_flight: this.#in_flight,
      priced: this.#unmetered === 0,
    };
  }

  reported(): ReportedCost | undefined {
    return this.#reported.requests === 0 ? undefined : { ...this.#reported };
  }

  idle(): Promise<void> {
    return this.#in_flight === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve));
  }

  #leave(reserved_usd: number): void {
    this.#reserved_usd = Math.max(0, this.#reserved_usd - reserved_usd);
    if (--this.#in_flight === 0) { for (const resolve of this.#idle.splice(0)) resolve(); }
  }
}
