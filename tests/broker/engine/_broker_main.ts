/**
 * A broker that a test can kill: serves the home in its environment and prints each entry of its log. With
 * SANDBOX_PROGRAMS, sandboxes are processes of this machine that run programs of that folder; with KILL_AFTER_ROW, fields of
 * a trace's row as JSON, it ends by SIGKILL as soon as such a row is on the disk, before anything follows from it.
 */

import { serveBroker } from "../../../broker/serve.ts";
import { ProcessRuntime } from "./process_runtime.ts";

const home = Deno.env.get("HOME");
if (home === undefined) throw new Error("HOME is not set");
const programs = Deno.env.get("SANDBOX_PROGRAMS");
const encoder = new TextEncoder();
const broker = await serveBroker({
  home,
  env: (name) => Deno.env.get(name),
  write: (line) => void Deno.stdout.writeSync(encoder.encode(`${line}\n`)),
  programs: { gh: [] },
  overrides: programs === undefined ? {} : { runtime: new ProcessRuntime(programs) },
});
const last = Deno.env.get("KILL_AFTER_ROW");
if (last !== undefined) {
  const fields = Object.entries(JSON.parse(last));
  broker.engine.tasks.onChange(({ rows }) => {
    const is_last = rows.some((row) => fields.every(([name, value]) => row[name as keyof typeof row] === value));
    if (is_last) Deno.kill(Deno.pid, "SIGKILL");
  });
}
await broker.finished;
