/**
 * Names and ports as clients write them, brought to one form before anything is decided on them.
 *
 * The form is the one that is matched, looked up, logged and compared with SNI and Host: ASCII letters in lower case,
 * digits, hyphens and underscores, IDNA applied, no trailing dot. Everything else is refused here, so that no two parts
 * of the proxy can read one target in two ways.
 */

import { domainToASCII } from "node:url";

export interface EgressTarget {
  host: string;
  port: number;
}

export type TargetFault = "bad_target" | "address_literal";

/** Longest name in characters (RFC 1035: 255 bytes on the wire). */
const MAX_NAME = 253;
const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;
/** The last label of a name is never a number: what ends in one is an IPv4 address to some parser (WHATWG URL). */
const NUMERIC = /^(?:\d+|0x[0-9a-f]*)$/;

/**
 * Brings a host name to its canonical form.
 *
 * @returns `bad_target` for what is no name, `address_literal` for an IP address in any spelling: dotted, decimal,
 * octal, hex, shortened, in full-width digits, or IPv6.
 */
export function canonicalHost(text: string): { host: string } | TargetFault {
  if (text.includes(":") || text.startsWith("[")) return "address_literal";
  // The parser below would take userinfo, paths and escapes apart, and drop tabs and newlines.
  // deno-lint-ignore no-control-regex
  if (text === "" || text.length > 1_024 || /[\u0000-\u0020\u007f"#%/<>?@\\\]^`{|}]/.test(text)) return "bad_target";
  const ascii = domainToASCII(text).toLowerCase();
  const host = ascii.endsWith(".") ? ascii.slice(0, -1) : ascii;
  const labels = host.split(".");
  // An address with a fault (a number too large, say) fails to parse; it is an address all the same.
  if (NUMERIC.test(labels.at(-1)!) || NUMERIC.test(text.replace(/\.$/, "").split(".").at(-1)!.toLowerCase())) {
    return "address_literal";
  }
  if (host.length > MAX_NAME || !labels.every((label) => LABEL.test(label))) return "bad_target";
  return { host };
}

/**
 * Reads `host:port`, or `host` alone where `default_port` is given.
 *
 * @returns What is wrong, when it is no plain name with a port.
 */
export function parseAuthority(text: string, default_port?: number): EgressTarget | TargetFault {
  if (text.includes("@")) return "bad_target";
  if (text.startsWith("[") || text.indexOf(":") !== text.lastIndexOf(":")) return "address_literal";
  const colon = text.indexOf(":");
  const name = colon < 0 ? text : text.slice(0, colon);
  const digits = colon < 0 ? undefined : text.slice(colon + 1);
  if (digits === undefined ? default_port === undefined : !/^[1-9]\d{0,4}$/.test(digits)) return "bad_target";
  const port = digits === undefined ? default_port! : Number(digits);
  const parsed = canonicalHost(name);
  if (typeof parsed === "string") return parsed;
  return port > 65_535 ? "bad_target" : { host: parsed.host, port };
}

/** `host:port`, without the port where it is the scheme's own. */
export function formatTarget({ host, port }: EgressTarget, default_port?: number): string {
  return port === default_port ? host : `${host}:${port}`;
}
