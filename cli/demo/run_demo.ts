/**
 * The demo: both halves of taskd on real input, in half a minute, as commands that are printed and run.
 *
 * It works in a temporary directory, with daemons of its own and a home directory of theirs, and leaves nothing behind:
 * not when it ends, not when it fails, not on Ctrl-C. Every statement that it prints is checked.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Io } from "../text/io.ts";
import type { DemoHost, DemoRuntime } from "./broker_home.ts";
import { needPodman } from "./podman.ts";
import { findSqlClient } from "./seller.ts";
import { type DemoFacts, showStory } from "./story.ts";
import type { Step } from "./transcript.ts";

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
  facts: DemoFacts;
}

/**
 * Runs the demo, and prints it line by line unless `io` is for programs.
 *
 * @throws {TaskdError} `not_found` when a program that it needs is missing; `internal` when a statement does not hold;
 * `interrupted`.
 */
export async function runDemo(
  io: Pick<Io, "colours" | "json" | "signal" | "styled">,
  { temporary, keep, ...options }: DemoOptions,
): Promise<DemoResult> {
  const start = performance.now();
  const { colours: colour, signal } = io;
  const print = io.json ? () => {} : (line: string) => io.styled(line);
  const dir = await Deno.makeTempDir({ dir: temporary, prefix: "taskd-demo-" });
  try {
    print(`An agent, a shop and a crash; in ${dir}${keep ? "" : ", removed at the end"}`);
    if (options.runtime === "podman") await needPodman();
    const sqlite3 = await findSqlClient();
    const { facts, transcript } = await showStory({ ...options, dir, sqlite3, colour, print, signal });
    const duration_ms = performance.now() - start;
    const end = keep ? `Look around in ${dir}, which HOME is to name` : "Nothing is left behind";
    print(`\nDone in ${(duration_ms / 1_000).toFixed(1)} s. ${end}.`);
    return { duration_ms, ...(keep ? { directory: dir } : {}), steps: transcript.steps, facts };
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new TaskdError(
      "interrupted",
      `The demo was interrupted; ${keep ? `what it made is in ${dir}` : "nothing is left behind"}`,
    );
  } finally {
    if (!keep) await Deno.remove(dir, { recursive: true });
  }
}
