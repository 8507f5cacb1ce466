/**
 * A broker that a test can kill: serves the home in its environment and prints each entry of its log. With
 * SANDBOX_PROGRAMS, sandboxes are processes of this machine that run programs of that folder.
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
await broker.finished;
