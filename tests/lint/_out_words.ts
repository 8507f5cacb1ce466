/**
 * Words that are out, with what to write instead.
 */

/** A row: forms of a word, or a phrase, and the plain words in its place. */
export interface OutWord {
  out: readonly string[];
  write: string;
}

/** The words that are out. */
export const OUT_WORDS: readonly OutWord[] = [
  { out: ["born", "bornIn"], write: "created, bound" },
  { out: ["but for"], write: "except" },
  { out: ["cradle"], write: "staging directory" },
  { out: ["door", "doors"], write: "listener policy, listener" },
  { out: ["footprint"], write: "file stamp" },
  { out: ["he", "his", "him"], write: "they, its" },
  { out: ["hereby", "thereof", "whereof"], write: "nothing, or a plain sentence" },
  { out: ["judge", "judges", "judged"], write: "check, evaluate" },
  { out: ["letGo"], write: "release" },
  { out: ["pace", "paces"], write: "poll schedule, rate" },
  { out: ["patience", "patiently"], write: "timeout, retryWhileBusy" },
  { out: ["shelf"], write: "cache store" },
  { out: ["showOut"], write: "closeGracefully" },
  { out: ["somebody", "everybody", "for ever"], write: "a process, all, without end" },
  { out: ["steady"], write: "monotonic, suspend-aware" },
  { out: ["surroundings"], write: "environment" },
  { out: ["told of"], write: "receives, is reported" },
  { out: ["what came of"], write: "result" },
  { out: ["whoever", "whomever", "anybody"], write: "the caller, a process that" },
];

/** Where a word is proper: the beginning of a path, the word, and the reason. */
export const PROPER_USES: readonly (readonly [path: string, word: string, reason: string])[] = [
  ["tests/cli/completion_test.ts", "he", "the beginning of --help"],
];

/** A word that is out, where it was found. */
export interface FoundWord {
  index: number;
  text: string;
  write: string;
}

const PATTERNS = OUT_WORDS.map(({ out, write }) => ({ pattern: new RegExp(out.map(sourceOf).join("|"), "g"), write }));

/** Finds words that are out in code, comments and text: whole words, and parts of camelCase and CONSTANT names. */
export function findOutWords(text: string): FoundWord[] {
  return PATTERNS.flatMap(({ pattern, write }) =>
    [...text.matchAll(pattern)].map(({ index, 0: found }) => ({ index, text: found, write }))
  );
}

function sourceOf(word: string): string {
  const capital = `[${word[0]!.toUpperCase()}${word[0]}]${word.slice(1)}`;
  // A phrase may be broken over lines, also of a comment.
  if (word.includes(" ")) return `\\b${capital.replaceAll(" ", "[\\s*/]+")}\\b`;
  const title = word[0]!.toUpperCase() + word.slice(1);
  const upper = word.toUpperCase();
  return `(?<![A-Za-z])${capital}(?![a-z])|(?<=[a-z])${title}(?![a-z])|(?<![A-Za-z])${upper}(?![A-Za-z])`;
}
