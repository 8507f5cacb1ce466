import { assert, assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { REPOSITORY_ADDRESSES } from "../../tests/attacks/inputs/git.ts";
import { parseRepo, redactUserinfo } from "./repo_url.ts";

Deno.test("parseRepo() brings every spelling of a repository to one canonical form", () => {
  const table: [string, string, string][] = [
    ["https://github.com/acme/app", "https://github.com/acme/app", "github.com/acme/app"],
    ["https://GitHub.com/acme/app.git/", "https://github.com/acme/app.git", "github.com/acme/app"],
    ["https://github.com:443/acme/app", "https://github.com/acme/app", "github.com/acme/app"],
    ["https://git.example.com:8443/a/b/c.git", "https://git.example.com:8443/a/b/c.git", "git.example.com:8443/a/b/c"],
    ["github.com/acme/app", "https://github.com/acme/app", "github.com/acme/app"],
    ["git@github.com:acme/app.git", "ssh://git@github.com/acme/app.git", "github.com/acme/app"],
    ["ssh://git@github.com/acme/app", "ssh://git@github.com/acme/app", "github.com/acme/app"],
    ["ssh://git@host.example:2222/acme/app", "ssh://git@host.example:2222/acme/app", "host.example/acme/app"],
    ["http://127.0.0.1:3000/acme/app", "http://127.0.0.1:3000/acme/app", "127.0.0.1:3000/acme/app"],
    ["http://[::1]:3000/acme/app", "http://[::1]:3000/acme/app", "[::1]:3000/acme/app"],
    ["/srv/git/app.git", "/srv/git/app.git", "file:///srv/git/app.git"],
    ["/srv/my repos/app.git/", "/srv/my repos/app.git", "file:///srv/my repos/app.git"],
    ["file:///srv/my%20repos/app.git", "/srv/my repos/app.git", "file:///srv/my repos/app.git"],
  ];
  for (const [text, clone_url, canonical] of table) {
    const url = parseRepo(text);
    assertEquals([url.clone_url, url.canonical], [clone_url, canonical], text);
  }
});

Deno.test("parseRepo() refuses what git would read as a program, an option or another host", () => {
  for (const text of REPOSITORY_ADDRESSES) {
    const error = assertThrows(() => parseRepo(text), TaskdError, undefined, text);
    assertEquals(error.code, "invalid_request");
  }
});

Deno.test("an address that may be a directory is refused with how to write one", () => {
  for (const text of ["shop", "work/shop", "work/shop/", "work/my.shop"]) {
    const { hint } = assertThrows(() => parseRepo(text), TaskdError, "neither a URL nor host/owner/repo");
    assertEquals(hint?.startsWith(`If it is a directory, write ./${text} on the command line`), true, text);
  }
  for (const text of ["work/$(id)", "a?b", "x".repeat(101)]) {
    assertEquals(assertThrows(() => parseRepo(text), TaskdError).hint?.startsWith("Give https://"), true, text);
  }
});

Deno.test("a secret in an address is refused and not repeated", () => {
  for (const text of ["https://user:hunter2@github.com/acme/app", "https://hunter2@github.com/acme/app"]) {
    const error = assertThrows(() => parseRepo(text), TaskdError);
    assert(!error.message.includes("hunter2"), error.message);
  }
  assertThrows(() => parseRepo("ssh://git:hunter2@github.com/acme/app"), TaskdError, "password");
  assertEquals(redactUserinfo("at https://t0ken:x@h/a and ssh://git@h/a"), "at https://***@h/a and ssh://git@h/a");
});
