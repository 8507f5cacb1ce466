/**
 * Task ids: 128 random bits in lower-case hex, minted by the broker alone. People may write any prefix that names one
 * task; what names none or several is an error that says so, and never a guess.
 */

import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";

/** Hex digits of an id: 128 bits, so that two never collide. */
const TASK_ID_DIGITS = 32;
const NAMED_CANDIDATES = 4;

export function newTaskId(random: RandomBytes): string {
  return randomHex(random, TASK_ID_DIGITS / 2);
}

/** Whether `text` is a whole id, as the broker writes them. */
export function isTaskId(text: string): boolean {
  return text.length === TASK_ID_DIGITS && /^[0-9a-f]+$/.test(text);
}

/** What ids are of, for the error of a prefix that names none. */
export interface Identified {
  /** In the singular; the plural takes an s. */
  called: string;
  listed_by: string;
}

const TASKS: Identified = { called: "task", listed_by: "taskd tasks" };

/**
 * The one id among `ids` that begins with `prefix`; case does not matter.
 *
 * @param of What has these ids, tasks by default.
 * @throws {TaskdError} `usage` when `prefix` is no hex or begins several ids, `not_found` when it begins none.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 *
 * const ids = ["a1".repeat(16), "b2".repeat(16)];
 * assertEquals(resolveTaskId("b", ids), ids[1]);
 * ```
 */
export function resolveTaskId(prefix: string, ids: Iterable<string>, of: Identified = TASKS): string {
  const digits = prefix.toLowerCase();
  const shown = JSON.stringify(sanitizeLine(prefix.slice(0, TASK_ID_DIGITS + 8)));
  const attempted = `Cannot find the ${of.called} ${shown}`;
  if (digits.length > TASK_ID_DIGITS || !/^[0-9a-f]+$/.test(digits)) {
    throw new TaskdError("usage", `${attempted}: it is not the beginning of a ${of.called} id`, {
      hint: `Ids are ${TASK_ID_DIGITS} hex digits; the first few are enough when no other ${of.called} has them`,
    });
  }
  const found: string[] = [];
  let count = 0;
  for (const id of ids) {
    if (!id.startsWith(digits)) continue;
    count++;
    if (found.length < NAMED_CANDIDATES) found.push(id);
  }
  if (count === 1) return found[0]!;
  if (count === 0) {
    throw new TaskdError("not_found", `${attempted}: no ${of.called} has an id that begins so`, {
      hint: `\`${of.listed_by}\` lists what there is`,
    });
  }
  const more = count > found.length ? ` and ${count - found.length} more` : "";
  throw new TaskdError("usage", `${attempted}: ${count} ${of.called}s begin so: ${found.join(", ")}${more}`, {
    hint: "Write more digits of the id",
  });
}
