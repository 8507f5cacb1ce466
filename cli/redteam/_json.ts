/**
 * JSON objects.
 *
 * @module
 */

/** Parses an object; throws for anything else. */
export function parsedJson(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new Error("it is no JSON object");
}
