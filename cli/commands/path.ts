/**
 * The command `taskd path`.
 *
 * @module
 */

import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";

/** Where a checkout is. */
export interface PathResult {
  path: string;
}

/** Finds the file. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<PathResult> {
  return { path: await (await ops.store()).path(args.address("address")) };
}

/** The path alone. */
export function render(result: PathResult): string {
  return result.path;
}
