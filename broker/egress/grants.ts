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

interface Grant extends EgressGrant {
  used: number;
  over: boolean;
  readonly connections: Set<Closable>;
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
    const added = { ...grant, used: 0, over: false, connections: new Set<Closable>() };
    this.#grants.push(added);
    void this.#clock.sleep(grant.for_ms, this.#ended.signal).then(() => end(added), () => {});
  }

  /** Whether a grant lets `connection` reach the target: it has then used it once. */
  take({ host, port }: EgressTarget, connection: Closable): boolean {
    const grant = this.#grants.find(({ target, uses = Infinity, used, over }) =>
      !over && used < uses && target.host === host && target.port === port
    );
    if (grant === undefined) return false;
    grant.used++;
    grant.connections.add(connection);
    return true;
  }

  release(connection: Closable): void {
    for (const { connections } of this.#grants) connections.delete(connection);
  }

  /** How often each was used, in the order in which they were added. */
  uses(): number[] {
    return this.#grants.map(({ used }) => used);
  }

  end(): void {
    this.#ended.abort();
    this.#grants.forEach(end);
  }
}

function end(grant: Grant): void {
  grant.over = true;
  for (const connection of grant.connections) connection.close();
  grant.connections.clear();
}
