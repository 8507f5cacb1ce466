/**
 * Servers of the benchmarks, each in a process of its own: what is measured shares no event loop with who measures.
 *
 * A helper is a module that prints one line of JSON once it serves, and serves until it is killed. It runs with the V8
 * flags of the program's own daemons.
 */

import { YOUNG_GENERATION } from "../../cli/table/launch_flags.ts";

/** A module to run; `T` is what it prints. */
export interface Helper<T> {
  readonly module: URL;
  readonly words: readonly string[];
  /** Only a type: what {@linkcode report} of the module prints. */
  readonly reported?: T;
}

/** A running helper. */
export interface HelperProcess<T> extends AsyncDisposable {
  reported: T;
  pid: number;
}

/** Starts a helper and waits until it serves. */
export async function helperProcess<T>(
  { module, words }: Helper<T>,
  more: readonly string[] = [],
): Promise<HelperProcess<T>> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", YOUNG_GENERATION, "-A", "--no-prompt", "--quiet", module.pathname, ...words, ...more],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let line = "";
  while (!line.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`${module.pathname} ${words.join(" ")} did not start`);
    line += value;
  }
  return {
    reported: JSON.parse(line) as T,
    pid: child.pid,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await reader.cancel();
      await child.status;
    },
  };
}

/** Reports to the parent process that this one serves. */
export function report<T>(_helper: Helper<T>, reported: T): void {
  console.log(JSON.stringify(reported));
}
