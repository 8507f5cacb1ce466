/**
 * The egress list, egress.yaml: hosts and ports that sandboxes may reach. What is not
 * listed is not reachable, and without the file nothing is.
 *
 * Only names are listed. An address is refused in every spelling, and so is a name of this
 * machine or its network: the proxy would refuse to dial it anyway.
 */

import * as v from "valibot";
import type { EgressList } from "../egress/egress_rules.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { check, fields, integer, list, text, withHint } from "./value_schemas.ts";
import { YamlFile } from "./yaml_file.ts";

const MAX_HOSTS = 5_000;
const MAX_PORTS = 100;

/** Names that never lead to the public internet (RFC 6761, 6762, 8375, 9476 and the reverse zones). */
const LOCAL_NAMES = ["localhost", "local", "internal", "home.arpa", "in-addr.arpa", "ip6.arpa", "onion", "alt"];

export function isLocalName(host: string): boolean {
  return LOCAL_NAMES.some((name) => host === name || host.endsWith(`.${name}`));
}

const HOST_RULE = "must be a host name, or *. and a host name";

function hostFault(written: string): string | undefined {
  if (written.includes("://")) return withHint(`${HOST_RULE}, without a scheme`, hostHint(written));
  if (written.includes("/")) return withHint(`${HOST_RULE}, without a path`, hostHint(`https://${written}`));
  if (/^[^:]+:\d*$/.test(written)) return withHint(`${HOST_RULE}, without a port`, "List the port under ports");
  const isWildcard = written.startsWith("*.");
  const parsed = canonicalHost(written.replace(/^\*\./, ""));
  if (parsed === "address_literal") {
    return withHint(`${HOST_RULE}, not an address`, "Only names can be checked against certificates and look-ups");
  }
  if (parsed === "bad_target") return HOST_RULE;
  if (isLocalName(parsed.host)) {
    return withHint(`${HOST_RULE} of the public internet`, "Sandboxes never reach this machine or its network");
  }
  if (parsed.host.includes(".")) return undefined;
  return isWildcard ? "must not allow a whole top-level domain" : `${HOST_RULE}, with its domain`;
}

function hostHint(url: string): string {
  const host = URL.parse(url)?.hostname;
  return host ? `Write ${host}` : "Write the host's name alone";
}

function canonicalEntry(written: string): string {
  const parsed = canonicalHost(written.replace(/^\*\./, ""));
  const host = typeof parsed === "string" ? written : parsed.host;
  return written.startsWith("*.") ? `*.${host}` : host;
}

const PORT = integer(1, 65_535, "must be a port from 1 to 65535");
const ENTRY = fields({
  host: v.pipe(text(HOST_RULE), check(hostFault), v.transform(canonicalEntry)),
  ports: v.pipe(
    v.nullish(list(PORT, "must be a list of ports, such as [443]", MAX_PORTS), [443]),
    v.minLength(1, "must have at least one port"),
    v.transform((ports) => [...new Set(ports)].sort((a, b) => a - b)),
  ),
}, "must have host and ports, such as { host: example.com, ports: [443] }");
const EGRESS_FILE = fields({
  allow: v.nullish(
    v.pipe(
      list(ENTRY, "must be a list of hosts", MAX_HOSTS),
      v.checkItems(
        ({ host }, index, entries) => entries.findIndex((one) => one.host === host) === index,
        "must be listed once",
      ),
    ),
    [],
  ),
}, "must be a map with the key allow");

/** Reads egress.yaml; throws an InvalidConfig with the place of what is wrong. */
export function parseEgress(file: string, text: string): EgressList {
  return { entries: new YamlFile(file, text).check(EGRESS_FILE).allow };
}
