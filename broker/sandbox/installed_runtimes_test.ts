import { assertEquals, assertStringIncludes } from "@std/assert";
import { askProgram, PROGRAM_PATHS } from "./host_programs.ts";
import {
  chooseRuntime,
  describeRuntime,
  findRuntimes,
  type FoundRuntime,
  resourceLimits,
} from "./installed_runtimes.ts";

type Scripts = Partial<Record<"podman" | "docker" | "container" | "bubblewrap" | "prlimit", string>>;

/** A host with these programs, each a shell script. */
async function onHost<T>(scripts: Scripts, work: (host: Parameters<typeof findRuntimes>[0]) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir();
  try {
    for (const [name, script] of Object.entries(scripts)) {
      await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\n${script}\n`);
      await Deno.chmod(`${folder}/${name}`, 0o755);
    }
    const places = {
      ...PROGRAM_PATHS,
      podman: [`${folder}/nowhere`, `${folder}/podman`],
      docker: [`${folder}/docker`],
      container: [`${folder}/container`],
      bubblewrap: [`${folder}/bubblewrap`],
      prlimit: [`${folder}/prlimit`],
    };
    const ask = askProgram({ env: (name) => name === "HOME" ? folder : undefined });
    return await work({ ask, deno: { path: "/deno", version: "2.9.6" }, places });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const found = (scripts: Scripts) => onHost(scripts, findRuntimes);

const PODMAN = JSON.stringify({
  host: { cgroupVersion: "v2", security: { rootless: true }, ociRuntime: { name: "crun" } },
  version: { Version: "5.4.0" },
});
const DOCKER = JSON.stringify({
  ServerVersion: "28.2.2",
  SecurityOptions: ["name=seccomp,profile=builtin", "name=rootless"],
  CgroupVersion: "2",
  DefaultRuntime: "runc",
});

Deno.test("findRuntimes() reads version, privileges, control groups, OCI runtime and the embedded one", async () => {
  const scripts = {
    podman: `echo '${PODMAN}'`,
    docker: `echo '${DOCKER}'`,
    container: "echo container CLI version 0.4.1 build",
  };
  assertEquals((await found(scripts)).map(describeRuntime), [
    "podman 5.4.0, rootless, cgroups v2, crun",
    "docker 28.2.2, rootless, cgroups v2, runc",
    "container 0.4.1, rootless",
    "deno 2.9.6, embedded: runs agent_d alone, which uses no file itself, and no programs",
  ]);
  assertEquals((await found({})).map(({ name }) => name), ["deno"]);
  const [broken, deno] = await found({ bubblewrap: "exit 1" });
  assertEquals([broken?.works, deno?.commands], [false, undefined]);
  const bubblewrap: FoundRuntime = { name: "bubblewrap", path: "/usr/bin/bwrap", works: true, notes: [] };
  assertStringIncludes(describeRuntime({ ...deno!, commands: bubblewrap }), "its commands in sandboxes of bubblewrap");
});

Deno.test("a runtime that fails or answers nonsense does not work, and its reason is sanitized", async () => {
  const daemonless = `echo '${JSON.stringify({ ServerErrors: ["Cannot connect to the Docker daemon"] })}'`;
  const [podman, docker, container] = await found({
    podman: "printf 'first\\n\\033[2Jcannot re-exec\\n' >&2; exit 125",
    docker: daemonless,
    container: "echo nothing to see",
  });
  assertEquals([podman, docker, container].map((one) => one?.works), [false, false, false]);
  assertEquals(podman?.notes[0]?.includes("\x1b"), false);
  assertEquals(podman?.notes[0]?.endsWith("cannot re-exec"), true);
});

Deno.test("auto takes the first that works; a name takes that one or none", () => {
  const one = (name: FoundRuntime["name"], works: boolean): FoundRuntime => ({ name, path: "/x", works, notes: [] });
  const host = [one("podman", false), one("docker", true), one("bubblewrap", true), one("deno", true)];
  assertEquals(chooseRuntime("auto", host, true)?.name, "docker");
  assertEquals(chooseRuntime("deno", host, true)?.name, "deno");
  assertEquals(chooseRuntime("podman", host, true), undefined);
  assertEquals(chooseRuntime("container", host, true), undefined);
});

Deno.test("auto takes bubblewrap without containers, and only with the default agent's program", () => {
  const one = (name: FoundRuntime["name"], works: boolean): FoundRuntime => ({ name, path: "/x", works, notes: [] });
  const host = [one("podman", false), one("bubblewrap", true), one("deno", true)];
  assertEquals(chooseRuntime("auto", host, true)?.name, "bubblewrap");
  assertEquals(chooseRuntime("auto", host, false)?.name, "deno");
  // What is missing is said when a task needs it.
  assertEquals(chooseRuntime("bubblewrap", host, false)?.name, "bubblewrap");
  assertEquals(chooseRuntime("auto", [one("bubblewrap", false), one("deno", true)], true)?.name, "deno");
});

Deno.test("a bubblewrap that is too old does not work, and says what to do", async () => {
  const [old] = await found({ bubblewrap: "echo bubblewrap 0.6.1" });
  assertEquals([old?.name, old?.works, old?.version], ["bubblewrap", false, "0.6.1"]);
  assertEquals(old?.remedy?.startsWith("Install a newer one"), true);
});

Deno.test("programs are asked without the keys that the environment has", async () => {
  await onHost({ podman: `env > "$HOME/seen"; echo '${PODMAN}'` }, async (host) => {
    const { places } = host;
    const folder = places!.prlimit[0]!.replace(/\/prlimit$/, "");
    const ask = askProgram({ env: (name) => name === "HOME" ? folder : `value of ${name}` });
    await findRuntimes({ ...host, ask });
    const seen = await Deno.readTextFile(`${folder}/seen`);
    assertEquals(/API_KEY|TOKEN|LD_PRELOAD/.test(seen), false, seen);
    assertEquals(seen.includes("XDG_RUNTIME_DIR=value of XDG_RUNTIME_DIR"), true);
  });
});

Deno.test("resourceLimits() reads numbers and unlimited, and is undefined without the program", async () => {
  const limits = (scripts: Scripts) => onHost(scripts, ({ ask, places }) => resourceLimits(ask, places));
  assertEquals(await limits({ prlimit: "echo NOFILE unlimited; echo NPROC 8" }), {
    open_files: Infinity,
    processes: 8,
  });
  assertEquals(await limits({}), undefined);
  assertEquals(await limits({ prlimit: "echo what" }), undefined);
});
