/**
 * Where the repository of a task is reached. A task that came over `broker.addr` reaches public addresses alone: its
 * submitter could otherwise have this host fetch from itself and its networks, and read what they answer.
 *
 * The name is looked up once for each call, and git is bound to the addresses that were checked (git 2.37 and newer, over
 * https). Where the operator's own settings move a repository, they decide.
 */

import { ERROR_CODES, TaskdError } from "../../lib/errors.ts";
import type { Dialer } from "../egress/dialer.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { Refused } from "../egress/reasons.ts";
import { type CredentialSources, reach, type Reached } from "../git/credentials.ts";
import { parseRepo, type RepoUrl } from "../git/repo_url.ts";
import { isLocalName } from "../settings/egress_file.ts";
import type { TaskOrder } from "../task/schema.ts";

/** A look-up that takes longer is given up. */
const LOOKUP_MS = 30_000;

export interface RepoAddressDeps {
  credentials: CredentialSources;
  dialer: Pick<Dialer, "addresses">;
}

/**
 * The way to a task's repository, see {@linkcode reach}.
 *
 * @throws {TaskdError} `invalid_request` when the task came over the network and the repository is not public.
 */
export async function reachRepo(
  { credentials, dialer }: RepoAddressDeps,
  { repo, over_network }: Pick<TaskOrder, "repo" | "over_network">,
  way: "fetch" | "push",
): Promise<Reached> {
  const url = parseRepo(repo);
  const reached = reach(url, credentials, way);
  if (over_network === undefined) return reached;
  if (url.transport === "file" || url.transport === "http") throw notPublic(url);
  if (reached.url.clone_url !== url.clone_url) return reached;
  const config = await pins(url, reached, { credentials, dialer });
  const { credentials: own } = reached;
  return { url, credentials: { ...own, config: [...own.config, ...config] } };
}

async function pins(url: RepoUrl, { credentials }: Reached, { credentials: sources, dialer }: RepoAddressDeps) {
  const [, name = "", port = "443"] = /^([^:]*)(?::(\d+))?$/.exec(url.host) ?? [];
  // As in the egress list, an address is no name that could be checked, in whatever spelling.
  const parsed = canonicalHost(name);
  if (typeof parsed === "string" || isLocalName(parsed.host)) throw notPublic(url);
  try {
    const found = await dialer.addresses(parsed.host, AbortSignal.timeout(LOOKUP_MS));
    const shown = found.map((address) => address.includes(":") ? `[${address}]` : address).join(",");
    return url.transport === "https" ? [`http.curloptResolve=${parsed.host}:${port}:${shown}`] : [];
  } catch (error) {
    if (!(error instanceof Refused)) throw unresolved(url, error);
    if (error.reason === "address_refused") throw notPublic(url);
    // Behind a proxy a name need not be known here; the proxy dials it.
    const proxied = Object.keys(credentials.env ?? {}).some((key) => /^https?_proxy$/i.test(key)) ||
      (sources.settings ?? []).some(([key]) => /^http\.(?:.*\.)?proxy$/.test(key));
    if (proxied && url.transport === "https") return [];
    throw unresolved(url, error);
  }
}

function notPublic({ canonical }: RepoUrl): TaskdError {
  return new TaskdError(
    "invalid_request",
    `Cannot take ${canonical} over the network: its host is not known as a public one`,
    {
      hint:
        "Over the network give https or ssh and a public host's name; paths, addresses and hosts of the broker's networks are for those who submit over the unix socket",
    },
  );
}

function unresolved({ canonical }: RepoUrl, cause: unknown): TaskdError {
  return new TaskdError("unavailable", `Cannot take ${canonical}: its host's name is not found`, {
    cause,
    hint: "Check the address, then try again",
  });
}

/** The error without a word of the server's, for those who submit over the network: its code, and what that means. */
export function withoutServerWords(error: unknown, { repo }: Pick<TaskOrder, "repo">): unknown {
  if (!(error instanceof TaskdError) || ["interrupted", "invalid_request"].includes(error.code)) return error;
  return new TaskdError(error.code, `Cannot clone ${parseRepo(repo).canonical}: ${ERROR_CODES[error.code]}`, {
    cause: error,
    hint: "The broker's log has the reason",
  });
}
