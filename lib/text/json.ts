/**
 * Reading JSON that another program wrote.
 */

/**
 * The value of JSON text or UTF-8 bytes; undefined when they are not JSON. The parser's message is dropped on purpose:
 * it quotes the text, which may hold a secret.
 */
export function parseJson(json: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof json === "string" ? json : new TextDecoder().decode(json));
  } catch {
    return undefined;
  }
}
