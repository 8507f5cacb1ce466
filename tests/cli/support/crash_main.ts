/**
 * The program of `cli/main.ts` with a Worker that dies.
 *
 * @module
 */

import { dispatch } from "../../../cli/dispatch.ts";
import { probeLoad } from "./probe_load.ts";
import type {} from "./crash_worker.ts";

Deno.exit(await dispatch(Deno.args, { worker: new URL("./crash_worker.ts", import.meta.url), load: probeLoad }));
