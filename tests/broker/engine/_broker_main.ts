/**
 * A broker that a test can kill: serves the home in its environment and prints each entry of its log.
 *
 * @module
 */

import { serveBroker } from "../../../broker/serve.ts";

const home = Deno.env.get("HOME");
if (home === undefined) throw new Error("HOME is not set");
const encoder = new TextEncoder();
const broker = await serveBroker({
  home,
  env: (name) => Deno.env.get(name),
  write: (line) => void Deno.stdout.writeSync(encoder.encode(`${line}\n`)),
  overrides: { gh_paths: [] },
});
await broker.finished;
