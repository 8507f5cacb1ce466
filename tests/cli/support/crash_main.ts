/**
 * The program of `cli/main.ts` with a Worker that dies.
 */

import { dispatch } from "../../../cli/run/dispatch.ts";
import { probeLoad } from "./probe_load.ts";
import type {} from "./crash_worker.ts";

const worker = new URL("./crash_worker.ts", import.meta.url);
Deno.exit(
  await dispatch(Deno.args, import.meta.url, {
    workers: { none: worker, store: worker, broker: worker },
    load: probeLoad,
  }),
);
