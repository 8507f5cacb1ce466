/**
 * The egress list as a matcher: which names and ports a task may reach. Pure; no name is ever looked up here.
 */

import { TaskdError } from "../../lib/errors.ts";
import { canonicalHost, type EgressTarget } from "./host_name.ts";

export interface EgressList {
  entries: {
    /** A name, or `*.` and a name for everything below it, itself not included. */
    host: string;
    /** Ports of the host, 1 to 65535. */
    ports: number[];
  }[];
}

export type Match =
  /** Listed by name, or by a wildcard. */
  | { listed: "exact" | "wildcard" }
  /** Not listed; `ports` are those that the list has for the host, none when it does not know the host. */
  | { listed: "no"; ports: number[] };

export class EgressRules {
  readonly #exact = new Map<string, Set<number>>();
  /** By what stands behind `*.`. */
  readonly #below = new Map<string, Set<number>>();

  /**
   * Compiles `lists`, of which any may admit.
   *
   * @throws {TaskdError} `invalid_request`, naming the entry that is not a host or a port.
   */
  constructor(...lists: EgressList[]) {
    for (const { host, ports } of lists.flatMap((list) => list.entries)) {
      const wildcard = host.startsWith("*.");
      const parsed = canonicalHost(wildcard ? host.slice(2) : host);
      if (typeof parsed === "string") {
        refuse(
          host,
          parsed === "address_literal" ? "it is an address, and only names are listed" : "it is no host name",
        );
      }
      for (const port of ports) {
        if (!Number.isInteger(port) || port < 1 || port > 65_535) refuse(host, `${port} is no port`);
      }
      const into = wildcard ? this.#below : this.#exact;
      into.set(parsed.host, new Set([...into.get(parsed.host) ?? [], ...ports]));
    }
  }

  match({ host, port }: EgressTarget): Match {
    const exact = this.#exact.get(host);
    if (exact?.has(port)) return { listed: "exact" };
    const ports = new Set(exact);
    for (let dot = host.indexOf("."); dot >= 0; dot = host.indexOf(".", dot + 1)) {
      const below = this.#below.get(host.slice(dot + 1));
      if (below?.has(port)) return { listed: "wildcard" };
      for (const port of below ?? []) ports.add(port);
    }
    return { listed: "no", ports: [...ports].sort((a, b) => a - b) };
  }
}

function refuse(host: string, why: string): never {
  throw new TaskdError("invalid_request", `Cannot take ${JSON.stringify(host.slice(0, 300))} as egress: ${why}`, {
    hint: "An entry is a host name, or *. and a host name, with its ports",
  });
}
