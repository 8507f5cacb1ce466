/**
 * Hosts that a person opens to a task while it runs. That one was opened, for how long and by whom is a row of the trace
 * before the host can be reached; how often each was used is another one at the end. The gate is bound to both.
 */

import type { Clock } from "../../lib/clock.ts";
import type { EgressGrantRequest } from "../api/wire.ts";
import { TaskdError } from "../../lib/errors.ts";
import { canonicalHost, formatTarget } from "../egress/host_name.ts";
import type { TaskEgress } from "../egress/proxy.ts";
import { isLocalName } from "../settings/egress_file.ts";
import type { EgressGrants } from "../task/schema.ts";
import type { Decider } from "../task/stages.ts";
import type { Task } from "../task/task.ts";

export class GrantedEgress {
  readonly #options: { task: Task; egress: TaskEgress; clock: Clock };
  readonly #grants: EgressGrants = [];
  /** One row after the other. */
  #last: Promise<void> = Promise.resolve();

  constructor(options: { task: Task; egress: TaskEgress; clock: Clock }) {
    this.#options = options;
  }

  /** With how often each was used so far. */
  list(): EgressGrants {
    const uses = this.#options.egress.grantUses();
    return this.#grants.map((grant, index) => ({ ...grant, used: uses[index] ?? 0 }));
  }

  /** @throws {TaskdError} `invalid_request` for what may not be listed; `wrong_state` when the task has no way out any more. */
  async grant({ host, port, for_ms, uses }: EgressGrantRequest, by?: Decider): Promise<void> {
    const target = { host: publicName(host), port };
    const bounds = { for_ms, ...(uses === undefined ? {} : { uses }) };
    const at = new Date(this.#options.clock.now()).toISOString();
    const noted = { target: formatTarget(target), at, ...bounds, used: 0, ...(by === undefined ? {} : { by }) };
    const written = this.#last.then(async () => {
      await this.#note([...this.list(), noted]);
      this.#options.egress.grant({ target, ...bounds });
      this.#grants.push(noted);
    });
    this.#last = written.catch(() => {});
    await written;
  }

  /** Writes how often each was used, once the task has no way out any more. */
  async close(): Promise<void> {
    await this.#last;
    if (this.#grants.length > 0) await this.#note(this.list());
  }

  async #note(grants: EgressGrants): Promise<void> {
    await this.#options.task.append({ type: "evidence", name: "egress_grants", value: grants });
  }
}

function publicName(host: string): string {
  const parsed = canonicalHost(host);
  if (typeof parsed !== "string" && !isLocalName(parsed.host) && parsed.host.includes(".")) return parsed.host;
  const name = JSON.stringify(host.slice(0, 300));
  throw new TaskdError("invalid_request", `Cannot grant ${name}: it is no name of the public internet`, {
    hint: "Name one host with its domain; sandboxes never reach this machine or its network",
  });
}
