/** What a hostile work tree has in it; `taskd redteam` and the tests of git share it. */

import { words } from "./_words.ts";

/** Names that some system reads as `.git`. */
export const DOT_GIT_SPELLINGS: readonly string[] = [
  ...words(".GIT .Git .git. git~1 GIT~1 .git::$INDEX_ALLOCATION"),
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

/** Addresses of repositories that git would read as a program, an option or another host. */
export const REPOSITORY_ADDRESSES: readonly string[] = [
  ...words(`
    ext::sh fd::17/foo EXT::sh transport::address --upload-pack=touch -oProxyCommand=x ssh://-oProxyCommand=x/acme/app
    ssh://git@-oProxyCommand=x/acme/app ssh://-oProxyCommand=x@host/acme/app -x@host:acme/app
    git@-oProxyCommand=x:acme/app https://github.com/-x/app https://github.com/acme/--app
    https://github.com/acme/../app https://github.com/acme https://github.com/acme/.git
    https://github.com/acme/app?x=1 https://github.com/acme/app#main https://github.com/acme/app%00
    https://github.com:99999/acme/app https:///acme/app http://github.com/acme/app git://github.com/acme/app
    ftp://github.com/acme/app file://server/share/app file:///srv/%00 file:///srv/%0a /srv/../etc /srv//app
    relative/path acme/app
  `),
  "ext::sh -c touch% /x",
  "https://github.com\\@evil.example/acme/app",
  "https://evil.example\n/acme/app",
  "https://github.com/acme/app\u2028",
  "https://github.com/acme/a\u001bpp",
  "",
  `https://github.com/acme/${"x".repeat(3_000)}`,
];
