/** How this program runs itself with other words, under the permissions it is installed with. */

import { launchFlags } from "./launch_flags.ts";

/** The program to start and its arguments; `entry` is the URL of this program's main module. */
export function ownCommand(entry: string, words: readonly string[]): [program: string, args: string[]] {
  if (Deno.build.standalone) return [Deno.execPath(), [...words]];
  return [Deno.execPath(), ["run", "--quiet", ...launchFlags(), entry, ...words]];
}
