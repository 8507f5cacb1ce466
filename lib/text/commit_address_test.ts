import { assertEquals } from "@std/assert";
import { commitAddress } from "./commit_address.ts";

Deno.test("commitAddress() is the code host's page of a commit, and nothing for what is no such host", () => {
  const commit = "0123456789".repeat(4);
  const page = `https://git.example.com/acme/app/commit/${commit}`;
  for (
    const repo of [
      "https://git.example.com/acme/app",
      "https://git.example.com/acme/app.git",
      "https://user:secret@git.example.com/acme/app.git",
      "ssh://git@git.example.com:2222/acme/app.git",
      "git@git.example.com:acme/app.git",
      "git.example.com/acme/app",
    ]
  ) assertEquals(commitAddress(repo, commit), page, repo);
  assertEquals(commitAddress("bitbucket.org/a/b", commit), `https://bitbucket.org/a/b/commits/${commit}`);
  for (
    const repo of ["/srv/app.git", "file:///srv/app.git", "http://127.0.0.1:80/a/b", "", "x/y", "javascript:alert(1)"]
  ) {
    assertEquals(commitAddress(repo, commit), undefined, repo);
  }
  assertEquals(commitAddress("git.example.com/acme/app", "main"), undefined);
});
