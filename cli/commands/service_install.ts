/**
 * The command `taskd service install`.
 *
 * @module
 */

import { installUnit } from "../setup/service.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { serviceFile } from "./_service.ts";
import { asking, hostOf } from "./_environment.ts";

/** What was done. */
export interface ServiceInstallResult {
  manager: string;
  path: string;
  /** Whether the manager has started it. */
  started: boolean;
}

/** Writes the file and starts the service. */
export async function run(args: Args, io: Io): Promise<ServiceInstallResult> {
  const file = serviceFile(args);
  const started = args.on("start");
  await installUnit(file, {
    ask: asking(args, io.signal),
    programs: hostOf(args).programs,
    uid: Deno.uid() ?? 0,
    started,
  });
  return { manager: file.manager, path: file.path, started };
}

/** The lines for people, and what a user's service needs to outlive the session. */
export function render({ manager, path, started }: ServiceInstallResult): string {
  const lines = [`Wrote ${path}`];
  if (started) lines.push("The broker is a service now");
  if (manager === "systemd") lines.push("To keep it running after you log out: loginctl enable-linger");
  return lines.join("\n");
}
