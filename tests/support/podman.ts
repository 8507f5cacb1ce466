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

/**
 * Makes mounts below /run/netns known to every mount namespace, as they are where systemd runs: podman 4 ends a container
 * with mapped users in a mount namespace of its own, and would leave its network behind.
 */
async function shareNetworks(): Promise<void> {
  await Deno.mkdir("/run/netns", { recursive: true });
  const mounts = await Deno.readTextFile("/proc/self/mountinfo");
  if (/^\S+ \S+ \S+ \S+ \/run\/netns [^-]*shared:/m.test(mounts)) return;
  for (const args of [["--bind", "/run/netns", "/run/netns"], ["--make-shared", "/run/netns"]]) {
    const { success, stderr } = await new Deno.Command("mount", { args, stdin: "null" }).output();
    if (!success) throw new Error(`mount ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  }
}

/** The images; built when they are not there, by one process at a time. */
export async function testImages(onStep?: (step: string) => void): Promise<{ sandbox: string; anchor: string }> {
  const images = await imageNames();
  using lock = Deno.openSync("/var/tmp/taskd-test-images.lock", { create: true, write: true });
  await lock.lock(true);
  await shareNetworks();
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
export interface TestRuntime extends AsyncDisposable {
  runtime: ContainerRuntime;
  owner: string;
  network: string;
  gateway_ip: string;
  image: string;
}

/**
 * Makes a runtime whose network is `10.213.<net>.0/24`; test files run at the same time, so each has numbers of its
 * own.
 */
export async function testRuntime(net: number, clock: Clock = systemClock): Promise<TestRuntime> {
  const images = await testImages();
  const owner = randomHex(systemRandom, 16);
  const network = `taskd-test-${net}`;
  const gateway_ip = `10.213.${net}.1`;
  // What an earlier run may have left.
  await podman("network", "rm", "--force", network);
  const runtime = new ContainerRuntime({
    kind: "podman",
    program: PODMAN,
    rootless: false,
    oci_runtime: "",
    network,
    gateway_ip,
    anchor_image: images.anchor,
    owner,
    env: (name) => Deno.env.get(name),
    clock,
  });
  return {
    runtime,
    owner,
    network,
    gateway_ip,
    image: images.sandbox,
    async [Symbol.asyncDispose]() {
      await runtime.sweep(new Set());
      await runtime.close();
      await podman("network", "rm", "--force", network);
    },
  };
}
