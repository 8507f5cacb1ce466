/**
 * `deno task demo`: the whole branch store on real input, in a quarter of a minute.
 * A program of its own: it starts SQLite clients and daemons, and taskd itself may start nothing of the kind.
 *
 * It works in a temporary directory, with a daemon of its own, and leaves neither
 * behind: not when it ends, not when it fails, not on Ctrl-C.
 *
 * @module
 */

import { parseArgs } from "node:util";
import { TaskdError } from "../lib/errors.ts";
import { EXIT_OK } from "./exit_codes.ts";
import { reportFailure } from "./failure.ts";
import type { Io } from "./io.ts";
import { processIo } from "./run.ts";
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
  } catch (error) {
    if (!io.signal.aborted) throw error;
    throw new TaskdError("interrupted", "The demo was interrupted; nothing is left behind");
  } finally {
    if (!options.keep) await Deno.remove(dir, { recursive: true });
  }
}

const HELP = `deno task demo [--json] [--keep] [--size MB]
  --json      print one JSON object instead of the story
  --keep      leave the directory, to look around
  --size MB   size of the shop, 12 or more; 50 when absent`;

async function main(words: string[]): Promise<number> {
  const asks_json = words.includes("--json");
  const stop = new AbortController();
  const io = processIo({ flags: { json: asks_json } }, stop.signal);
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => stop.abort());
  try {
    const { size, keep, help } = readWords(words);
    if (help) {
      io.out(HELP);
      return EXIT_OK;
    }
    const colour = Deno.stdout.isTerminal() && !Deno.noColor;
    const result = await runDemo(io, { keep, size_mb: size, colour });
    if (io.json) io.outJson(result);
    return EXIT_OK;
  } catch (error) {
    return reportFailure(error, io);
  }
}

function readWords(words: string[]): { size: number; keep: boolean; help: boolean } {
  try {
    const options = {
      json: { type: "boolean" },
      keep: { type: "boolean", default: false },
      size: { type: "string", default: "50" },
      help: { type: "boolean", default: false },
    } as const;
    const { keep, help, size } = parseArgs({ args: words, options }).values;
    if (!/^\d{2,4}$/.test(size) || Number(size) < 12) throw new Error(`${size} is not a size from 12 to 9999 MB`);
    return { size: Number(size), keep, help };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new TaskdError("usage", `Cannot run the demo: ${reason}`, { hint: HELP.split("\n")[0]! });
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
