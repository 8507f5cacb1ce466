/**
 * The program. Start-up time is a promise, so nothing is imported here that a
 * call may not need: each command's modules load when it runs.
 *
 * @module
 */

import { dispatch } from "./run/dispatch.ts";

Deno.exit(await dispatch(Deno.args));
