/** Single promises tried on a context of their own. */

import { runRedteam, type TriedPromise } from "../../cli/redteam/run_promises.ts";
import { systemClock } from "../../lib/clock.ts";
import { COMMON_PROMISES } from "./catalogue.ts";
import { AttackContext, type AttackOptions } from "./context.ts";

export { allReported, unheld } from "../cli/redteam/verdicts.ts";

/** Tries the promises of these ids, or groups, with other parts in the place of the real ones. */
export async function tryThem(ids: readonly string[], options: AttackOptions = {}): Promise<TriedPromise[]> {
  await using context = new AttackContext(options);
  const promises = COMMON_PROMISES.filter(({ id }) => ids.some((name) => id === name || id.startsWith(`${name}.`)));
  return (await runRedteam({ promises, context, clock: systemClock })).promises;
}
