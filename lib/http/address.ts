/**
 * Addresses that a program listens on, as people write them.
 *
 * @module
 */

import { TaskdError } from "../errors.ts";

/** Longest address by a host name; the name alone never has more characters. */
const MAX_NAMED_CHARS = 253;

/** Where to listen. */
export interface HttpAddress {
  hostname: string;
  port: number;
  loopback: boolean;
}

/** Reads `host:port` or `[v6]:port`; an empty host is every interface, as elsewhere. */
export function parseHttpAddress(text: string): HttpAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|((?:[\w-]+(?:\.[\w-]+)*\.?)?)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  // What is no host at all is told here: the runtime's refusal of the permission to listen there names no flag.
  const possible = match?.[1] === undefined ? text.length <= MAX_NAMED_CHARS : URL.canParse(`http://[${match[1]}]`);
  if (!match || !possible || port > 65535) {
    throw new TaskdError("usage", `Cannot listen on ${JSON.stringify(text.slice(0, 200))}: it is not host:port`, {
      hint: "Write 127.0.0.1:8080 or [::1]:8080; port 0 takes any free one",
    });
  }
  const hostname = match[1] ?? (match[2] === "" ? "0.0.0.0" : match[2]!);
  return { hostname, port, loopback: isLoopback(hostname) };
}

/**
 * Whether it is this machine alone. Only literal addresses and `localhost` count: what another name resolves to may
 * change.
 */
export function isLoopback(hostname: string): boolean {
  return /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname) || hostname.toLowerCase() === "localhost" ||
    /^(?:0*:)+0*1$/.test(hostname);
}
