/**
 * The recipes of the images for hosts that reach a registry, as texts.
 */

import { AGENT_ID } from "../agent_user.ts";
import { ENTRYPOINT } from "../container_arguments.ts";
import { ANCHOR_BASE, DEBIAN_PACKAGES, SANDBOX_BASE } from "./recipe.ts";

/** The sandbox's Containerfile; its context has the entrypoint as `entrypoint`. */
export function sandboxContainerfile(agents: readonly string[]): string {
  return `ARG BASE=${SANDBOX_BASE}
FROM \${BASE}
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${DEBIAN_PACKAGES.join(" ")} \\
 && rm -rf /var/lib/apt/lists/*
RUN npm install --global --no-audit --no-fund ${agents.join(" ")} && npm cache clean --force
COPY entrypoint ${ENTRYPOINT}
RUN chmod 0755 ${ENTRYPOINT} \\
 && (userdel --remove node || true) \\
 && useradd --uid ${AGENT_ID} --create-home agent \\
 && mkdir -p /workspace /deps \\
 && find / -xdev -perm /6000 \\( -type f -o -type d \\) -exec chmod ug-s {} +
WORKDIR /workspace
ENTRYPOINT ["${ENTRYPOINT}"]
`;
}

export function anchorContainerfile(): string {
  return `ARG BASE=${ANCHOR_BASE}
FROM \${BASE}
USER ${AGENT_ID}:${AGENT_ID}
ENTRYPOINT ["/bin/sleep", "infinity"]
`;
}
