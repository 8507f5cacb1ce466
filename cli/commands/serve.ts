/**
 * The command `taskd serve`.
 *
 * @module
 */

import type { Args } from "../args.ts";
import type { Io } from "../io.ts";

/** Serves until it is interrupted. */
export async function run(_args: Args, _io: Io): Promise<undefined> {
}

/** Nothing is left to print. */
export function render(): string {
  return "";
}
