/**
 * Whether a container runtime has the images and the network of sandboxes.
 *
 * @module
 */

import type { SandboxRuntimeName } from "../../broker/sandbox/runtime.ts";
import type { AskProgram } from "../../broker/sandbox/host_programs.ts";
import type { FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";

/** A runtime and its program. */
export type RuntimeProgram = Pick<FoundRuntime, "name" | "path">;

/** Arguments whose exit code is 0 when the runtime has the object. */
const HAS_IMAGE: Readonly<Record<Exclude<SandboxRuntimeName, "deno">, (image: string) => string[]>> = {
  podman: (image) => ["image", "exists", image],
  docker: (image) => ["image", "inspect", "--format", "{{.Id}}", image],
  container: (image) => ["image", "inspect", image],
};
const HAS_NETWORK: Readonly<Record<Exclude<SandboxRuntimeName, "deno">, (network: string) => string[]>> = {
  podman: (network) => ["network", "exists", network],
  docker: (network) => ["network", "inspect", "--format", "{{.Id}}", network],
  container: (network) => ["network", "inspect", network],
};

/** Whether a runtime has an image; the embedded one needs none. */
export async function hasImage({ name, path }: RuntimeProgram, image: string, ask: AskProgram): Promise<boolean> {
  return name === "deno" || (await ask(path, HAS_IMAGE[name](image))).code === 0;
}

/** Whether a runtime has the sandboxes' network; the embedded one needs none. */
export async function hasNetwork({ name, path }: RuntimeProgram, network: string, ask: AskProgram): Promise<boolean> {
  return name === "deno" || (await ask(path, HAS_NETWORK[name](network))).code === 0;
}
