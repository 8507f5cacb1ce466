/**
 * Parts of results in words, as several commands print them.
 *
 * @module
 */

/** `<db>@<branch>`. */
export function branchName(result: { db: string; branch: string }): string {
  return `${result.db}@${result.branch}`;
}

/** `1 page`, `2 pages`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
}

/** An ISO 8601 stamp to the second, as `2026-01-31 12:00:00Z`. */
export function stamp(iso: string): string {
  return iso.replace("T", " ").replace(/\.\d+(?=Z)/, "");
}
