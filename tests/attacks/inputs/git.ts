/** What is tried in the place of a repository's address. */

import { words } from "./_words.ts";

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
