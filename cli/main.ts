/**
 * The program `taskd`. Each command's modules load when it runs, so that a call starts fast.
 *
 * @module
 */

import { INTERNAL } from "../lib/helper_process.ts";
import { dispatch } from "./run/dispatch.ts";

const [first, ...rest] = Deno.args;
const is_helper = Deno.build.standalone && first === INTERNAL;
Deno.exit(is_helper ? await (await import("./run/internal.ts")).runInternal(rest) : await dispatch(Deno.args));
