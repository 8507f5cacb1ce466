/**
 * The word that was probably meant: for "did you mean" in errors about commands, flags and settings.
 */

/**
 * The candidate nearest to `word`, unless even that one is far.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(nearest("frok", ["fork", "promote"]), "fork");
 * assertEquals(nearest("zebra", ["fork", "promote"]), undefined);
 * ```
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const text = word.toLowerCase().slice(0, 64);
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const isPrefix = text.length >= 3 && candidate.startsWith(text);
    // Of equals, the one that begins alike.
    const distance = isPrefix ? 0 : levenshteinDistance(text, candidate) + (candidate[0] === text[0] ? 0 : 0.5);
    // Two swapped letters are two edits.
    const limit = candidate.length <= 3 ? 1.5 : Math.max(2.5, candidate.length / 3);
    if (distance <= limit && (best === undefined || distance < best.distance)) best = { candidate, distance };
  }
  return best?.candidate;
}

/** Insertions, removals and substitutions of characters that make `a` of `b`. */
function levenshteinDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const substituted = above[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(substituted, above[column]! + 1, current[column - 1]! + 1));
    }
    above = current;
  }
  return above[b.length]!;
}
