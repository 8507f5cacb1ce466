/**
 * A context for attacks in tests, and single promises tried on it.
 */

import { assertEquals } from "@std/assert";
import { RedteamContext, type RedteamOptions } from "../../../cli/redteam/context.ts";
import { PROMISES } from "../../../cli/redteam/catalogue.ts";
import { runRedteam, type TriedPromise } from "../../../cli/redteam/run_promises.ts";
import { systemClock } from "../../../lib/clock.ts";

/** Options of a context in a temporary directory, without containers. */
export const OPTIONS: RedteamOptions = {
  temporary: Deno.env.get("TMPDIR") ?? "/tmp",
  env: (name) => Deno.env.get(name),
  deno_path: Deno.execPath(),
  deno_cache_dir: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
  containers: { why: "not in this test" },
};

/** Tries the promises of these ids, or groups, with other parts in the place of the installed ones. */
export async function tryThem(
  ids: readonly string[],
  changes: Partial<RedteamOptions> = {},
): Promise<TriedPromise[]> {
  // The umask of this process is that of every test beside this one; the command in a process of its own sets it.
  const surfaces = { umask: () => 0o22, ...changes.surfaces };
  await using context = await RedteamContext.open({ ...OPTIONS, ...changes, surfaces });
  const promises = PROMISES.filter(({ id }) => ids.some((prefix) => id === prefix || id.startsWith(`${prefix}.`)));
  return (await runRedteam({ promises, context, clock: systemClock })).promises;
}

/** Those that did not hold, with why. */
export function unheld(tried: readonly TriedPromise[]): unknown[] {
  return tried.filter(({ verdict }) => verdict !== "held").map((
    { id, verdict, holes, why },
  ) => [id, verdict, holes, why]);
}

/** Each is reported as a hole because an attack went through, and not because something else was broken. */
export function allReported(tried: readonly TriedPromise[]): void {
  const reported = tried.filter(({ verdict, holes }) =>
    verdict === "hole" && holes.some((hole) => !/has to work|could not be tried|nothing was tried/.test(hole))
  );
  assertEquals(reported.map(({ id }) => id), tried.map(({ id }) => id));
}
