/**
 * The program `taskd`. Each command's modules load when it runs, so that a call starts fast.
 *
 * Importing this module runs the program with the words of `Deno.args` and ends the process. `taskd help` lists the
 * commands; each call gives up every permission that its command does not need.
 *
 * @example Run a command from another program
 * ```ts
 * const { stdout } = await new Deno.Command(Deno.execPath(), {
 *   args: ["run", "--quiet", "-A", "--unstable-worker-options", import.meta.resolve("@taskd/taskd/cli"), "version", "--json"],
 * }).output();
 * console.log(JSON.parse(new TextDecoder().decode(stdout)).version);
 * ```
 *
 * @module
 */

import { INTERNAL } from "../lib/helper_process.ts";
import { dispatch } from "./run/dispatch.ts";

const [first, ...rest] = Deno.args;
const is_helper = Deno.build.standalone && first === INTERNAL;
Deno.exit(
  is_helper ? await (await import("./run/internal.ts")).runInternal(rest) : await dispatch(Deno.args, import.meta.url),
);
