/**
 * Podman for tests: whether it is there, the images that they run, and runtimes of their own, each with a network that no
 * other test has.
 */

import { existsSync } from "@std/fs/exists";
import { type Clock, randomHex, systemClock, systemRandom } from "../../lib/clock.ts";
import { buildImages } from "../../broker/sandbox/images/build.ts";
import { ENTRYPOINT_SCRIPT } from "../../broker/sandbox/images/entrypoint.ts";
import { agentPackages, DEBIAN_PACKAGES, NODE_VERSION, SUITE } from "../../broker/sandbox/images/recipe.ts";
import { ROOT_FILE_SYSTEM_SCRIPT } from "../../broker/sandbox/images/root_file_system.ts";
import { ContainerRuntime } from "../../broker/sandbox/container_runtime.ts";
import { drawNetwork, type TestNetwork } from "./networks.ts";

/** Where podman is. */
export const PODMAN = "/usr/bin/podman";

/** A test of podman is ignored where it cannot be, with the reason in its name; CI counts that as a failure. */
export const WITHOUT_PODMAN: string | undefined = Deno.uid() !== 0
  ? "images are built as root"
  : [PODMAN, "/usr/sbin/debootstrap", "/usr/bin/npm"].find((path) => !existsSync(path))?.concat(" is not installed");

/** Defines a test that needs podman; `define` is {@linkcode longTest} for one of the long suite. */
export function podmanTest(
  name: string,
  run: (t: Deno.TestContext) => Promise<void>,
  define: (definition: Deno.TestDefinition) => void = Deno.test,
): void {
  const title = WITHOUT_PODMAN === undefined ? name : `${name} (ignored: ${WITHOUT_PODMAN})`;
  define({ name: title, ignore: WITHOUT_PODMAN !== undefined, fn: run });
}

/** Names of the images: what they are made of is in the tag, so that a changed recipe leads to new ones. */
async function imageNames(): Promise<{ sandbox: string; anchor: string }> {
  const made_of = JSON.stringify([
    ENTRYPOINT_SCRIPT,
    ROOT_FILE_SYSTEM_SCRIPT,
    agentPackages(),
    DEBIAN_PACKAGES,
    NODE_VERSION,
    SUITE,
  ]);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(made_of));
  const tag = new Uint8Array(digest).toHex().slice(0, 16);
  return { sandbox: `localhost/taskd-test-sandbox:${tag}`, anchor: `localhost/taskd-test-anchor:${tag}` };
}

/** Runs podman. */
export async function podman(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(PODMAN, { args, stdin: "null" }).output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

/** The images; built when they are not there, by one process at a time. */
export async function testImages(onStep?: (step: string) => void): Promise<{ sandbox: string; anchor: string }> {
  const images = await imageNames();
  using lock = Deno.openSync("/var/tmp/taskd-test-images.lock", { create: true, write: true });
  await lock.lock(true);
  const there = await Promise.all(Object.values(images).map((image) => podman("image", "exists", image)));
  if (there.every(({ code }) => code === 0)) return images;
  await buildImages({
    runtime: { name: "podman", path: PODMAN },
    images,
    from: "debootstrap",
    env: (name) => Deno.env.get(name),
    onProgress: (progress) => "step" in progress ? onStep?.(progress.step) : undefined,
  });
  return images;
}

/** A runtime of a test: with a network, a gateway's address and an owner of its own. */
export interface TestRuntime extends TestNetwork {
  runtime: ContainerRuntime;
  owner: string;
  image: string;
}

export async function testRuntime(clock: Clock = systemClock): Promise<TestRuntime> {
  const images = await testImages();
  const owner = randomHex(systemRandom, 16);
  const network = await drawNetwork();
  const runtime = new ContainerRuntime({
    kind: "podman",
    program: PODMAN,
    rootless: false,
    oci_runtime: "",
    network: network.network,
    gateway_ip: network.gateway_ip,
    anchor_image: images.anchor,
    owner,
    env: (name) => Deno.env.get(name),
    clock,
  });
  return {
    ...network,
    runtime,
    owner,
    image: images.sandbox,
    async [Symbol.asyncDispose]() {
      await runtime.sweep(new Set());
      await runtime.close();
      await network[Symbol.asyncDispose]();
    },
  };
}
