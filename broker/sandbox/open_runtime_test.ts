import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { PROGRAM_PATHS } from "./host_programs.ts";
import { loadSettings } from "../settings/load.ts";
import { EMPTY_VIEW } from "./bubblewrap/host_view.ts";
import { openRuntime } from "./open_runtime.ts";
import { untestedVersion } from "./tested_versions.ts";
import { writeProgram } from "../../tests/support/programs.ts";

/** Opens with a podman that answers `info` and with no other program. */
async function open(config: string, podman_info: string | undefined): Promise<{ name: string; warnings: string[] }> {
  const folder = await Deno.makeTempDir();
  try {
    const program = `${folder}/podman`;
    if (podman_info !== undefined) {
      await writeProgram(program, `#!/bin/sh\ncat <<'END'\n${podman_info}\nEND\n`);
    }
    const { settings } = await loadSettings({
      home: folder,
      env: () => undefined,
      read: (path) => Promise.resolve(path.endsWith("config.yaml") ? config : "allow: []\n"),
    });
    const warnings: string[] = [];
    const runtime = await openRuntime({
      settings,
      owner: "0123456789abcdef",
      env: () => undefined,
      deno_path: Deno.execPath(),
      deno_cache_dir: folder,
      onWarning: (warning) => warnings.push(warning),
      places: { ...PROGRAM_PATHS, podman: [program], docker: [], container: [], bubblewrap: [] },
      view: EMPTY_VIEW,
      run_dir: folder,
    });
    return { name: runtime.name, warnings };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const info = (version: string) => JSON.stringify({ version: { Version: version }, host: {} });

Deno.test("auto takes podman where it works, and the embedded runtime where nothing does", async () => {
  assertEquals(await open("runtime: auto\n", info("4.9.3")), { name: "podman", warnings: [] });
  assertEquals(await open("runtime: auto\n", undefined), { name: "deno", warnings: [] });
  const broken = await open("runtime: auto\n", "no JSON");
  assertEquals([broken.name, broken.warnings.length], ["deno", 1]);
});

Deno.test("a runtime that was asked for is never replaced by another", async () => {
  await assertRejects(() => open("runtime: docker\n", info("4.9.3")), TaskdError, "Cannot use the runtime docker");
  await assertRejects(() => open("runtime: podman\n", "no JSON"), TaskdError, "Cannot use the runtime podman");
  assertEquals((await open("runtime: deno\n", info("4.9.3"))).name, "deno");
});

// conformance: b2.effect.strict_container_version b7.version_drift b9.tested_range
Deno.test("strict_container_version refuses an untested major version, else it is a warning", async () => {
  const config = "runtime: podman\nstrict_container_version: true\n";
  assertEquals((await open(config, info("4.3.1"))).warnings, []);
  await assertRejects(() => open(config, info("7.0.0")), TaskdError, "not one of the tested versions");
  assertEquals((await open("runtime: podman\n", info("7.0.0"))).warnings.length, 1);
  assertEquals(untestedVersion("deno", "2.9.6"), undefined);
  assertEquals(untestedVersion("docker", "28.2.2"), "no version of docker was tested");
  assertEquals(untestedVersion("podman", "?"), "the version of podman cannot be read, and 4.x was tested");
});
