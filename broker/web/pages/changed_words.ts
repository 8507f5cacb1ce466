/**
 * What changed within a line: the words by which two versions of it differ.
 */

export interface Range {
  start: number;
  end: number;
}

export interface LineChange {
  before: Range[];
  after: Range[];
}

/** Longer lines are not compared, and have no marks. */
const MAX_CHARS = 1_000;
/** Words on each side that are compared one by one. */
const MAX_WORDS = 160;
/** Below this share of common characters two lines are different lines, not versions of one. */
const MIN_COMMON = 0.35;

const NONE: LineChange = { before: [], after: [] };

function split(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^]/gu) ?? [];
}

/** The stretches of each line that the other one does not have; none when they have too little in common. */
export function changedWords(before: string, after: string): LineChange {
  if (before.length > MAX_CHARS || after.length > MAX_CHARS || before === after) return NONE;
  const [a, b] = [split(before), split(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const [mid_a, mid_b] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  if (mid_a.length > MAX_WORDS || mid_b.length > MAX_WORDS) return NONE;
  const { kept_a, kept_b } = common(mid_a, mid_b);
  const change = { before: ranges(a, head, kept_a), after: ranges(b, head, kept_b) };
  const changed = [...change.before, ...change.after].reduce((sum, { start, end }) => sum + end - start, 0);
  return changed > (before.length + after.length) * (1 - MIN_COMMON) ? NONE : change;
}

/** The longest common subsequence: which words of each side belong to it. */
function common(a: readonly string[], b: readonly string[]): { kept_a: boolean[]; kept_b: boolean[] } {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1]! + 1
        : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const kept_a = a.map(() => false);
  const kept_b = b.map(() => false);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      kept_a[i] = kept_b[j] = true;
      i++;
      j++;
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i++;
    else j++;
  }
  return { kept_a, kept_b };
}

function ranges(words: readonly string[], head: number, kept: readonly boolean[]): Range[] {
  const found: Range[] = [];
  let at = words.slice(0, head).reduce((sum, word) => sum + word.length, 0);
  for (const [index, keep] of kept.entries()) {
    const end = at + words[head + index]!.length;
    const last = found.at(-1);
    if (!keep) {
      if (last?.end === at) last.end = end;
      else found.push({ start: at, end });
    }
    at = end;
  }
  return found;
}
