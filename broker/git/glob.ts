/**
 * Globs of the diff policy: `*` and `?` stay within a path segment, `**` crosses segments, `[abc]` and `{a,b}` choose.
 * Names that begin with a dot match like any other, and every other character stands for itself, parentheses too.
 */

// @ts-types="@types/picomatch"
import picomatch from "picomatch";
import { TaskdError } from "../../lib/errors.ts";

const GLOB_OPTIONS = {
  dot: true,
  nonegate: true,
  noextglob: true,
  // `[!a]` as well as `[^a]`.
  posix: true,
  strictBrackets: true,
  // `dir/**` is what lies below dir, not dir.
  strictSlashes: true,
  windows: false,
  // `.` in what picomatch builds has to match newlines: otherwise a file with one in its name escapes `dir/**`.
  flags: "s",
} as const;

/** Each of these doubles the number of expressions. */
const MAX_INNER_GLOBSTARS = 4;

/**
 * @returns Whether a path, relative and with `/` between its segments, matches.
 * @throws {TaskdError} `invalid_request` when the pattern cannot be read.
 */
export function compileGlob(glob: string): (path: string) => boolean {
  if (glob === "" || glob.startsWith("/")) refuse(glob, "it matches no path of a repository");
  if (endsInSlash(glob)) refuse(glob, "what ends with a slash matches nothing: write dir/**");
  try {
    const expressions = expand(glob.split("/").map(settle)).map((pattern) => picomatch.makeRe(pattern, GLOB_OPTIONS));
    return (path) => expressions.some((expression) => expression.test(path));
  } catch (error) {
    if (error instanceof TaskdError) throw error;
    refuse(glob, "its brackets are not closed");
  }
}

/** Whether a pattern, or one of the choices at its end, ends with a slash: no path does. */
function endsInSlash(glob: string): boolean {
  const tokens = (glob.match(/\\.|\[[^\]]*\]|./gs) ?? []).values();
  return glob.endsWith("/") || endOf(tokens, { braced: false }).slash;
}

interface End {
  /** Whether a choice ends with a slash. */
  slash: boolean;
  /** Whether a choice is nothing. */
  empty: boolean;
  /** What came after it: the end, or what separates choices. */
  by: string | undefined;
}

function endOf(tokens: Iterator<string>, { braced }: { braced: boolean }): End {
  let [slash, empty] = [false, true];
  for (;;) {
    const token: string | undefined = tokens.next().value;
    if (token === undefined || (braced && (token === "," || token === "}"))) return { slash, empty, by: token };
    const next = token === "{" ? choicesEnd(tokens) : { slash: token === "/", empty: false };
    [slash, empty] = [next.slash || (next.empty && slash), empty && next.empty];
  }
}

/** The end of what stands in braces. */
function choicesEnd(tokens: Iterator<string>): Pick<End, "slash" | "empty"> {
  const choices: End[] = [];
  do choices.push(endOf(tokens, { braced: true })); while (choices.at(-1)!.by === ",");
  // A single one is no choice: its braces stand for themselves.
  if (choices.length === 1) return { slash: false, empty: false };
  return { slash: choices.some(({ slash }) => slash), empty: choices.some(({ empty }) => empty) };
}

/**
 * Takes from characters what picomatch would read into them: `app/(group)/page` is a usual path. Classes and what is
 * escaped already stay.
 */
function settle(segment: string): string {
  return segment.replace(/\\.|\[[^\]]*\]|[()|$^+@!]/gs, (found) => found.length === 1 ? `\\${found}` : found)
    .replace(/\*{3,}/g, "**");
}

/** `a**b` crosses segments, too: to picomatch, only a `**` between slashes does. */
function expand(segments: string[]): string[] {
  const inner = segments.filter((segment) => segment !== "**").join("/").split("**").length - 1;
  if (inner > MAX_INNER_GLOBSTARS) {
    refuse(segments.join("/"), `it has more than ${MAX_INNER_GLOBSTARS} times ** in names`);
  }
  return segments.reduce<string[]>((patterns, segment, at) => {
    const choices = segment === "**" ? [segment] : widen(segment);
    return patterns.flatMap((pattern) => choices.map((choice) => at === 0 ? choice : `${pattern}/${choice}`));
  }, [""]);
}

function widen(segment: string): string[] {
  const at = segment.indexOf("**");
  if (at < 0) return [segment];
  const [before, after] = [segment.slice(0, at), segment.slice(at + 2)];
  return widen(after).flatMap((rest) => [`${before}*${rest}`, `${before}*/**/*${rest}`]);
}

function refuse(glob: string, why: string): never {
  throw new TaskdError("invalid_request", `Cannot read the glob ${JSON.stringify(glob.slice(0, 200))}: ${why}`, {
    hint: "Patterns are relative to the repository: dir/**, **/*.pem, docs/*.md",
  });
}
