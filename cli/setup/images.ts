/** Whether a container runtime has the images and the network of sandboxes. */

import { type ContainerKind, isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import type { AskProgram } from "../../broker/sandbox/host_programs.ts";
import type { FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";

type RuntimeProgram = Pick<FoundRuntime, "name" | "path">;
type Kind = "image" | "network";

/** Arguments whose exit code is 0 when the runtime has an image or a network of a name. */
const HAS: Readonly<
  Record<ContainerKind, (kind: Kind, name: string) => string[]>
> = {
  podman: (kind, name) => [kind, "exists", name],
  docker: (kind, name) => [kind, "inspect", "--format", "{{.Id}}", name],
  container: (kind, name) => [kind, "inspect", name],
};

/** Whether a runtime has an image; those that run none need none. */
export function hasImage(runtime: RuntimeProgram, image: string, ask: AskProgram): Promise<boolean> {
  return has(runtime, "image", image, ask);
}

/** Whether a runtime has the sandboxes' network; only containers need one. */
export function hasNetwork(runtime: RuntimeProgram, network: string, ask: AskProgram): Promise<boolean> {
  return has(runtime, "network", network, ask);
}

async function has({ name, path }: RuntimeProgram, kind: Kind, what: string, ask: AskProgram): Promise<boolean> {
  return !isContainerRuntime(name) || (await ask(path, HAS[name](kind, what))).code === 0;
}
