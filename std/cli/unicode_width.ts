// As jsr:@std/cli@1 has it. deno-std has it without its tables.
import { eastAsianWidth } from "npm:get-east-asian-width@1.7.0";

/** Columns that the code points of `str` take on a terminal, each for itself; controls and marks take none. */
export function unicodeWidth(str: string): number {
  let width = 0;
  for (const point of str) {
    if (!/^[\p{Cc}\p{Cf}\p{Mn}\p{Me}]$/u.test(point)) width += eastAsianWidth(point.codePointAt(0)!);
  }
  return width;
}
