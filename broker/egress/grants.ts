/**
 * Hosts that a person opened to one running task, beside its list: each for a time, and where that was said for a number
 * of uses. A use is a tunnel, or a request of plain HTTP, that was let through because of the grant and nothing else,
 * whatever comes of it. When its time is over, the connections that it let through are closed.
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { type EgressTarget, formatTarget } from "./host_name.ts";

/** Grants of one task, ended ones included. */
export const MAX_GRANTS = 64;

export interface Closable {
  close(): void;
}

/** What is granted. */
export interface EgressGrant {
  target: EgressTarget;
  /** Milliseconds from now on. */
  for_ms: number;
  /** The most uses; without it there is no bound. */
  uses?: number;
}

class Grant {
  readonly target: EgressTarget;
  readonly #most: number;
  #used = 0;
  #over = false;
  readonly #connections = new Set<Closable>();

  constructor({ target, uses = Infinity }: EgressGrant) {
    this.target = target;
    this.#most = uses;
  }

  get used(): number {
    return this.#used;
  }

  take({ host, port }: EgressTarget, connection: Closable): boolean {
    if (this.#over || this.#used >= this.#most || host !== this.target.host || port !== this.target.port) return false;
    this.#used++;
    this.#connections.add(connection);
    return true;
  }

  release(connection: Closable): void {
    this.#connections.delete(connection);
  }

  end(): void {
    this.#over = true;
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
  }
}

export class GrantedHosts {
  readonly #clock: Clock;
  readonly #grants: Grant[] = [];
  readonly #ended = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Opens a host from now on; of several grants for one host each is used up before the next.
   *
   * @throws {TaskdError} `wrong_state` when the task has no way out any more; `too_large` beyond {@linkcode MAX_GRANTS}.
   */
  add(grant: EgressGrant): void {
    const attempted = `Cannot grant ${formatTarget(grant.target)}`;
    if (this.#ended.signal.aborted) {
      throw new TaskdError("wrong_state", `${attempted}: the task has no way out any more`);
    }
    if (this.#grants.length >= MAX_GRANTS) {
      throw new TaskdError("too_large", `${attempted}: the task has had ${MAX_GRANTS} grants`, {
        hint: "List the host in egress.yaml",
      });
    }
    const added = new Grant(grant);
    this.#grants.push(added);
    void this.#clock.sleep(grant.for_ms, this.#ended.signal).then(() => added.end(), () => {});
  }

  /** Whether a grant lets `connection` reach the target: it has then used it once. */
  take(target: EgressTarget, connection: Closable): boolean {
    return this.#grants.some((grant) => grant.take(target, connection));
  }

  release(connection: Closable): void {
    for (const grant of this.#grants) grant.release(connection);
  }

  /** How often each was used, in the order in which they were added. */
  uses(): number[] {
    return this.#grants.map(({ used }) => used);
  }

  end(): void {
    this.#ended.abort();
    for (const grant of this.#grants) grant.end();
  }
}
