/**
 * The demo: both halves of taskd on real input, in half a minute. An agent fixes a program and the data that it stored,
 * and one approval pushes the one and promotes the other; then a migration is tried on a branch of a larger database.
 *
 * It works in a temporary directory, with daemons of its own and a home directory of theirs, and leaves nothing behind:
 * not when it ends, not when it fails, not on Ctrl-C. Every statement that it prints is checked.
 */

import { join } from "@std/path/join";
import { TaskdError } from "../../lib/errors.ts";
import type { Io } from "../text/io.ts";
import { needPodman } from "./podman.ts";
import { findSqlProgram } from "./sql_client.ts";
import { formatMs, Narrator, type Step } from "./narrator.ts";
import type { DemoHost, DemoRuntime } from "./broker_home.ts";
import { type CodeFacts, tellCodeStory } from "./code_story.ts";
import { type DataFacts, tellDataStory } from "./data_story.ts";

export interface DemoOptions {
  entry: string;
  /** Directory to work below. */
  temporary: string;
  host: DemoHost;
  runtime: DemoRuntime;
  size_mb: number;
  keep: boolean;
}

export interface DemoResult {
  duration_ms: number;
  directory?: string;
  steps: Step[];
  facts: { code: CodeFacts; data: DataFacts };
}

/**
 * Runs the demo, and prints it line by line unless `io` is for programs.
 *
 * @throws {TaskdError} `not_found` when a program that it needs is missing; `internal` when a statement does not hold;
 * `interrupted`.
 */
export async function runDemo(
  io: Pick<Io, "colours" | "json" | "live" | "signal" | "styled">,
  { entry, temporary, host, runtime, size_mb, keep }: DemoOptions,
): Promise<DemoResult> {
  const start = performance.now();
  const colour = io.colours;
  const live = io.live();
  const narrator = new Narrator({
    print: io.json ? () => {} : (line) => io.styled(line),
    colour,
    ...(live === undefined ? {} : { busy: (text: string) => live.show(text) }),
    signal: io.signal,
  });
  const dir = await Deno.makeTempDir({ dir: temporary, prefix: "taskd-demo-" });
  try {
    narrator.say(`An agent, a shop and two crashes; in ${dir}${keep ? "" : ", removed at the end"}`);
    if (runtime === "podman") await needPodman();
    const common = { narrator, entry, signal: io.signal };
    const program = await findSqlProgram(io.signal);
    narrator.chapter("An agent fixes a program and its data, and a person decides what leaves");
    const code = await tellCodeStory({ ...common, host, dir: await folder(dir, "code"), runtime, colour });
    narrator.chapter("A migration on a branch of a database, while an application writes");
    const data = await tellDataStory({ ...common, dir: await folder(dir, "data"), size_mb, program });
    const duration_ms = performance.now() - start;
    narrator.say(
      `\nDone in ${formatMs(duration_ms)}.${keep ? ` Look around in ${dir}` : " Nothing is left behind."}`,
    );
    return { duration_ms, ...(keep ? { directory: dir } : {}), steps: narrator.steps, facts: { code, data } };
  } catch (error) {
    if (!io.signal.aborted) throw error;
    throw new TaskdError(
      "interrupted",
      `The demo was interrupted; ${keep ? `what it made is in ${dir}` : "nothing is left behind"}`,
    );
  } finally {
    if (!keep) await Deno.remove(dir, { recursive: true });
  }
}

/** Each half has a folder of its own, for this user alone. */
async function folder(dir: string, name: string): Promise<string> {
  const path = join(dir, name);
  await Deno.mkdir(path, { mode: 0o700 });
  return path;
}
