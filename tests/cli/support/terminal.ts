/**
 * Runs programs at a terminal: `script` of util-linux makes one and types what the
 * test says.
 */

import { launchFlags } from "../../../cli/table/launch_flags.ts";
import type { BrokerHost } from "./broker.ts";

const MAIN = new URL("../../../cli/main.ts", import.meta.url).pathname;

/** What a terminal is like. */
export interface Terminal {
  /** What calls it finds in its environment, and nothing else but PATH. */
  env: Record<string, string>;
  cwd: string;
  /** What is typed at it. */
  typed?: string;
  /** By default `xterm`. */
  term?: string;
  /** Its width. */
  columns?: number;
}

/** Runs `taskd <words>` at a terminal where `typed` is typed; `seen` is what was on it. */
export function atTerminal(
  host: BrokerHost,
  words: readonly string[],
  typed: string,
  options: Pick<Terminal, "term" | "columns"> = {},
): Promise<{ code: number; seen: string }> {
  const program = [Deno.execPath(), "run", ...launchFlags(), MAIN, ...words];
  return runAtTerminal(program, { env: host.env, cwd: host.base, typed, ...options });
}

/** Runs any program at a terminal. */
export async function runAtTerminal(
  words: readonly string[],
  { env, cwd, typed = "", term = "xterm", columns = 80 }: Terminal,
): Promise<{ code: number; seen: string }> {
  const child = new Deno.Command("script", {
    args: ["--quiet", "--return", "--command", `stty cols ${columns} && ${words.map(quoted).join(" ")}`, "/dev/null"],
    cwd,
    clearEnv: true,
    env: { PATH: Deno.env.get("PATH") ?? "", ...env, TERM: term },
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
