import { assert, assertEquals } from "@std/assert";
import { classifyGitFailure, gitError } from "./git_failure.ts";

Deno.test("messages of git and servers are classified", () => {
  const table: [string, string][] = [
    ["fatal: Authentication failed for 'https://github.com/a/b/'", "auth"],
    ["fatal: could not read Username for 'https://github.com': terminal prompts disabled", "auth"],
    ["git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.", "auth"],
    ["Host key verification failed.\nfatal: Could not read from remote repository.", "auth"],
    ["fatal: unable to access 'https://h/': The requested URL returned error: 403", "auth"],
    ["remote: Permission to a/b.git denied to c.\nfatal: unable to access", "auth"],
    ["remote: Repository not found.\nfatal: repository 'https://github.com/a/b/' not found", "not_found"],
    ["fatal: '/srv/x' does not appear to be a git repository", "not_found"],
    ["fatal: couldn't find remote ref refs/heads/x", "not_found"],
    ["fatal: remote error: upload-pack: not our ref 0123", "not_found"],
    ["fatal: unable to access 'https://h/': Could not resolve host: h", "network"],
    ["fatal: unable to access 'https://h/': Failed to connect to h port 443: Connection refused", "network"],
    ["ssh: connect to host h port 22: Connection timed out", "network"],
    ["error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", "network"],
    ["fatal: the remote end hung up unexpectedly", "network"],
    ["fatal: unable to access 'https://h/': gnutls_handshake() failed: Error in the pull function.", "network"],
    ["fatal: unable to update url base from redirection:", "moved"],
    ["fatal: detected dubious ownership in repository at '/srv/x'", "ownership"],
    ["error: object 0123: hasDotgit: contains '.git'\nfatal: fsck error in packed object", "corrupt"],
    ["fatal: write error: No space left on device", "no_space"],
    ["fatal: something new", "other"],
    ["", "other"],
  ];
  for (const [stderr, failure] of table) assertEquals(classifyGitFailure(stderr), failure, stderr);
});

Deno.test("an error has what was attempted, git's message, and what to do", () => {
  const error = gitError("Cannot clone h/a/b", "hint: x\nfatal: repository 'https://h/a/b/' not found\n");
  assertEquals(error.code, "not_found");
  assert(error.message.startsWith("Cannot clone h/a/b: there is no such repository"));
  assert(error.message.includes("fatal: repository") && error.hint !== undefined);
  assertEquals(gitError("Cannot clone", "").message, "Cannot clone: git failed without a word");
  assert(gitError("Cannot clone", `fatal: ${"x".repeat(10_000)}`).message.length < 700);
});
