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

const [first, ...rest] = Deno.args;
const is_helper = Deno.build.standalone && first === INTERNAL;
// A helper starts with each sandbox: it loads nothing of the commands.
Deno.exit(
  is_helper
    ? await (await import("./run/internal.ts")).runInternal(rest)
    : await (await import("./run/dispatch.ts")).dispatch(Deno.args, import.meta.url),
);
