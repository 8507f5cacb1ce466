/**
 * Runs programs in container sandboxes for tests, and reads what they print.
 */

import { ATTEMPTS_PRELUDE } from "../../../cli/redteam/inputs/container_scripts.ts";
import { randomHex, systemRandom } from "../../../lib/clock.ts";
import type {
  CommandWorkload,
  OutputLine,
  Sandbox,
  SandboxEnd,
  SandboxRuntime,
  SandboxSpec,
} from "../../../broker/sandbox/runtime.ts";

/** A runtime of a test; the image's names are of no use to one that has none. */
interface TestRuntime {
  runtime: Pick<SandboxRuntime, "start">;
  network: string;
  image: string;
}

/** What a sandbox is started with beside what every one has. */
export type ContainerChanges =
  & Partial<Pick<SandboxSpec, "memory_bytes" | "timeout_ms" | "max_output_bytes" | "task_id">>
  & Partial<Pick<CommandWorkload, "env" | "mounts" | "max_pids" | "reach" | "image">>;

/** A started sandbox and what it printed so far. */
export interface Started {
  task_id: string;
  work_dir: string;
  sandbox: Sandbox;
  lines: OutputLine[];
  /** Resolves with the first line of standard output that begins so. */
  line(start: string): Promise<string>;
}

/** Starts `command` with `files` in its work folder. */
export async function startIn(
  { runtime, network, image }: TestRuntime,
  command: readonly string[],
  { files = {}, ...changes }: ContainerChanges & { files?: Record<string, string> } = {},
): Promise<Started> {
  const work_dir = await Deno.makeTempDir();
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${work_dir}/${name}`, text);
  const lines: OutputLine[] = [];
  const waiting: { start: string; resolve: (text: string) => void }[] = [];
  const task_id = changes.task_id ?? randomHex(systemRandom, 16);
  const sandbox = await runtime.start({
    task_id,
    work_dir,
    workload: {
      kind: "command",
      image: changes.image ?? image,
      command,
      env: changes.env ?? {},
      mounts: changes.mounts ?? [],
      network,
      max_pids: changes.max_pids ?? 128,
      ...(changes.reach === undefined ? {} : { reach: changes.reach }),
    },
    memory_bytes: changes.memory_bytes ?? 512 << 20,
    timeout_ms: changes.timeout_ms ?? 120_000,
    max_output_bytes: changes.max_output_bytes ?? 1 << 20,
    onOutput(line) {
      lines.push(line);
      for (const { start, resolve } of waiting) if (line.text.startsWith(start)) resolve(line.text);
    },
  });
  const line = async (start: string) => {
    const found = lines.find(({ text }) => text.startsWith(start));
    if (found !== undefined) return found.text;
    const { promise, resolve } = Promise.withResolvers<string>();
    waiting.push({ start, resolve });
    const ended = sandbox.wait().then(() => {
      throw new Error(`it ended without a line ${start}: ${JSON.stringify(lines)}`);
    });
    return await Promise.race([promise, ended]);
  };
  return { task_id, work_dir, sandbox, lines, line };
}

/** Runs `command` to its end. */
export async function runIn(
  test: TestRuntime,
  command: readonly string[],
  changes: Parameters<typeof startIn>[2] = {},
): Promise<{ end: SandboxEnd; out: string[]; err: string[]; work_dir: string; task_id: string }> {
  const { sandbox, lines, work_dir, task_id } = await startIn(test, command, changes);
  const end = await sandbox.wait();
  const of = (stream: string) => lines.filter((line) => line.stream === stream).map(({ text }) => text);
  return { end, out: of("stdout"), err: of("stderr"), work_dir, task_id };
}

/** Runs a script of attempts, each of which prints a row `{name, got}`, and returns the result of each. */
export async function attempts(
  test: TestRuntime,
  script: string,
  changes: Parameters<typeof startIn>[2] = {},
): Promise<Map<string, string>> {
  const files = { ...changes.files, "attempts.py": `${ATTEMPTS_PRELUDE}${script}` };
  const { end, out, err } = await runIn(test, ["python3", "/workspace/attempts.py"], { ...changes, files });
  if (end.code !== 0) throw new Error(`the attempts ended with ${end.code}: ${err.join("\n")}`);
  return new Map(out.map((line) => JSON.parse(line)).map(({ name, got }) => [name, got]));
}
