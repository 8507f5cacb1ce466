/**
 * Counts in sentences.
 *
 * @module
 */

/** `1 check`, `3 checks`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
