/**
 * Links and pipes for hostile trees, made by the host's own programs: a runtime whose permissions name paths makes no
 * links, since these could lead out of them.
 */

import { TaskdError } from "../../lib/errors.ts";

export function makeLink(target: string, path: string): Promise<void> {
  return make("/bin/ln", ["-s", "--", target, path]);
}

export function makeHardLink(target: string, path: string): Promise<void> {
  return make("/bin/ln", ["--", target, path]);
}

export function makePipe(path: string): Promise<void> {
  return make("/usr/bin/mkfifo", [path]);
}

async function make(program: string, args: string[]): Promise<void> {
  const command = new Deno.Command(program, { args, clearEnv: true, stdin: "null", stdout: "null", stderr: "piped" });
  const { success, stderr } = await command.output();
  if (!success) throw new TaskdError("internal", `${program}: ${new TextDecoder().decode(stderr).trim()}`);
}
