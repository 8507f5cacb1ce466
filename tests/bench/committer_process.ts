/**
 * Starts `committer.ts` and reads what it did.
 */

import type { Committed } from "./committer.ts";

/** How to commit. */
export interface CommitterOptions {
  synchronous: "FULL" | "NORMAL";
  duration_ms: number;
  /** Transactions per second; 0 for as fast as it can. */
  per_second: number;
}

/** Lets an application commit on `path`; `onStart` is called when it begins. */
export async function commitOn(path: string, options: CommitterOptions, onStart = () => {}): Promise<Committed> {
  const script = new URL("./committer.ts", import.meta.url).pathname;
  const { synchronous, duration_ms, per_second } = options;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", "--quiet", script, path, synchronous, String(duration_ms), String(per_second)],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text !== "ready\n") continue;
    onStart();
    const input = child.stdin.getWriter();
    await input.write(new TextEncoder().encode("go\n"));
    await input.close();
  }
  const { code } = await child.status;
  if (code !== 0) throw new Error(`The committing application ended with ${code}`);
  return JSON.parse(text.slice("ready\n".length)) as Committed;
}
