/**
 * The command `taskd service uninstall`.
 *
 * @module
 */

import { uninstallUnit } from "../../broker/setup/service.ts";
import { unitPath } from "../../broker/setup/units.ts";
import type { Args } from "../args.ts";
import type { Io } from "../io.ts";
import { managerOf } from "./_service.ts";
import { asking, hostOf } from "./_surroundings.ts";

/** The file that is gone. */
export interface ServiceUninstallResult {
  path: string;
}

/** Has the manager stop it, and removes the file. */
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

/** Says so. */
export function render({ path }: ServiceUninstallResult): string {
  return `Removed ${path}`;
}
