/**
 * Runs the real program, as installed: its own process, its own launch flags. A call that only repeats what such a start
 * did runs in this process: see `in_process.ts`.
 */

import { launchFlags } from "../../../cli/table/launch_flags.ts";
import { repeatedHere } from "./in_process.ts";
import { denoDirectory } from "../../support/deno_directory.ts";

/** What a call came to. */
export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/** A directory with a store in it. */
export interface Place extends AsyncDisposable {
  /** The directory. */
  base: string;
  /** The store's location: by default a directory that does not exist yet. */
  store: string;
  /** Runs `taskd <words>` there: the first call of its shape in a file as a process, any later one in this process. */
  taskd(...words: string[]): Promise<Outcome>;
  /** Runs `taskd <words>` there with `input` on its stdin. */
  taskdWith(input: string, ...words: string[]): Promise<Outcome>;
  /** Runs `taskd <words>` there with other variables in its environment. */
  taskdIn(env: Record<string, string>, ...words: string[]): Promise<Outcome>;
  /** Runs `taskd <words> --json` and returns its object; fails unless the exit status is `code`, 0 by default. */
  json(words: string[], code?: number): Promise<Record<string, unknown>>;
  /** Starts `taskd <words>` and leaves it running, its streams piped. */
  start(...words: string[]): Deno.ChildProcess;
}

const MAIN = new URL("../../../cli/main.ts", import.meta.url).pathname;

/** How a place differs from the usual one. */
export interface PlaceOptions {
  /** Another location of the store. */
  store?: string;
  /** What every call also finds in its environment, given the place's directory. */
  env?: (base: string) => Record<string, string>;
  /** Descriptors that what {@linkcode Place.start} starts may have open. */
  open_files?: number;
}

interface CallOptions {
  open_files?: number | undefined;
  stdin?: "null" | "piped";
  env?: Record<string, string>;
}

/** Makes a place of its own for one test. */
export async function makePlace(options: PlaceOptions = {}): Promise<Place> {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "taskd-" }));
  const store = options.store ?? `${base}/store`;
  const deno_dir = await denoDirectory();
  const command = (
    words: string[],
    { stdin = "null", env = options.env?.(base) ?? {}, open_files }: CallOptions = {},
  ) => {
    const program = [Deno.execPath(), "run", ...launchFlags(), MAIN, ...words];
    const limited = open_files === undefined
      ? program
      : ["/bin/sh", "-c", `ulimit -n ${open_files}; exec "$@"`, "sh", ...program];
    return new Deno.Command(limited[0]!, {
      args: limited.slice(1),
      cwd: base,
      env: { DENO_DIR: deno_dir, BSTORE_STORE: store, NO_COLOR: "1", ...env },
      stdin,
      stdout: "piped",
      stderr: "piped",
    });
  };
  const outcome = ({ code, stdout, stderr }: Deno.CommandOutput) => {
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  };
  const environment = { BSTORE_STORE: store, NO_COLOR: "1", ...options.env?.(base) };
  const taskd = async (...words: string[]) =>
    await repeatedHere(words, { base, env: environment }) ?? outcome(await command(words).output());
  return {
    base,
    store,
    taskd,
    taskdWith: async (input, ...words) => {
      const child = command(words, { stdin: "piped" }).spawn();
      await new Blob([input]).stream().pipeTo(child.stdin);
      return outcome(await child.output());
    },
    taskdIn: async (env, ...words) => outcome(await command(words, { env }).output()),
    json: async (words, code = 0) => {
      const outcome = await taskd(...words, "--json");
      if (outcome.code !== code) throw new Error(`taskd ${words.join(" ")}: ${JSON.stringify(outcome)}`);
      return JSON.parse(outcome.stdout);
    },
    start: (...words) => command(words, { open_files: options.open_files }).spawn(),
    [Symbol.asyncDispose]: async () => {
      await Deno.remove(base, { recursive: true });
    },
  };
}
