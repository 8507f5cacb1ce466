/**
 * The command `taskd version`.
 */

import { VERSION } from "../../lib/version.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";

export interface VersionResult {
  version: string;
  deno: string;
  target: string;
}

export function run(_args: Args, _io: Io): Promise<VersionResult> {
  return Promise.resolve({ version: VERSION, deno: Deno.version.deno, target: Deno.build.target });
}

export function render(result: VersionResult): string {
  return `taskd ${result.version} (deno ${result.deno}, ${result.target})`;
}
