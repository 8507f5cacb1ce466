/**
 * Parsing what the store keeps as JSON. After damage it may be anything, so it takes
 * neither long nor much: millions of nested brackets would keep JSON.parse busy for many seconds.
 */

/** Far deeper than anything that is written. */
const MAX_DEPTH = 64;
/** Up to here any nesting is parsed at once. */
const SMALL_BYTES = 64 * 1024;

/**
 * The value of UTF-8 bytes.
 *
 * @throws {SyntaxError | TypeError} When they are no JSON, no UTF-8, or nested too deeply.
 */
export function parseStoredJson(bytes: Uint8Array): unknown {
  if (bytes.length > SMALL_BYTES) refuseDeep(bytes);
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
}

function refuseDeep(bytes: Uint8Array): void {
  let depth = 0;
  let in_string = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (in_string) {
      if (byte === 0x5c) at++; // a backslash, and what it escapes
      else if (byte === 0x22) in_string = false;
    } else if (byte === 0x22) {
      in_string = true;
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > MAX_DEPTH) throw new SyntaxError(`nested more than ${MAX_DEPTH} deep`);
    } else if (byte === 0x5d || byte === 0x7d) {
      depth--;
    }
  }
}
