/**
 * Which tasks may use the proxy, how they prove who they are, and what each has used of it.
 */

import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { DecisionRing } from "./decision.ts";
import { type Closable, GrantedHosts } from "./grants.ts";
import type { EgressTarget } from "./host_name.ts";
import { Refused } from "./reasons.ts";
import { type EgressList, EgressRules } from "./egress_rules.ts";
import { sha256 } from "../../lib/sha256.ts";

/** Different names below wildcards that a task may have looked up: each is a message to the zone's name server. */
export const MAX_WILDCARD_NAMES = 512;
/** Characters of a user name: what a URL and Basic authentication take as it is. */
const USERNAME = /^[A-Za-z0-9._-]{1,64}$/;

export class EgressAdmission {
  readonly task_id: string;
  readonly ring = new DecisionRing();
  readonly grants: GrantedHosts;
  readonly #digest: Uint8Array;
  readonly #rules: EgressRules;
  readonly #connections = new Set<Closable>();
  readonly #wildcard_names = new Set<string>();
  #ended = false;

  constructor(task_id: string, digest: Uint8Array, { rules, clock }: { rules: EgressRules; clock: Clock }) {
    this.task_id = task_id;
    this.grants = new GrantedHosts(clock);
    this.#digest = digest;
    this.#rules = rules;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Compares in a time that does not depend on where the digests differ. */
  matches(digest: Uint8Array): boolean {
    return timingSafeEqual(this.#digest, digest) && !this.#ended;
  }

  /** Takes up a connection; false when it has `max` already, or has ended. */
  take(connection: Closable, max: number): boolean {
    if (this.#ended || this.#connections.size >= max) return false;
    this.#connections.add(connection);
    return true;
  }

  release(connection: Closable): void {
    this.#connections.delete(connection);
    this.grants.release(connection);
  }

  /**
   * By what `connection` may reach the target. No name is looked up for it.
   *
   * @throws {Refused} when it is neither listed nor granted.
   */
  authorise(target: EgressTarget, connection: Closable): "list" | "grant" {
    const match = this.#rules.match(target);
    if (match.listed === "no") {
      if (this.grants.take(target, connection)) return "grant";
      if (match.ports.length === 0) throw new Refused("not_listed");
      throw new Refused("port_not_listed", `listed: ${match.ports.slice(0, 16).join(",")}`);
    }
    if (match.listed === "exact" || this.#wildcard_names.has(target.host)) return "list";
    if (this.#wildcard_names.size >= MAX_WILDCARD_NAMES) throw new Refused("too_many_names");
    this.#wildcard_names.add(target.host);
    return "list";
  }

  end(): void {
    this.#ended = true;
    this.grants.end();
    for (const connection of this.#connections) connection.close();
  }
}

export class EgressAdmissions {
  readonly #options: { random: RandomBytes; clock: Clock };
  readonly #by_task = new Map<string, EgressAdmission>();
  /** What an unknown user's password is compared with, so that it takes as long. */
  readonly #unknown: EgressAdmission;

  constructor(options: { random: RandomBytes; clock: Clock }) {
    this.#options = options;
    this.#unknown = new EgressAdmission("", options.random(32), { rules: new EgressRules(), clock: options.clock });
    this.#unknown.end();
  }

  /**
   * Admits a task to what any of `lists` has.
   *
   * @throws {TaskdError} `invalid_request` for a bad id or list entry; `already_exists` for a task that is admitted.
   */
  admit(task_id: string, ...lists: EgressList[]): { admission: EgressAdmission; password: string } {
    const attempted = `Cannot admit task ${JSON.stringify(task_id.slice(0, 80))} to the egress proxy`;
    if (!USERNAME.test(task_id)) {
      throw new TaskdError("invalid_request", `${attempted}: its id is not 1 to 64 letters, digits, dots, _ or -`);
    }
    if (this.#by_task.has(task_id)) throw new TaskdError("already_exists", `${attempted}: it is admitted already`);
    const { random, clock } = this.#options;
    const rules = new EgressRules(...lists);
    const password = randomHex(random, 32);
    const admission = new EgressAdmission(task_id, sha256(password), { rules, clock });
    this.#by_task.set(task_id, admission);
    return { admission, password };
  }

  end(admission: EgressAdmission): void {
    admission.end();
    if (this.#by_task.get(admission.task_id) === admission) this.#by_task.delete(admission.task_id);
  }

  /** The task that these values of Proxy-Authorization prove. Throws {@linkcode Refused}. */
  authenticate(values: string[]): EgressAdmission {
    if (values.length === 0) throw new Refused("credentials_missing");
    const match = values.length === 1 ? /^basic +([A-Za-z0-9+/]{1,512}={0,2})$/i.exec(values[0]!) : null;
    const text = match === null ? undefined : decodeBase64(match[1]!);
    const colon = text?.indexOf(":") ?? -1;
    if (text === undefined || colon < 0) throw new Refused("credentials_wrong");
    const admission = this.#by_task.get(text.slice(0, colon)) ?? this.#unknown;
    if (!admission.matches(sha256(text.slice(colon + 1)))) throw new Refused("credentials_wrong");
    return admission;
  }
}

function decodeBase64(text: string): string | undefined {
  try {
    return atob(text);
  } catch {
    return undefined;
  }
}
