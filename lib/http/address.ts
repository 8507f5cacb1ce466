/**
 * Addresses that a program listens on, as people write them.
 */

import { TaskdError } from "../errors.ts";

/** The name alone never has more characters. */
const MAX_NAME_CHARS = 253;

export interface HttpAddress {
  hostname: string;
  port: number;
  loopback: boolean;
}

/** Reads `host:port` or `[v6]:port`; an empty host is every interface, as elsewhere. */
export function parseHttpAddress(text: string): HttpAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  const host = match?.[2] ?? `[${match?.[1]}]`;
  if (!match || (host !== "" && !isHost(host)) || port > 65535) {
    throw new TaskdError("usage", `Cannot listen on ${JSON.stringify(text.slice(0, 200))}: it is not host:port`, {
      hint: "Write 127.0.0.1:8080 or [::1]:8080; port 0 takes any free one",
    });
  }
  const hostname = match[1] ?? (match[2] === "" ? "0.0.0.0" : match[2]!);
  return { hostname, port, loopback: isLoopback(hostname) };
}

/** A host and its port as a URL has them: an IPv6 address in brackets. */
export function hostPort({ hostname, port }: { hostname: string; port: number }): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** The host and port of an http or https URL; undefined of anything else. */
export function endpointAddress(text: string): { hostname: string; port: number } | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || !isHost(url.hostname)) return undefined;
  const port = url.port === "" ? url.protocol === "http:" ? 80 : 443 : Number(url.port);
  return { hostname: url.hostname.replace(/^\[|\]$/g, ""), port };
}

/**
 * Whether it can be a host: a name or an address, IPv6 in brackets. Asking for the permission to reach anything else
 * throws an error of the runtime, which names no flag and no setting.
 */
export function isHost(text: string): boolean {
  if (text.startsWith("[")) return URL.canParse(`http://${text}`);
  return text.length <= MAX_NAME_CHARS && /^[\w-]+(?:\.[\w-]+)*\.?$/.test(text);
}

/**
 * Whether it is this machine alone. Only literal addresses and `localhost` count: what another name resolves to may
 * change.
 */
export function isLoopback(hostname: string): boolean {
  if (hostname.includes(":")) {
    return /^[0-9a-f:.]+$/i.test(hostname) && URL.parse(`http://[${hostname}]`)?.hostname === "[::1]";
  }
  // Written in its one form: other forms, and numbers that are too large, may be looked up as names.
  return hostname.toLowerCase() === "localhost" ||
    /^127\.[\d.]+$/.test(hostname) && URL.parse(`http://${hostname}`)?.hostname === hostname;
}
