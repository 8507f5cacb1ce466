/**
 * Colours for code: comments, strings, numbers and keywords, recognised line by line.
 *
 * It knows families of languages, not languages, and nothing of the lines before: a diff shows pieces of files. So it
 * never colours a line as a comment that does not begin as one, which in a review would be worse than no colour.
 */

import type { Range } from "./changed_words.ts";

export interface Token extends Range {
  kind: "comment" | "string" | "number" | "keyword";
}

interface Family {
  /** One alternative for each kind, by group name. */
  pattern: RegExp;
  keywords: ReadonlySet<string>;
}

/** Longer lines stay plain. */
const MAX_CHARS = 2_000;

const STRINGS = String.raw`"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?`;
const NUMBER = String.raw`(?<number>\b\d[\w.]*)`;
const WORD = String.raw`(?<word>[\p{L}_$][\p{L}\p{N}_$]*)`;

function family(comment: string, strings: string, keywords: string): Family {
  return {
    pattern: new RegExp(`(?<comment>${comment})|(?<string>${strings})|${NUMBER}|${WORD}`, "gu"),
    keywords: new Set(keywords.split(" ")),
  };
}

const C_WORDS =
  "abstract as async await bool boolean break case catch char class const constexpr continue crate default defer delete do double else enum export extends extern false final finally float fn for from func function go goto if impl implements import in inline instanceof int interface internal is let long loop match mod module mut namespace new nil null operator out override package private protected public pub range readonly ref return select self short signed sizeof static string struct super switch this throw throws trait true try type typedef typeof undefined union unsafe unsigned use using val var virtual void volatile when where while yield";
const HASH_WORDS =
  "and as assert async await begin break case class continue def del do done elif else elsif end ensure esac except export false False fi finally for from function global if import in is lambda local module next nil None nonlocal not null or pass raise require rescue return self set then true True try unless until while with yield yes no on off";
const SQL_WORDS =
  "add all alter and as asc begin between by case cascade check column commit constraint create default delete desc distinct drop else end exists foreign from group having if in index inner insert into is join key left like limit not null on or order outer primary references returning right rollback select set table then trigger union unique update using values view when where with";

const C = family(String.raw`//.*|/\*.*?(?:\*/|$)`, `${STRINGS}|${"`(?:\\\\.|[^`\\\\])*`?"}`, C_WORDS);
const HASH = family(String.raw`(?<=^|\s)#.*`, STRINGS, HASH_WORDS);
const SETTINGS = family(String.raw`(?<=^|\s)#.*`, STRINGS, "true false null yes no");
const SQL = family(String.raw`--.*|/\*.*?(?:\*/|$)`, STRINGS, `${SQL_WORDS} ${SQL_WORDS.toUpperCase()}`);
const MARKUP = family(String.raw`<!--.*?(?:-->|$)`, String.raw`(?<==)"[^"]*"?|(?<==)'[^']*'?`, "");
const STYLES = family(
  String.raw`/\*.*?(?:\*/|$)`,
  STRINGS,
  "important media supports import layer container keyframes",
);
const DATA = family(String.raw`(?!)`, STRINGS, "true false null");

const BY_EXTENSION: ReadonlyMap<string, Family> = new Map(
  ([
    [
      C,
      "c h cc cpp cxx hpp hh cs java js jsx mjs cjs ts tsx mts cts go rs kt kts swift scala dart php proto gradle groovy zig sol",
    ],
    [HASH, "py pyi rb sh bash zsh fish pl r mk nix ex exs jl cmake"],
    [SETTINGS, "yml yaml toml tf hcl ini cfg conf"],
    [SQL, "sql lua hs elm"],
    [MARKUP, "html htm xml svg vue svelte"],
    [STYLES, "css scss less"],
    [DATA, "json jsonc json5 webmanifest"],
  ] as const).flatMap(([kind, extensions]) => extensions.split(" ").map((name) => [name, kind] as const)),
);
const BY_NAME =
  /^(?:dockerfile|containerfile|makefile|gemfile|rakefile|justfile|procfile|\.env.*|\.gitignore|codeowners)$/;

/** Colours lines of a file, by its name; undefined when nothing is known of its language. */
export function colouring(path: string): ((line: string) => Token[]) | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const kind = BY_NAME.test(name) ? HASH : BY_EXTENSION.get(name.slice(name.lastIndexOf(".") + 1));
  return kind === undefined ? undefined : (line) => tokenize(kind, line);
}

function tokenize({ pattern, keywords }: Family, line: string): Token[] {
  if (line.length > MAX_CHARS) return [];
  const tokens: Token[] = [];
  for (const { index, 0: text, groups } of line.matchAll(pattern)) {
    const kind = groups!.comment !== undefined
      ? "comment"
      : groups!.string !== undefined
      ? "string"
      : groups!.number !== undefined
      ? "number"
      : keywords.has(text)
      ? "keyword"
      : undefined;
    if (kind !== undefined) tokens.push({ start: index, end: index + text.length, kind });
  }
  return tokens;
}
