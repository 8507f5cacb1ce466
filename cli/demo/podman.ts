/** What the demo needs of podman: the images, and a network that is gone afterwards with everything attached to it. */

import { TaskdError } from "../../lib/errors.ts";

const IMAGES = [["SANDBOX_IMAGE", "taskd-sandbox:latest"], ["TASKD_ANCHOR_IMAGE", "taskd-anchor:latest"]] as const;

/** Throws, with what to do, unless podman and both images are there. */
export async function needPodman(): Promise<void> {
  for (const [variable, usual] of IMAGES) {
    const image = Deno.env.get(variable) ?? usual;
    if (await podman("image", "exists", image)) continue;
    throw new TaskdError("not_found", `Cannot show the demo in containers: podman has no image ${image}`, {
      hint: `Build the images with: taskd init && taskd setup --runtime podman; or name one in ${variable}`,
    });
  }
}

export async function removeNetwork(name: string): Promise<void> {
  await podman("network", "rm", "--force", name);
}

async function podman(...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command("podman", { args, stdin: "null", stdout: "null", stderr: "null" }).output()).success;
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new TaskdError("not_found", "Cannot show the demo in containers: podman is not installed", {
      cause,
      hint: "Install podman 4 or newer, or run the demo without --runtime: the embedded sandbox needs none",
    });
  }
}
