/**
 * Parsing what the store keeps as JSON. After damage it may be anything, so it takes
 * neither long nor much: millions of nested brackets would keep JSON.parse busy for many seconds.
 */

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
  if (text.length > SMALL_CHARS) refuseDeep(text);
  return JSON.parse(text);
}

function refuseDeep(text: string): void {
  let depth = 0;
  let in_string = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (in_string) {
      if (char === 0x5c) at++; // a backslash, and what it escapes
      else if (char === 0x22) in_string = false;
    } else if (char === 0x22) {
      in_string = true;
    } else if (char === 0x5b || char === 0x7b) {
      if (++depth > MAX_DEPTH) throw new SyntaxError(`nested more than ${MAX_DEPTH} deep`);
    } else if (char === 0x5d || char === 0x7d) {
      depth--;
    }
  }
}
