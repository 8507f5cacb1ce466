/**
 * What it takes until a program's first instruction behind bubblewrap, beside a bare `bwrap` on the same staged tree.
 */

import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { randomHex, systemRandom } from "../../../lib/clock.ts";
import { BWRAP, type TestBubblewrap, testBubblewrap, WITHOUT_BUBBLEWRAP } from "../../support/bubblewrap.ts";
import { findBounding } from "../../../broker/sandbox/bubblewrap/control_groups.ts";
import { askProgram } from "../../../broker/sandbox/host_programs.ts";
import type { BenchCase } from "../bench.ts";
import type { Place } from "../file_systems.ts";
import { interleave } from "../stats.ts";
import { wholeBroker } from "./_broker.ts";

/** Nanoseconds since 1970: the clock of a sandbox is the host's. */
const SAY_WHEN = ["date", "+%s%N"];
/** In the place of opencode: the file that it writes is in the task's change. */
const AGENT = `#!/bin/sh\n${SAY_WHEN.join(" ")} > /workspace/began\n`;
const FILES = 200;
/** The least that the same program needs to see the same tree, with nothing that holds it. */
const BARE = [
  ...["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"],
  ...["bin", "lib", "lib64"].flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
];

/** The case. */
export const bubblewrap: BenchCase = {
  name: "bubblewrap",
  title: "Start a program of the machine behind bubblewrap",
  method:
    `From the order to the first program in the sandbox, by the clock that both share, on a tree of ${FILES} files. ` +
    "`bare bwrap` has the system, the tree and namespaces; `taskd sandbox` is the runtime alone, with its filter, its " +
    "limits, a control group where there is one, and the way to the gateway. `submitted task` begins before " +
    "`POST /tasks`, so that admission, cloning and the trace are in it.",
  places: "plain",
  async run(bench, place) {
    if (WITHOUT_BUBBLEWRAP !== undefined) return bench.skip("bubblewrap", WITHOUT_BUBBLEWRAP);
    await using cleanup = new AsyncDisposableStack();
    // Nothing of /tmp is shown to sandboxes.
    const programs = await Deno.makeTempDir({ dir: "/var/tmp" });
    cleanup.defer(() => Deno.remove(programs, { recursive: true }));
    await Deno.chmod(programs, 0o755);
    await Deno.writeTextFile(join(programs, "opencode"), AGENT, { mode: 0o755 });
    await using broker = await wholeBroker(place, "bubblewrap", { path: programs });
    await using test = await testBubblewrap({ bounding: await bounding() });
    const { client, git, reachesGate } = broker;
    const taken = await interleave({
      bare: () => onTree(place, (tree) => sinceStart(() => bare(tree))),
      runtime: () => onTree(place, (tree) => sinceStart(() => sandboxed(test, tree))),
      task: () =>
        sinceStart(async () => {
          const { id } = await client.submit({ repo: git.origin, instruction: "Say when" });
          await reachesGate(id);
          const diff = new TextDecoder().decode((await client.diff(id)).bytes);
          await client.deny(id);
          return /^\+(\d{19})$/m.exec(diff)?.[1] ?? "";
        }),
    }, { samples: bench.pick(30, 3) });
    bench.add(place, "bare bwrap", "ms", taken.bare!);
    bench.add(place, "taskd sandbox", "ms", taken.runtime!, { beside: "bare bwrap" });
    bench.add(place, "submitted task", "ms", taken.task!, { beside: "bare bwrap" });
    const added = taken.runtime!.map((ms, at) => ms - taken.bare![at]!);
    bench.add(place, "added to a bare run by a sandbox", "ms", added, { target: { value: 60, is: "at_most" } });
  },
};

/** What bounds sandboxes here, as a broker finds it. */
function bounding() {
  const ask = askProgram({ env: (name) => Deno.env.get(name) });
  return findBounding(ask, { name: `taskd-bench-${randomHex(systemRandom, 8)}`, uid: Deno.uid() ?? 0, systemd: true });
}

/** Milliseconds until what the work returns, which is a moment that a program has printed. */
async function sinceStart(work: () => Promise<string>): Promise<number> {
  const start_ms = Date.now();
  const said = await work();
  if (!/^\d{19}\s*$/.test(said)) throw new Error(`The program did not say when it began: ${said.slice(0, 200)}`);
  return Number(said) / 1e6 - start_ms;
}

/** Works on a new tree of the same files. */
async function onTree<T>(place: Place, work: (tree: string) => Promise<T>): Promise<T> {
  const tree = await Deno.makeTempDir({ dir: place.dir });
  try {
    for (let at = 0; at < FILES; at++) {
      const path = join(tree, `${at % 10}`, `${at}.txt`);
      await Deno.mkdir(dirname(path), { recursive: true });
      await Deno.writeTextFile(path, `${at}\n`);
    }
    return await work(tree);
  } finally {
    await Deno.remove(tree, { recursive: true });
  }
}

async function bare(tree: string): Promise<string> {
  const args = [...BARE, "--bind", tree, "/workspace", "--chdir", "/workspace", ...SAY_WHEN];
  const { code, stdout, stderr } = await new Deno.Command(BWRAP, { args }).output();
  if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

async function sandboxed({ runtime }: TestBubblewrap, work_dir: string): Promise<string> {
  let said = "";
  const sandbox = await runtime.start({
    task_id: randomHex(systemRandom, 16),
    work_dir,
    workload: {
      kind: "command",
      image: "none",
      command: SAY_WHEN,
      env: {},
      mounts: [],
      network: "none",
      max_pids: 128,
    },
    memory_bytes: 512 << 20,
    timeout_ms: 60_000,
    max_output_bytes: 1 << 20,
    onOutput: ({ text }) => said ||= text,
  });
  await sandbox.wait();
  return said;
}
