/**
 * The egress list, egress.yaml: hosts and ports that sandboxes may reach. What is not
 * listed is not reachable, and without the file nothing is.
 *
 * Only names are listed. An address is refused, whatever its spelling, and so is a name
 * that stands for this machine or its network: the proxy would refuse to dial it anyway.
 *
 * @module
 */

import type { EgressList } from "../egress/rules.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { asList, asText, fieldsOf, refuse } from "./kinds.ts";
import { type Node, parseNodes } from "./nodes.ts";

/** The most hosts. */
const MAX_HOSTS = 5_000;
const MAX_PORTS = 100;

/** Names that never lead to the public internet (RFC 6761, 6762, 8375, 9476 and the reverse zones). */
const LOCAL_NAMES = ["localhost", "local", "internal", "home.arpa", "in-addr.arpa", "ip6.arpa", "onion", "alt"];

/** Whether a canonical name stands for this machine or its network. */
export function isLocalName(host: string): boolean {
  return LOCAL_NAMES.some((name) => host === name || host.endsWith(`.${name}`));
}

/** Reads egress.yaml; throws an InvalidConfig with the place of what is wrong. */
export function parseEgress(file: string, text: string): EgressList {
  const { allow } = fieldsOf(parseNodes(file, text), ["allow"], "must be a map with the key allow");
  if (!allow) return { entries: [] };
  const seen = new Set<string>();
  const entries = asList(allow, "must be a list of hosts", MAX_HOSTS).map((item) => {
    const fields = fieldsOf(
      item,
      ["host", "ports"],
      "must have host and ports, such as { host: example.com, ports: [443] }",
    );
    if (!fields.host) refuse(item, "must have a host");
    const host = readHost(fields.host);
    if (seen.has(host)) refuse(fields.host, "must be listed once");
    seen.add(host);
    return { host, ports: fields.ports ? readPorts(fields.ports) : [443] };
  });
  return { entries };
}

function readHost(node: Node): string {
  const rule = "must be a host name, or *. and a host name";
  const written = asText(node, rule);
  if (written.includes("://")) refuse(node, `${rule}, without a scheme`, { hint: hostOf(written) });
  if (written.includes("/")) refuse(node, `${rule}, without a path`, { hint: hostOf(`https://${written}`) });
  if (/^[^:]+:\d*$/.test(written)) refuse(node, `${rule}, without a port`, { hint: "List the port under ports" });
  const below = written.startsWith("*.");
  const parsed = canonicalHost(below ? written.slice(2) : written);
  if (parsed === "address_literal") {
    refuse(node, `${rule}, not an address`, { hint: "Only names can be checked against certificates and look-ups" });
  }
  if (parsed === "bad_target") refuse(node, rule);
  const { host } = parsed;
  if (isLocalName(host)) {
    refuse(node, `${rule} of the public internet`, { hint: "Sandboxes never reach this machine or its network" });
  }
  if (below && !host.includes(".")) refuse(node, "must not allow a whole top-level domain");
  if (!below && !host.includes(".")) refuse(node, `${rule}, with its domain`);
  return below ? `*.${host}` : host;
}

function hostOf(text: string): string {
  const host = URL.parse(text)?.hostname;
  return host ? `Write ${host}` : "Write the host's name alone";
}

function readPorts(node: Node): number[] {
  const items = asList(node, "must be a list of ports, such as [443]", MAX_PORTS);
  if (items.length === 0) refuse(node, "must have at least one port");
  const ports = items.map((item) => {
    const isPort = item.kind === "scalar" && typeof item.value === "number" && Number.isInteger(item.value) &&
      item.value >= 1 && item.value <= 65_535;
    if (!isPort) refuse(item, "must be a port from 1 to 65535");
    return Number(item.value);
  });
  return [...new Set(ports)].sort((a, b) => a - b);
}
