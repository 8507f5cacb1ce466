/**
 * A daemon process for tests that need limits no command line offers: the options of
 * serve() as JSON in the one argument, its log on stderr.
 *
 * @module
 */

import { serve } from "../../daemon/serve.ts";

const stop = new AbortController();
Deno.addSignalListener("SIGTERM", () => stop.abort());
const daemon = await serve({
  ...JSON.parse(Deno.args[0]!),
  signal: stop.signal,
  log: (entry) => console.error(entry),
});
const unclosed = await daemon.finished;
Deno.exit(unclosed.length === 0 ? 0 : 1);
