/**
 * Makes sure that podman can take away the network namespaces of sandboxes.
 *
 * Podman as root ends a container with mapped users in a mount namespace of its own. It finds the container's network
 * there only where mounts below /run/netns are shared between mount namespaces, as systemd makes all mounts. Elsewhere, in
 * containers and on machines without systemd, each sandbox would leave its network namespace behind, and the last one the
 * bridge with the gateway's address. So that folder is shared as `ip netns add` does it (ip-netns(8), iproute2).
 */

import type { ContainerProgram } from "./container_program.ts";

const SHARE = `
mkdir -p /run/netns || exit
case "$(findmnt --noheadings --output PROPAGATION --target /run/netns)" in
*shared*) ;;
*) mount --bind /run/netns /run/netns && mount --make-shared /run/netns ;;
esac`;

/** @param shell Calls `/bin/sh`. @returns What to do about it where that is not permitted. */
export async function shareNetworkNamespaces(shell: ContainerProgram): Promise<string | undefined> {
  const { code, stderr } = await shell.ask(["-c", SHARE]);
  if (code === 0) return undefined;
  return `mounts below /run/netns are private, so that each sandbox leaves its network behind (${stderr.trim()}): ` +
    "run mount --make-rshared / when the system starts, as systemd does";
}
