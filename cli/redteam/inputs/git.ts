/** What a hostile work tree has in it; `taskd redteam` and the tests of git share it. */

/** Names that some system reads as `.git`. */
export const DOT_GIT_SPELLINGS: readonly string[] = [
  ".GIT",
  ".Git",
  ".git.",
  "git~1",
  "GIT~1",
  ".git::$INDEX_ALLOCATION",
  ".git ",
  ".git. .",
  ".g\u200cit",
];

/** Names that take hold of a terminal or of the order in which they are read. */
export const DECEIVING_NAMES: readonly string[] = [
  "line\nbreak",
  "\u001b[31mred\u001b[0m",
  "tab\t",
  "\u202egpj.exe",
];

/** Names that are only unusual, and those that a command line would take for something else. */
export const UNUSUAL_NAMES: readonly string[] = ["quote\"'", "-rf", ":(exclude)*", "ü"];

/** Attributes that would hide files and lines from a diff, run a filter, or change bytes on the way. */
export const HIDING_ATTRIBUTES: string =
  "[attr]evil -diff filter=evil\n*.js -diff -text evil\n* export-ignore diff=evil merge=evil eol=crlf ident text\n";
