/**
 * What the images are made of: one list of pinned versions for both ways of building them.
 */

import { type AgentName, AGENTS } from "../../agents.ts";

/** Debian release of the sandbox. */
export const SUITE = "bookworm";
/** Node.js of the sandbox; the agents are programs for it. */
export const NODE_VERSION = "24.21.0";

/** The default base of the containers; a digest can be named instead. */
export const SANDBOX_BASE = `docker.io/library/node:${NODE_VERSION}-${SUITE}-slim`;
export const ANCHOR_BASE = "docker.io/library/busybox:1.37";

/** Debian packages: what the entrypoint needs, and what agents expect. */
export const DEBIAN_PACKAGES: readonly string[] = [
  "nftables",
  "tini",
  "ca-certificates",
  "curl",
  "git",
  "openssh-client",
  "procps",
  "python3",
  "ripgrep",
];

/** Of their npm packages. */
const AGENT_VERSIONS: Readonly<Record<AgentName, string>> = {
  agent_a: "2.1.329",
  agent_b: "0.169.0",
  agent_c: "0.61.0",
  agent_d: "1.18.33",
};

/** The agents' npm packages with their versions, of those labels, or all. */
export function agentPackages(labels: readonly string[] = AGENTS.map(({ label }) => label)): string[] {
  return AGENTS.filter(({ label }) => labels.includes(label)).map((agent) =>
    `${agent.package}@${AGENT_VERSIONS[agent.name]}`
  );
}
