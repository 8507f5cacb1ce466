/**
 * The broker of a soak run, in a process of its own: the product's, with the agent of the run in its sandboxes. SIGTERM
 * ends it as `taskd stop` does.
 */

import { DenoRuntime } from "../../broker/sandbox/deno_runtime.ts";
import { ownerOf, serveBroker } from "../../broker/serve.ts";
import { systemClock } from "../../lib/clock.ts";

const env = (name: string) => Deno.env.get(name);
const home = env("HOME");
const cache_dir = env("DENO_DIR");
if (home === undefined || cache_dir === undefined) throw new Error("HOME and DENO_DIR have to be set");
const stopping = new AbortController();
const stop = () => stopping.abort();
Deno.addSignalListener("SIGTERM", stop);
const encoder = new TextEncoder();
const broker = await serveBroker({
  home,
  env,
  signal: stopping.signal,
  write: (line) => void Deno.stdout.writeSync(encoder.encode(`${line}\n`)),
  programs: { gh: [] },
  overrides: {
    runtime: new DenoRuntime({
      deno_path: Deno.execPath(),
      cache_dir,
      owner: ownerOf(home),
      clock: systemClock,
      agent: { name: "agent", module: import.meta.resolve("./agent.ts") },
    }),
  },
});
await broker.finished;
Deno.removeSignalListener("SIGTERM", stop);
