import { assertEquals } from "@std/assert";
import { runWizard, type WizardOptions, type WizardResult } from "./wizard.ts";

/** Runs the wizard unattended where podman has the images that `has` says, by default both. */
async function run(
  answers: Partial<WizardOptions["answers"]>,
  has: (image: string) => boolean = () => true,
): Promise<WizardResult> {
  const home = await Deno.makeTempDir({ prefix: "taskd-wizard-" });
  try {
    return await runWizard({
      home,
      uid: Deno.uid()!,
      env: () => undefined,
      answers: { keys: new Map([["vendor_a", "sk-1"]]), build_images: "none", yes: true, ...answers },
      findRuntimes: () => Promise.resolve([{ name: "podman", path: "/usr/bin/podman", works: true, notes: [] }]),
      hasImage: (_, image) => Promise.resolve(has(image)),
      buildImages: () => Promise.resolve(),
      say() {},
    });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

Deno.test("setup builds images that exist only when it is asked to build them again", async () => {
  const both = ["taskd-sandbox:latest", "taskd-anchor:latest"];
  assertEquals((await run({ build_images: "missing" })).images_built, []);
  assertEquals((await run({ build_images: "all" })).images_built, both);
  // Both are built together.
  assertEquals((await run({ build_images: "missing" }, (image) => image.includes("anchor"))).images_built, both);
  // Where no one can be asked, it takes a flag.
  assertEquals((await run({ build_images: "missing", yes: false }, () => false)).images_built, []);
});

Deno.test("setup stores a model that is named without a URL", async () => {
  assertEquals((await run({ compat_model: "small" })).changed["compat.model"], "small");
});
