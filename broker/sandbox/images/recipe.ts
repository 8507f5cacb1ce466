/**
 * What the images are made of: one list of pinned versions for both ways of building them.
 */

import { words } from "../../../lib/text/words.ts";
import { type AgentName, AGENTS } from "../../agents.ts";

export const SUITE = "bookworm";
/** Node.js of the sandbox; the agents are programs for it. */
export const NODE_VERSION = "24.21.0";

/** The default base of the containers; a digest can be named instead. */
export const SANDBOX_BASE = `docker.io/library/node:${NODE_VERSION}-${SUITE}-slim`;
export const ANCHOR_BASE = "docker.io/library/busybox:1.37";

/** Debian packages: what the entrypoint needs, and what agents expect. */
export const DEBIAN_PACKAGES: readonly string[] = words(`
  nftables tini ca-certificates curl git openssh-client procps python3 ripgrep
`);

const AGENT_VERSIONS: Readonly<Record<AgentName, string>> = {
  agent_a: "2.1.329",
  agent_b: "0.169.0",
  agent_c: "0.61.0",
  agent_d: "1.18.33",
};

export function agentPackages(): string[] {
  return AGENTS.map((agent) => `${agent.package}@${AGENT_VERSIONS[agent.name]}`);
}
