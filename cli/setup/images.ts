/** Whether a container runtime has the images and the network of sandboxes. */

import { type ContainerKind, isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import type { AskProgram } from "../../broker/sandbox/host_programs.ts";
import type { FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";

type Kind = "image" | "network";

/** Arguments whose exit code is 0 when the runtime has an image or a network of a name. */
const HAS: Readonly<Record<ContainerKind, (kind: Kind, name: string) => string[]>> = {
  podman: (kind, name) => [kind, "exists", name],
  docker: (kind, name) => [kind, "inspect", "--format", "{{.Id}}", name],
  container: (kind, name) => [kind, "inspect", name],
};

/** Whether a runtime has an image, or the sandboxes' network; those that run no containers need none. */
export async function isThere(
  kind: Kind,
  what: string,
  { name, path }: Pick<FoundRuntime, "name" | "path">,
  ask: AskProgram,
): Promise<boolean> {
  return !isContainerRuntime(name) || (await ask(path, HAS[name](kind, what))).code === 0;
}
