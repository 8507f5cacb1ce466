/**
 * Lists of words that a table in the code has: written as people read them, and not a line each.
 */

/** The words of `text`, which white space separates. */
export function words(text: string): string[] {
  return text.trim().split(/\s+/);
}
