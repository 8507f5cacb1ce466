import { assert, assertEquals, assertRejects } from "@std/assert";
import type { FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";
import { runWizard, type WizardOptions, type WizardResult } from "./wizard.ts";

const PODMAN: FoundRuntime = { name: "podman", path: "/usr/bin/podman", works: true, notes: [] };
const BUBBLEWRAP: FoundRuntime = {
  name: "bubblewrap",
  path: "/usr/bin/bwrap",
  works: true,
  bounding: "none",
  notes: [],
};
const DENO: FoundRuntime = { name: "deno", path: "/usr/bin/deno", works: true, notes: [] };

/** Runs the wizard unattended where podman has the images that `has` says, by default both; or on another host. */
async function run(
  answers: Partial<WizardOptions["answers"]>,
  has: (image: string) => boolean = () => true,
  host: { found: FoundRuntime[]; installed?: readonly string[]; said?: string[] } = { found: [PODMAN] },
): Promise<WizardResult> {
  const home = await Deno.makeTempDir({ prefix: "taskd-wizard-" });
  try {
    return await runWizard({
      home,
      uid: Deno.uid()!,
      env: () => undefined,
      answers: { keys: new Map([["vendor_a", "sk-1"]]), build_images: "none", yes: true, ...answers },
      findRuntimes: () => Promise.resolve(host.found),
      isInstalled: (agent) => host.installed?.includes(agent) === true,
      hasImage: (_, image) => Promise.resolve(has(image)),
      buildImages: () => Promise.resolve(),
      say: (text) => void host.said?.push(text),
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

Deno.test("setup takes containers, else bubblewrap, else the embedded runtime, and says why", async () => {
  const auto = async (found: FoundRuntime[], installed: string[], answers: Partial<WizardOptions["answers"]> = {}) => {
    const said: string[] = [];
    const { runtime } = await run(answers, () => true, { found, installed, said });
    return [runtime.split(":")[0], said.find((line) => line.startsWith("Sandboxes are"))];
  };
  const all = [PODMAN, BUBBLEWRAP, DENO];
  assertEquals(await auto(all, ["agent_a"]), ["podman", "Sandboxes are containers of podman"]);
  assertEquals(await auto(all.slice(1), ["agent_a"]), [
    "bubblewrap",
    "Sandboxes are made by bubblewrap: no container runtime works here",
  ]);
  const embedded = "Sandboxes are the embedded runtime's: no container runtime works here, and ";
  assertEquals((await auto(all.slice(1), []))[1], `${embedded}the agent's program is not installed`);
  assertEquals((await auto([DENO], []))[1], `${embedded}bubblewrap is not installed, or does not work`);
});

Deno.test("setup with bubblewrap takes an agent that is installed, and none that is not", async () => {
  const host = { found: [BUBBLEWRAP, DENO], installed: ["agent_b"] };
  assertEquals((await run({ runtime: "bubblewrap" }, () => true, host)).agent, "agent_b");
  const error = await assertRejects(() => run({ runtime: "bubblewrap" }, () => true, { found: [BUBBLEWRAP] }));
  assert(String(error).includes("none of claude, codex, gemini, opencode is installed"), String(error));
});
