/**
 * JSON of one's own, as an object.
 *
 * @module
 */

/** An object; throws when it is none. */
export function parsedJson(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new Error("it is no JSON object");
}
