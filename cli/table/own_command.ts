/**
 * How this program runs itself with other words, under the permissions it is installed with.
 */

import { launchFlags } from "./launch_flags.ts";

/**
 * A young generation of this many MiB at most: a daemon's short-lived garbage is small, and V8's own choice would cost
 * tens of megabytes.
 */
export const YOUNG_GENERATION = "--v8-flags=--max-semi-space-size=4";

export function ownCommand(words: readonly string[]): [program: string, args: string[]] {
  if (Deno.build.standalone) return [Deno.execPath(), [...words]];
  const main = new URL("../main.ts", import.meta.url).href;
  return [Deno.execPath(), ["run", "--quiet", ...launchFlags(), main, ...words]];
}

/** As {@linkcode ownCommand}, for a daemon that runs for long. */
export function ownDaemonCommand(words: readonly string[]): [program: string, args: string[]] {
  const [program, args] = ownCommand(words);
  // V8 takes no flags in a compiled program.
  return Deno.build.standalone ? [program, args] : [program, ["run", YOUNG_GENERATION, ...args.slice(1)]];
}
