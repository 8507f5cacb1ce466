/** The command `taskd demo`. */

import { TaskdError } from "../../lib/errors.ts";
import { type DemoResult, runDemo } from "../demo/run_demo.ts";
import type { Args } from "../plan/args.ts";
import { type DEMO_RUNTIMES, DEMO_SIZES_MB, DEMO_VARIABLES } from "../table/demo.ts";
import type { Io } from "../text/io.ts";
import { environment } from "./_environment.ts";

export async function run(args: Args, io: Io): Promise<DemoResult> {
  const runtime = args.choice<typeof DEMO_RUNTIMES[number]>("runtime")!;
  const size_mb = args.number("size") ?? (args.on("quick") ? DEMO_SIZES_MB.smallest : DEMO_SIZES_MB.usual);
  if (size_mb > DEMO_SIZES_MB.largest) {
    throw new TaskdError("usage", `Cannot run the demo: a shop has ${DEMO_SIZES_MB.largest} MiB at most`, {
      hint: `Without --size the shop has ${DEMO_SIZES_MB.usual} MB`,
    });
  }
  const tools = environment(args);
  const env = (name: string) => DEMO_VARIABLES.includes(name) ? Deno.env.get(name) : tools(name);
  const host = { home: args.broker.home, env };
  const { entry, temporary } = args.host;
  return await runDemo(io, { entry, temporary, host, runtime, size_mb, keep: args.on("keep") });
}
