/** Whether a container runtime has the images and the network of sandboxes. */

import type { SandboxRuntimeName } from "../../broker/sandbox/runtime.ts";
import type { AskProgram } from "../../broker/sandbox/host_programs.ts";
import type { FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";

type RuntimeProgram = Pick<FoundRuntime, "name" | "path">;

/** Arguments whose exit code is 0 when the runtime has an image or a network of a name. */
const HAS: Readonly<
  Record<Exclude<SandboxRuntimeName, "deno">, (kind: "image" | "network", name: string) => string[]>
> = {
  podman: (kind, name) => [kind, "exists", name],
  docker: (kind, name) => [kind, "inspect", "--format", "{{.Id}}", name],
  container: (kind, name) => [kind, "inspect", name],
};

/** Whether a runtime has an image; the embedded one needs none. */
export async function hasImage({ name, path }: RuntimeProgram, image: string, ask: AskProgram): Promise<boolean> {
  return name === "deno" || (await ask(path, HAS[name]("image", image))).code === 0;
}

/** Whether a runtime has the sandboxes' network; the embedded one needs none. */
export async function hasNetwork({ name, path }: RuntimeProgram, network: string, ask: AskProgram): Promise<boolean> {
  return name === "deno" || (await ask(path, HAS[name]("network", network))).code === 0;
}
