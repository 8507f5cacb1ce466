/**
 * Counts in sentences.
 */

/** `1 check`, `3 checks`, `2 branches`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
}
