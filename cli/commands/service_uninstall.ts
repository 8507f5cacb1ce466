/**
 * The command `taskd service uninstall`.
 *
 * @module
 */

import { uninstallUnit } from "../setup/service.ts";
import { unitPath } from "../setup/units.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { managerOf } from "./_service.ts";
import { asking, hostOf } from "./_environment.ts";

/** The file that was removed. */
export interface ServiceUninstallResult {
  path: string;
}

/** Stops the service and removes the file. */
export async function run(args: Args, io: Io): Promise<ServiceUninstallResult> {
  const manager = managerOf(args);
  const path = unitPath(manager, args.broker.home);
  await uninstallUnit({ manager, path }, {
    ask: asking(args, io.signal),
    programs: hostOf(args).programs,
    uid: Deno.uid() ?? 0,
  });
  return { path };
}

/** The line for people. */
export function render({ path }: ServiceUninstallResult): string {
  return `Removed ${path}`;
}
