/**
 * A context for attacks in tests, and single promises tried on it.
 */

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
  host_sandboxes: { why: "not in this test" },
};

/** Tries the promises of these ids, or groups, with other parts in the place of the installed ones. */
export async function tryThem(
  ids: readonly string[],
  changes: Partial<RedteamOptions> = {},
): Promise<TriedPromise[]> {
  await using context = await RedteamContext.open({ ...OPTIONS, ...changes });
  const promises = PROMISES.filter(({ id }) => ids.some((prefix) => id === prefix || id.startsWith(`${prefix}.`)));
  return (await runRedteam({ promises, context, clock: systemClock })).promises;
}
