/**
 * Counts in sentences.
 */

/** `1 check`, `3 checks`, `2 branches`, `4 entries`. */
export function plural(count: number, noun: string): string {
  if (count === 1) return `1 ${noun}`;
  return `${count} ${noun.endsWith("ch") ? `${noun}es` : `${noun}s`.replace(/([^aeiou])ys$/, "$1ies")}`;
}
