import { assertEquals } from "@std/assert";
import { runWizard, type WizardOptions } from "./wizard.ts";

/** Runs the wizard unattended where podman has both images, and returns what it built. */
async function built(build_images: WizardOptions["answers"]["build_images"]): Promise<string[]> {
  const home = await Deno.makeTempDir({ prefix: "taskd-wizard-" });
  try {
    const { images_built } = await runWizard({
      home,
      uid: Deno.uid()!,
      env: () => undefined,
      answers: { keys: new Map([["vendor_a", "sk-1"]]), build_images, yes: true },
      findRuntimes: () => Promise.resolve([{ name: "podman", path: "/usr/bin/podman", works: true, notes: [] }]),
      hasImage: () => Promise.resolve(true),
      buildImages: () => Promise.resolve(),
      say() {},
    });
    return images_built;
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

Deno.test("setup builds images that exist only when it is asked to build them again", async () => {
  assertEquals(await built("missing"), []);
  assertEquals(await built("all"), ["taskd-sandbox:latest", "taskd-anchor:latest"]);
});
