/**
 * What was spent, compared with a limit and in a text. Sums of binary fractions miss a figure by a hair, eight times $0.1 is less than
 * $0.8, so what differs by less than a billionth of the limit counts as equal.
 */

const TOLERANCE = 1e-9;

/** Cents, and more digits where cents would show zero. */
export function usdText(usd: number): string {
  return `$${usd.toFixed(usd > 0 && usd < 0.01 ? 6 : 2)}`;
}

export function isSpent(spent_usd: number, limit_usd: number): boolean {
  return spent_usd >= limit_usd * (1 - TOLERANCE);
}

export function isBeyond(usd: number, limit_usd: number): boolean {
  return usd > limit_usd * (1 + TOLERANCE);
}
