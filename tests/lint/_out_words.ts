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
  { out: ["besides"], write: "beside, also, except" },
  { out: ["born", "bornIn"], write: "created, bound" },
  { out: ["but for"], write: "except" },
  { out: ["carryOver"], write: "rebind" },
  { out: ["cradle"], write: "staging directory" },
  { out: ["door", "doors"], write: "listener policy, listener" },
  { out: ["footprint"], write: "file stamp" },
  { out: ["giveUp"], write: "abort" },
  { out: ["he", "his", "him"], write: "they, its" },
  { out: ["hereby", "thereof", "whereof"], write: "nothing, or a plain sentence" },
  { out: ["judge", "judges", "judged"], write: "check, evaluate" },
  { out: ["letGo"], write: "release" },
  { out: ["lookAt"], write: "inspect, stat" },
  { out: ["nobody"], write: "no process, no one else, any caller that" },
  { out: ["pace", "paces"], write: "poll schedule, rate" },
  { out: ["patience", "patiently"], write: "timeout, retryWhileBusy" },
  { out: ["shelf"], write: "cache store" },
  { out: ["showOut"], write: "closeGracefully" },
  { out: ["somebody", "everybody", "for ever"], write: "a process, all, without end" },
  { out: ["steady"], write: "monotonic, suspend-aware" },
  { out: ["surroundings"], write: "environment" },
  { out: ["tells", "told"], write: "returns, logs, reports, receives" },
  { out: ["that is none", "which is none"], write: "an invalid one" },
  { out: ["the way out"], write: "egress" },
  { out: ["wanted", "isWanted"], write: "requested, isSuccess" },
  { out: ["what came of"], write: "result" },
  { out: ["whoever", "whomever", "anybody"], write: "the caller, a process that" },
];

/** Where a word is proper: the beginning of a path, the word, and the reason. */
const PROPER_USES: readonly (readonly [path: string, word: string, reason: string])[] = [
  ["tests/bench/cases/broker_proxy.ts", "nobody", "the user of that name"],
  ["cli/setup/units.ts", "wanted", "a directive of systemd"],
  ["docs/how-to/production_database.md", "wanted", "a directive of systemd"],
  ["tests/docs/long/systemctl.ts", "wanted", "a directive of systemd"],
  ["tests/cli/completion_test.ts", "he", "the beginning of --help"],
];

/** A word that is out, where it was found. */
export interface FoundWord {
  index: number;
  text: string;
  write: string;
}

const PATTERNS = OUT_WORDS.map(({ out, write }) => ({ pattern: new RegExp(out.map(sourceOf).join("|"), "g"), write }));

/** Finds words that are out in code, comments and text of the file `path`: whole words, and parts of camelCase and CONSTANT names. */
export function findOutWords(text: string, path: string): FoundWord[] {
  const proper = PROPER_USES.filter(([beginning]) => path.startsWith(beginning)).map(([, word]) => word);
  return PATTERNS.flatMap(({ pattern, write }) =>
    [...text.matchAll(pattern)].map(({ index, 0: found }) => ({ index, text: found, write }))
  ).filter((found) => !proper.includes(found.text.toLowerCase()));
}

function sourceOf(word: string): string {
  const capital = `[${word[0]!.toUpperCase()}${word[0]}]${word.slice(1)}`;
  // A phrase may be broken over lines, also of a comment.
  if (word.includes(" ")) return `\\b${capital.replaceAll(" ", "[\\s*/]+")}\\b`;
  const title = word[0]!.toUpperCase() + word.slice(1);
  const upper = word.toUpperCase();
  return `(?<![A-Za-z])${capital}(?![a-z])|(?<=[a-z])${title}(?![a-z])|(?<![A-Za-z])${upper}(?![A-Za-z])`;
}
