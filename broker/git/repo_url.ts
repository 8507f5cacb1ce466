/**
 * Where a repository is, as people write it, brought to one form before git sees it.
 *
 * Git's own reading of a URL is wide: `ext::sh -c ...` runs a command, `-u` is an option, `https://user:secret@host`
 * puts a secret into every message. Only what is listed here passes: https, ssh (also as `user@host:path`), `file://`,
 * an absolute path, `host/owner/repo`, and plain http on loopback.
 */

import { isLoopback } from "../../lib/http/address.ts";
import { TaskdError } from "../../lib/errors.ts";

/** How git reaches a repository; each is a protocol name of git. */
export type RepoTransport = "https" | "http" | "ssh" | "file";

export interface RepoUrl {
  transport: RepoTransport;
  /** Lower case; over https and http with a port that is not the scheme's own; empty for a local path. */
  host: string;
  /** The path before the repository's name; with slashes where groups are nested. */
  owner: string;
  /** Name without `.git`. */
  repo: string;
  /** What git is given: no secrets, no options. */
  clone_url: string;
  /** `host/owner/repo`, the key of `profiles.repos`; `file:///path` for a local path. */
  canonical: string;
}

const HINT = "Give https://host/owner/repo, ssh://git@host/owner/repo, git@host:owner/repo, host/owner/repo or an " +
  "absolute path";

const MAX_LENGTH = 2_048;
/** Names and IPv4 addresses; a label neither begins nor ends with a hyphen, so none is an option. */
const HOST = /^(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*$/;
const IPV6 = /^\[[0-9a-f:.]+\]$/;
const USER = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;
/** One part of a path on a code host: no option, no `..`, nothing that a shell, a URL or git reads as more than a name. */
const SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9_.~+][A-Za-z0-9_.~+-]*$/;
const DEFAULT_PORT: Readonly<Record<RepoTransport, string>> = { https: "443", http: "80", ssh: "22", file: "" };

/** @throws {TaskdError} `invalid_request` with what is wrong; secrets in the address are not repeated. */
export function parseRepo(text: string): RepoUrl {
  if (text.length > MAX_LENGTH) refuse(text, "it is too long");
  // deno-lint-ignore no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(text)) refuse(text, "it holds a control character");
  if (text === "") refuse(text, "it is empty");
  if (text.startsWith("-")) refuse(text, "it would be read as an option");
  if (text.startsWith("/")) return local(text, text);
  if (/\s/.test(text)) refuse(text, "it holds a space");
  const url = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/(.*)$/.exec(text);
  if (url !== null) return fromUrl(text, url[1]!.toLowerCase(), url[2]!);
  if (/^[A-Za-z0-9+.-]+::/.test(text)) refuse(text, "git would run a helper program for it");
  const scp = /^(?:([^@/:]+)@)?([^@/:]+|\[[^\]]*\]):(?!\/)(.+)$/.exec(text);
  if (scp !== null) return ssh(text, scp[1], scp[2]!, undefined, scp[3]!);
  const [host, ...path] = text.split("/");
  if (path.length < 2 || !host!.includes(".")) refuse(text, "it is neither a URL nor host/owner/repo", meant(text));
  return remote(text, "https", host!, path.join("/"));
}

function fromUrl(text: string, scheme: string, rest: string): RepoUrl {
  const slash = rest.indexOf("/");
  const authority = slash < 0 ? rest : rest.slice(0, slash);
  const path = slash < 0 ? "" : rest.slice(slash + 1);
  if (scheme === "file") {
    if (authority !== "" && authority !== "localhost") refuse(text, "its files are on another host");
    return local(text, decoded(text, `/${path}`));
  }
  const at = authority.lastIndexOf("@");
  const host = authority.slice(at + 1);
  const userinfo = at < 0 ? undefined : authority.slice(0, at);
  if (userinfo?.includes(":")) refuse(text, "it holds a password");
  if (scheme === "ssh") {
    const parts = /^(.*?)(?::(\d+))?$/.exec(host)!;
    return ssh(text, userinfo, parts[1]!, parts[2], path);
  }
  if (scheme !== "https" && scheme !== "http") refuse(text, `the scheme ${scheme} is not among those allowed`);
  if (userinfo !== undefined) refuse(text, "it holds a user name or token");
  return remote(text, scheme, host, path);
}

function remote(text: string, transport: "https" | "http", authority: string, path: string): RepoUrl {
  const parts = /^(.*?)(?::(\d+))?$/.exec(authority)!;
  const host = checkedHost(text, parts[1]!);
  if (transport === "http" && !isLoopback(host.replace(/^\[|\]$/g, ""))) {
    refuse(text, "plain http is for loopback alone");
  }
  const { named, owner, repo, raw } = checkedPath(text, host, parts[2], transport, path);
  const clone_url = `${transport}://${named}/${raw}`;
  return { transport, host: named, owner, repo, clone_url, canonical: `${named}/${owner}/${repo}` };
}

function ssh(text: string, user: string | undefined, name: string, port: string | undefined, path: string): RepoUrl {
  if (user !== undefined && !USER.test(user)) refuse(text, "its user name has characters that are not allowed");
  const host = checkedHost(text, name);
  const { named, owner, repo, raw } = checkedPath(text, host, port, "ssh", path);
  const clone_url = `ssh://${user === undefined ? "" : `${user}@`}${named}/${raw}`;
  // The port is ssh's; the repository is the one that the host shows under its name.
  return { transport: "ssh", host, owner, repo, clone_url, canonical: `${host}/${owner}/${repo}` };
}

function checkedHost(text: string, name: string): string {
  const host = name.toLowerCase();
  if (!(IPV6.test(host) || host.length <= 253 && HOST.test(host))) refuse(text, "it has no valid host name");
  return host;
}

function checkedPath(text: string, host: string, port: string | undefined, transport: RepoTransport, path: string) {
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) refuse(text, "it has no valid port");
  const named = port === undefined || port === DEFAULT_PORT[transport] ? host : `${host}:${Number(port)}`;
  const raw = path.replace(/^\/|\/$/g, "");
  const segments = raw.split("/");
  if (segments.length < 2) refuse(text, "its path is not owner/repo");
  if (!segments.every((segment) => SEGMENT.test(segment))) {
    refuse(text, "its path has parts that no code host uses: options, dots, queries or escapes");
  }
  const repo = bare(segments.at(-1)!);
  if (repo === "") refuse(text, "it names no repository");
  return { named, owner: segments.slice(0, -1).join("/"), repo, raw };
}

function local(text: string, path: string): RepoUrl {
  const segments = path.replace(/\/$/, "").slice(1).split("/");
  if (segments.some((segment) => ["", ".", ".."].includes(segment))) {
    refuse(text, "it is no path without . and .. and doubled slashes");
  }
  const clean = `/${segments.join("/")}`;
  return {
    transport: "file",
    host: "",
    owner: segments.at(-2) ?? "",
    repo: bare(segments.at(-1)!) || segments.at(-1)!,
    clone_url: clean,
    canonical: `file://${clean}`,
  };
}

function decoded(text: string, path: string): string {
  let plain: string;
  try {
    plain = decodeURIComponent(path);
  } catch {
    return refuse(text, "its escapes are broken");
  }
  // deno-lint-ignore no-control-regex
  return /[\u0000-\u001f\u007f]/.test(plain) ? refuse(text, "it holds a control character") : plain;
}

function bare(name: string): string {
  return name.replace(/\.git$/, "");
}

function refuse(text: string, why: string, hint = HINT): never {
  const shown = JSON.stringify(redactUserinfo(text).slice(0, 200));
  throw new TaskdError("invalid_request", `Cannot take ${shown} as a repository: ${why}`, { hint });
}

/** For `work/shop`: a directory where the command was given, which the broker is not in, or a name that lacks its host. */
function meant(text: string): string {
  if (text.length > 100 || !text.replace(/\/$/, "").split("/").every((segment) => SEGMENT.test(segment))) return HINT;
  return `If it is a directory, write ./${text} on the command line, or its absolute path; if it is on a code host, ` +
    "https://host/owner/repo";
}

/** `text` with the user part of every URL in it replaced: it may be a token. `git@` stays, it is no secret. */
export function redactUserinfo(text: string): string {
  return text.replace(/(\/\/)([^/@\s]+)@/g, (whole, slashes, user) => user === "git" ? whole : `${slashes}***@`);
}
