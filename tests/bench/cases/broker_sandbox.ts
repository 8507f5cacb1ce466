/**
 * What it takes until an agent's first instruction, beside a bare `podman run` of the same image.
 */

import { join } from "@std/path/join";
import { randomHex, systemRandom } from "../../../lib/clock.ts";
import { podman, testImages, type TestRuntime, testRuntime, WITHOUT_PODMAN } from "../../support/podman.ts";
import type { Bench, BenchCase } from "../bench.ts";
import type { Place } from "../file_systems.ts";
import { run } from "../process.ts";
import { elapsed, interleave } from "../stats.ts";
import { wholeBroker } from "./_broker.ts";

/** The image with an agent that only says when it began. */
const IMAGE = "localhost/taskd-bench-agent:latest";
/** Nanoseconds since 1970: the clock of a container is the host's. */
const SAY_WHEN = ["date", "+%s%N"];
const AGENT = `#!/bin/sh\n${SAY_WHEN.join(" ")} > /workspace/began\n`;

/** The case. */
export const sandbox: BenchCase = {
  name: "sandbox",
  title: "Start an agent",
  method:
    "From the order to the first program in the container, by the clock that both share. `bare` is `podman run` of the same image without network, firewall and limits; `taskd sandbox` is the runtime alone; " +
    "`submitted task` begins before `POST /tasks`, so that admission, cloning and the trace are in it. Of the embedded runtime, the end is the agent's first request to the model; beside it, Deno running an empty module.",
  places: "plain",
  async run(bench, place) {
    await embedded(bench, place);
    if (WITHOUT_PODMAN === undefined) await containers(bench, place);
    else bench.skip("containers", WITHOUT_PODMAN);
  },
};

async function embedded(bench: Bench, place: Place): Promise<void> {
  const empty = join(place.dir, "empty.ts");
  await Deno.writeTextFile(empty, "export {};\n");
  await using broker = await wholeBroker(place, "deno");
  const { client, git, asked, reachesGate } = broker;
  const taken = await interleave({
    bare: () => elapsed(() => run(Deno.execPath(), ["run", "--no-prompt", "--quiet", empty])),
    task: async () => {
      const first = asked();
      const start = performance.now();
      const { id } = await client.submit({ repo: git.origin, instruction: "Say hello" });
      const took_ms = await first - start;
      await reachesGate(id);
      await client.deny(id);
      return took_ms;
    },
  }, { samples: bench.pick(20, 3) });
  bench.add(place, "deno, empty", "ms", taken.bare!);
  bench.add(place, "submitted task, embedded", "ms", taken.task!, { beside: "deno, empty" });
}

async function containers(bench: Bench, place: Place): Promise<void> {
  const images = await testImages();
  await buildAgent(place, images.sandbox);
  await using test = await testRuntime();
  await test.runtime.prepare();
  await using cleanup = new AsyncDisposableStack();
  const config = `sandbox_image: ${IMAGE}\nanchor_image: ${images.anchor}\n`;
  await using broker = await wholeBroker(place, "podman", { config });
  cleanup.defer(async () => void await podman("network", "rm", "--force", broker.network));
  const { client, git, reachesGate } = broker;
  const bare = await bareFlags();
  const taken = await interleave({
    bare: async () => {
      const start_ms = Date.now();
      const { code, stdout, stderr } = await podman("run", "--rm", "--network=none", ...bare, IMAGE, ...SAY_WHEN);
      if (code !== 0) throw new Error(stderr);
      return began(stdout) - start_ms;
    },
    runtime: async () => {
      const start_ms = Date.now();
      return began(await sayWhen(test)) - start_ms;
    },
    task: async () => {
      const start_ms = Date.now();
      const { id } = await client.submit({ repo: git.origin, instruction: "Say when" });
      await reachesGate(id);
      const diff = new TextDecoder().decode((await client.diff(id)).bytes);
      await client.deny(id);
      return began(/^\+(\d{19})$/m.exec(diff)?.[1] ?? "") - start_ms;
    },
  }, { samples: bench.pick(15, 3) });
  bench.add(place, "bare podman run", "ms", taken.bare!);
  bench.add(place, "taskd sandbox", "ms", taken.runtime!, { beside: "bare podman run" });
  bench.add(place, "submitted task", "ms", taken.task!, { beside: "bare podman run" });
  bench.add(
    place,
    "added to a bare run by a submitted task",
    "ms",
    taken.task!.map((ms, at) => ms - taken.bare![at]!),
    {
      target: { value: 1_000, is: "at_most" },
    },
  );
}

/** What the image's program says in a sandbox of the runtime alone. */
async function sayWhen({ runtime, network }: TestRuntime): Promise<string> {
  const work_dir = await Deno.makeTempDir();
  let said = "";
  try {
    const sandbox = await runtime.start({
      task_id: randomHex(systemRandom, 16),
      work_dir,
      workload: { kind: "command", image: IMAGE, command: SAY_WHEN, env: {}, mounts: [], network, max_pids: 128 },
      memory_bytes: 512 << 20,
      timeout_ms: 60_000,
      max_output_bytes: 1 << 20,
      onOutput: ({ text }) => said ||= text,
    });
    await sandbox.wait();
    return said;
  } finally {
    await Deno.remove(work_dir, { recursive: true });
  }
}

/** Milliseconds since 1970, of what {@linkcode SAY_WHEN} printed. */
function began(text: string): number {
  if (!/^\d{19}\s*$/.test(text)) throw new Error(`The agent did not say when it began: ${text.slice(0, 200)}`);
  return Number(text) / 1e6;
}

/** The sandbox image with the stand-in for an agent in the place where its program is found first. */
async function buildAgent(place: Place, from: string): Promise<void> {
  const dir = join(place.dir, "image");
  await Deno.mkdir(dir);
  await Deno.writeTextFile(join(dir, "opencode"), AGENT, { mode: 0o755 });
  await Deno.writeTextFile(join(dir, "Containerfile"), `FROM ${from}\nCOPY opencode /usr/local/sbin/opencode\n`);
  await run("podman", ["build", "--quiet", "--tag", IMAGE, dir]);
}

/** What podman needs here to run anything: nothing, where its own choice works. */
async function bareFlags(): Promise<string[]> {
  const tried = [[], ["--runtime=runc", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"]];
  for (const flags of tried) {
    if ((await podman("run", "--rm", "--network=none", ...flags, IMAGE, "true")).code === 0) return flags;
  }
  throw new Error("podman cannot run the benchmark's image");
}
