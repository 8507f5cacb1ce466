/**
 * `deno task demo`: both halves of taskd on real input, in half a minute. An agent fixes a program and the data that it
 * stored, and one approval pushes the one and promotes the other; then migrations are tried on branches of a larger
 * database. It needs git and an SQLite client, and no network, key or container.
 *
 * A program of its own: it starts SQLite clients, git and daemons, and taskd itself may start nothing of the kind. It
 * works in a temporary directory, with daemons of its own and a home directory of theirs, and leaves nothing behind: not
 * when it ends, not when it fails, not on Ctrl-C.
 *
 * @module
 */

import { parseArgs } from "node:util";
import { join } from "@std/path/join";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { EXIT_OK } from "../text/exit_codes.ts";
import { reportFailure } from "../text/failure.ts";
import type { Io } from "../text/io.ts";
import { isDumbTerminal } from "../plan/launch.ts";
import { processIo } from "../run/run.ts";
import { needPodman } from "./podman.ts";
import { findSqlProgram } from "./sql_client.ts";
import { formatMs, Narrator, type Step } from "./narrator.ts";
import type { DemoRuntime } from "./broker_home.ts";
import { type CodeFacts, tellCodeStory } from "./code_story.ts";
import { type DataFacts, tellDataStory } from "./data_story.ts";

const DEFAULT_SIZE_MB = 30;
const QUICK_SIZE_MB = 12;

/** How the demo is run. */
export interface DemoOptions {
  /** What the agent runs in, by default the embedded sandbox. */
  runtime?: DemoRuntime;
  /** Size of the shop, default 30. */
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
  facts: { code: CodeFacts; data: DataFacts };
}

/** Runs the demo, telling it line by line unless `io` is for programs. */
async function runDemo(
  io: Pick<Io, "json" | "signal" | "styled" | "live">,
  options: DemoOptions = {},
): Promise<DemoResult> {
  const start = performance.now();
  const { size_mb = DEFAULT_SIZE_MB, runtime = "deno", colour = false } = options;
  const live = io.live();
  const narrator = new Narrator({
    print: io.json ? () => {} : (line) => io.styled(line),
    colour,
    ...(live === undefined ? {} : { busy: (text: string) => live.show(text) }),
    signal: io.signal,
  });
  const dir = await Deno.makeTempDir({ prefix: "taskd-demo-" });
  try {
    narrator.say(`An agent, a shop and two crashes; in ${dir}${options.keep ? "" : ", removed at the end"}`);
    if (runtime === "podman") await needPodman();
    const common = { narrator, signal: io.signal };
    const program = await findSqlProgram(io.signal);
    narrator.chapter("An agent fixes a program and its data, and a person decides what leaves");
    const code = await tellCodeStory({ ...common, dir: await folder(dir, "code"), runtime, colour });
    narrator.chapter("Three migrations on branches of one database, while an application writes");
    const data = await tellDataStory({ ...common, dir: await folder(dir, "data"), size_mb, program });
    const facts = { code, data };
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

/** Each half has a folder of its own, which nobody else may enter. */
async function folder(dir: string, name: string): Promise<string> {
  const path = join(dir, name);
  await Deno.mkdir(path, { mode: 0o700 });
  return path;
}

const HELP = `deno task demo [--json] [--keep] [--quick] [--size MB] [--runtime deno|podman]
  --json          print one JSON object instead of the story
  --keep          leave the directory, to look around
  --quick         a shop of ${QUICK_SIZE_MB} MB
  --size MB       size of the shop, ${QUICK_SIZE_MB} or more; ${DEFAULT_SIZE_MB} when absent
  --runtime NAME  what the agent runs in: deno, the embedded sandbox, or podman`;

async function main(words: string[]): Promise<number> {
  const asks_json = words.includes("--json");
  const stop = new AbortController();
  const dumb = isDumbTerminal((name) => Deno.env.get(name));
  const io = processIo({ flags: { json: asks_json }, dumb }, stop.signal);
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => stop.abort());
  try {
    const options = readWords(words);
    if (options === undefined) {
      io.out(HELP);
      return EXIT_OK;
    }
    const result = await runDemo(io, { ...options, colour: io.colours });
    if (io.json) io.outJson(result);
    return EXIT_OK;
  } catch (error) {
    return reportFailure(error, io);
  }
}

/** Undefined when help is asked for. */
function readWords(words: string[]): DemoOptions | undefined {
  try {
    const options = {
      json: { type: "boolean" },
      keep: { type: "boolean", default: false },
      quick: { type: "boolean", default: false },
      size: { type: "string" },
      runtime: { type: "string", default: "deno" },
      help: { type: "boolean", default: false },
    } as const;
    const { keep, quick, help, runtime, ...values } = parseArgs({ args: words, options }).values;
    if (help) return undefined;
    if (runtime !== "deno" && runtime !== "podman") throw new Error(`${runtime} is neither deno nor podman`);
    const size = values.size ?? String(quick ? QUICK_SIZE_MB : DEFAULT_SIZE_MB);
    if (!/^\d{2,4}$/.test(size) || Number(size) < QUICK_SIZE_MB) {
      throw new Error(`${size} is not a size from ${QUICK_SIZE_MB} to 9999 MB`);
    }
    return { keep, runtime, size_mb: Number(size) };
  } catch (error) {
    const reason = messageOf(error);
    throw new TaskdError("usage", `Cannot run the demo: ${reason}`, { hint: HELP.split("\n")[0]! });
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
