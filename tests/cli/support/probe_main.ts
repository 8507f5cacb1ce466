/**
 * The program of `cli/main.ts`, real in everything but the commands' modules.
 */

import { dispatch } from "../../../cli/run/dispatch.ts";
import { probeLoad } from "./probe_load.ts";
import type {} from "./probe_worker.ts";

const worker = new URL("./probe_worker.ts", import.meta.url);
Deno.exit(
  await dispatch(Deno.args, import.meta.url, {
    workers: { none: worker, store: worker, broker: worker },
    load: probeLoad,
  }),
);
