/**
 * A daemon process for tests that need limits no command line offers: the options of
 * serve() as JSON in the one argument, its log on stderr.
 */

import { serve, type ServeOptions } from "../../daemon/serve.ts";
import { TaskdError } from "../../lib/errors.ts";

const stop = new AbortController();
Deno.addSignalListener("SIGTERM", () => stop.abort());
const options: ServeOptions = JSON.parse(Deno.args[0]!);
const serving = serve({ ...options, signal: stop.signal, log: (entry) => console.error(entry) });
const daemon = await serving.catch((error) => {
  console.error(error instanceof TaskdError ? `${error.code}: ${error.message}` : error);
  Deno.exit(1);
});
const unclosed = await daemon.finished;
Deno.exit(unclosed.length === 0 ? 0 : 1);
