/**
 * Parsing what the store keeps as JSON. After damage it may be anything, so it takes
 * neither long nor much: millions of nested brackets would keep JSON.parse busy for many seconds.
 */

import { beyondLimits } from "../text/json_marks.ts";

/** Far deeper than anything that is written. */
const MAX_DEPTH = 64;
/** Up to here any nesting is parsed at once. */
const SMALL_CHARS = 64 * 1024;

/**
 * The value of JSON text.
 *
 * @throws {SyntaxError} When it is no JSON, or nested too deeply.
 */
export function parseStoredJson(text: string): unknown {
  if (text.length > SMALL_CHARS && beyondLimits(text, { max_marks: Infinity, max_depth: MAX_DEPTH })) {
    throw new SyntaxError(`nested more than ${MAX_DEPTH} deep`);
  }
  return JSON.parse(text);
}
