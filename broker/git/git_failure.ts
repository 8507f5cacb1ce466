/**
 * What git's complaints mean, decided on exit codes and on messages in the C locale.
 */

import { type ErrorCode, TaskdError } from "../../lib/errors.ts";

export type GitFailure =
  | "auth"
  | "not_found"
  | "network"
  | "moved"
  | "ownership"
  | "limit"
  | "corrupt"
  | "no_space"
  | "other";

interface Kind {
  failure: GitFailure;
  pattern: RegExp;
  code: ErrorCode;
  meaning: string;
  hint: string;
}

/** The first that matches counts: a proxy's 403 comes with "unable to access", too. */
const KINDS: readonly Kind[] = [
  {
    failure: "no_space",
    pattern: /No space left on device|Disk quota exceeded/,
    code: "no_space",
    meaning: "the disk is full",
    hint: "Free space on the disk, then try again",
  },
  {
    failure: "limit",
    // SIGXCPU and SIGXFSZ by Linux's numbers, which macOS has too; git with the memory it was refused.
    pattern:
      /died of signal (?:24|25)\b|[Oo]ut of memory|Cannot allocate memory|unable to create (?:threaded|thread)|File too large/,
    code: "too_large",
    meaning: "the repository takes more memory, time or space than git is given",
    hint: "Use a smaller repository; docs/explanation/approval.md has the limits",
  },
  {
    failure: "auth",
    pattern:
      /Authentication failed|could not read (Username|Password)|terminal prompts disabled|Permission denied \(|Host key verification failed|returned error: 40[13]\b|HTTP Basic: Access denied|Permission to \S+ denied/,
    code: "auth_failed",
    meaning: "the code host refused the credentials, or wants some",
    hint: "Log in with `gh auth login`, or load a key into ssh-agent; the account needs write access to push",
  },
  {
    failure: "ownership",
    pattern: /dubious ownership/,
    code: "denied",
    meaning: "the repository belongs to another user",
    hint: "Change its owner, or give a URL instead of the path",
  },
  {
    failure: "moved",
    pattern: /unable to update url base from redirection|returned error: 30\d\b/,
    code: "not_found",
    meaning: "the repository answers with a redirection, which is not followed",
    hint: "Use the repository's present address",
  },
  {
    failure: "not_found",
    pattern:
      /Repository not found|repository '[^']*' (not found|does not exist)|does not appear to be a git repository|returned error: 404\b|couldn't find remote ref|not our ref|no such remote ref/i,
    code: "not_found",
    meaning: "there is no such repository, branch or commit",
    hint: "Check the address; a private repository looks the same to an account without access",
  },
  {
    failure: "network",
    pattern:
      /Could not resolve|Connection (refused|reset|timed out|closed)|Failed to connect|Couldn't connect|Operation timed out|Operation too slow|unexpected disconnect|early EOF|RPC failed|remote end hung up|Empty reply from server|Network is unreachable|No route to host|returned error: (429|5\d\d)\b|(gnutls|SSL|TLS)[^\n]*(error|failed|closed|terminated)|Broken pipe|bad line length|unable to rewind rpc post data|expected flush after/i,
    code: "unavailable",
    meaning: "the code host could not be reached, or broke off",
    hint: "Check the network, then try again",
  },
  {
    failure: "corrupt",
    pattern:
      /fsck error|index-pack failed|bad object|missing (blob|tree|necessary objects)|object file \S+ is empty|loose object/,
    code: "corrupt",
    meaning: "the repository has objects that fail git's checks",
    hint: "Run `git fsck` on it",
  },
];

export function classifyGitFailure(stderr: string): GitFailure {
  return kindOf(stderr)?.failure ?? "other";
}

/** A failed run of git as an error for people; `attempted` begins the message: `Cannot clone x`. */
export function gitError(attempted: string, stderr: string): TaskdError {
  const kind = kindOf(stderr);
  const words = essence(stderr);
  if (kind === undefined) return new TaskdError("git_failed", `${attempted}: ${words || "git failed without a word"}`);
  return new TaskdError(kind.code, `${attempted}: ${kind.meaning} (${words})`, { hint: kind.hint });
}

function kindOf(stderr: string): Kind | undefined {
  return KINDS.find(({ pattern }) => pattern.test(stderr));
}

/** The lines that matter: git's own, and the server's; at most a few hundred characters. */
function essence(stderr: string): string {
  const lines = stderr.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const marked = lines.filter((line) => /^(fatal|error|remote):/.test(line));
  const text = (marked.length > 0 ? marked : lines.slice(-3)).join("; ");
  return text.length > 600 ? `${text.slice(0, 600)}...` : text;
}
