/** The collector of garbage, for tests of what is not held any more. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { nextTurn } from "../../lib/clock.ts";

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

/** How many of these objects something still holds. */
export async function countHeld(objects: readonly WeakRef<object>[]): Promise<number> {
  // What is on its way holds them for a turn or two.
  for (let turn = 0; turn < 10; turn++) await nextTurn();
  collect();
  return objects.filter((each) => each.deref() !== undefined).length;
}
