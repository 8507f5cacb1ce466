/**
 * `taskd demo`: the whole branch store on real input, in a quarter of a minute.
 *
 * It works in a temporary directory, with a daemon of its own, and leaves neither
 * behind: not when it ends, not when it fails, not on Ctrl-C.
 *
 * @module
 */

import type { Io } from "./io.ts";
import { formatMs, Narrator, type Step } from "./demo/narrator.ts";
import { type StoryFacts, tellStory } from "./demo/story.ts";

/** How the demo is run. */
export interface DemoOptions {
  /** Size of the shop, default 50. */
  size_mb?: number;
  /** Leave the directory, to look around. */
  keep?: boolean;
  /** Whether lines may carry colour. */
  colour?: boolean;
}

/** What `--json` prints. */
export interface DemoResult {
  ok: true;
  duration_ms: number;
  /** The directory, when it was kept. */
  directory?: string;
  steps: Step[];
  facts: StoryFacts;
}

/** Runs the demo, telling it line by line unless `io` is for programs. */
export async function runDemo(
  io: Pick<Io, "json" | "signal" | "styled">,
  options: DemoOptions = {},
): Promise<DemoResult> {
  const start = performance.now();
  const narrator = new Narrator({
    print: io.json ? () => {} : (line) => io.styled(line),
    colour: options.colour ?? false,
    signal: io.signal,
  });
  const dir = await Deno.makeTempDir({ prefix: "taskd-demo-" });
  try {
    narrator.say(`One shop, three migrations, one crash; in ${dir}${options.keep ? "" : ", removed at the end"}\n`);
    const facts = await tellStory({ dir, size_mb: options.size_mb ?? 50, narrator, signal: io.signal });
    const duration_ms = performance.now() - start;
    narrator.say(
      `\nDone in ${formatMs(duration_ms)}.${options.keep ? ` Look around in ${dir}` : " Nothing is left behind."}`,
    );
    return { ok: true, duration_ms, ...(options.keep ? { directory: dir } : {}), steps: narrator.steps, facts };
  } finally {
    if (!options.keep) await Deno.remove(dir, { recursive: true });
  }
}
