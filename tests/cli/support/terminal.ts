/**
 * Runs the real program at a terminal: `script` of util-linux makes one and types what the
 * test says.
 *
 * @module
 */

import { launchFlags } from "../../../cli/launch_flags.ts";
import type { BrokerHost } from "./broker.ts";

const MAIN = new URL("../../../cli/main.ts", import.meta.url).pathname;

/** Runs `taskd <words>` at a terminal where `typed` is typed; `seen` is what was on it. */
export async function atTerminal(
  host: BrokerHost,
  words: readonly string[],
  typed: string,
): Promise<{ code: number; seen: string }> {
  const line = [Deno.execPath(), "run", ...launchFlags(), MAIN, ...words].map(quoted).join(" ");
  const child = new Deno.Command("script", {
    args: ["--quiet", "--return", "--command", line, "/dev/null"],
    cwd: host.base,
    env: { ...host.env, TERM: "xterm" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const stdin = child.stdin.getWriter();
  await stdin.write(new TextEncoder().encode(typed));
  // Its end would be typed too, and would end the program's questions before they are asked.
  const { code, stdout } = await child.output();
  await stdin.close().catch(() => {});
  return { code, seen: new TextDecoder().decode(stdout) };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Whether a program is there. */
export async function isInstalled(program: string): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args: ["--version"], stdout: "null", stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}
