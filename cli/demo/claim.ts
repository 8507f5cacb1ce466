/**
 * What the demo says has to be so: every claim is checked before it is told.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";

/** Throws unless `holds`; `text` is what should be. */
export function claim(holds: boolean, text: string): asserts holds {
  if (!holds) throw new TaskdError("internal", `The demo's claim does not hold: ${text}`);
}
