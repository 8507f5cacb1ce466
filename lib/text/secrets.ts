/**
 * Finds secrets in texts and bytes. Secrets may begin with one another and overlap: no part of any of them remains.
 */

interface Searchable<T> {
  readonly length: number;
  indexOf(part: T, from?: number): number;
}

/** Where `text` is part of a secret, from and to, in order and apart; empty secrets are ignored. */
export function secretRanges<T extends Searchable<T>>(text: T, secrets: Iterable<T>): [number, number][] {
  const found: [number, number][] = [];
  for (const secret of secrets) {
    if (secret.length === 0) continue;
    for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1)) {
      found.push([at, at + secret.length]);
    }
  }
  const ranges: [number, number][] = [];
  for (const range of found.sort(([a], [b]) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && range[0] < last[1]) last[1] = Math.max(last[1], range[1]);
    else ranges.push(range);
  }
  return ranges;
}

/** `text` with asterisks in place of every secret: three, or what `mark` says for a secret part. */
export function hideSecrets(text: string, secrets: Iterable<string>, mark = (_part: string): string => "***"): string {
  let [shown, from] = ["", 0];
  for (const [start, end] of secretRanges(text, secrets)) {
    shown += text.slice(from, start) + mark(text.slice(start, end));
    from = end;
  }
  return shown + text.slice(from);
}
