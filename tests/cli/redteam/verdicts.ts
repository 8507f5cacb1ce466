/** What came out of promises that were tried. */

import { assertEquals } from "@std/assert";
import type { TriedPromise } from "../../../cli/redteam/run_promises.ts";

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
