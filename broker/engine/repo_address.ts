/**
 * Where the repository of a task is reached. A task that came over `broker.addr` reaches public addresses alone: its
 * submitter could otherwise have this host fetch from itself and its networks, and read what they answer.
 *
 * The name is looked up once for each call, and git is bound to the addresses that were checked: over https by git 2.37 and
 * newer, over ssh unless the operator has another program in its place. Where the operator's own settings move a
 * repository, they decide.
 */

import type { Clock } from "../../lib/clock.ts";
import { ERROR_CODES, messageOf, TaskdError } from "../../lib/errors.ts";
import type { Dialer } from "../egress/dialer.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { Refused } from "../egress/reasons.ts";
import { boundSsh } from "../git/bound_ssh.ts";
import { type CredentialSources, type GitCredentials, reach, type Reached } from "../git/credentials.ts";
import { parseRepo, type RepoUrl } from "../git/repo_url.ts";
import { isLocalName } from "../settings/egress_file.ts";
import type { TaskOrder, TaskRecord } from "../task/schema.ts";
import type { EngineDeps } from "./engine_deps.ts";

/** A look-up that takes longer is given up. */
const LOOKUP_MS = 30_000;

export interface RepoAddressDeps {
  credentials: CredentialSources;
  dialer: Pick<Dialer, "addresses">;
  clock: Clock;
}

/**
 * The way to a task's repository, see {@linkcode reach}.
 *
 * @throws {TaskdError} `invalid_request` when the task came over the network and the repository is not public.
 */
export async function reachRepo(
  deps: RepoAddressDeps,
  { repo, over_network }: Pick<TaskOrder, "repo" | "over_network">,
  way: "fetch" | "push",
  signal?: AbortSignal,
): Promise<Reached> {
  const url = parseRepo(repo);
  const reached = reach(url, deps.credentials, way);
  if (over_network === undefined) return reached;
  if (url.transport === "file" || url.transport === "http") throw notPublic(url);
  if (reached.url.clone_url !== url.clone_url) return reached;
  return { url, credentials: await bound(url, reached.credentials, { ...deps, signal }) };
}

/** The credentials with git bound to the addresses of the repository's host, which are public ones. */
async function bound(
  url: RepoUrl,
  own: GitCredentials,
  deps: RepoAddressDeps & { signal: AbortSignal | undefined },
): Promise<GitCredentials> {
  const [, name = "", port] = /^([^:]*)(?::(\d+))?$/.exec(url.host) ?? [];
  // As in the egress list, an address is no name that could be checked, in whatever spelling.
  const parsed = canonicalHost(name);
  if (typeof parsed === "string" || isLocalName(parsed.host)) throw notPublic(url);
  const { host } = parsed;
  const addresses = await publicAddresses(url, host, own, deps);
  if (addresses === undefined) return own;
  if (url.transport === "ssh") {
    const { username, port } = new URL(url.clone_url);
    return await boundSsh(own, { host, port, user: username, addresses, signal: deps.signal }, deps.clock);
  }
  const shown = addresses.map((address) => address.includes(":") ? `[${address}]` : address).join(",");
  return { ...own, config: [...own.config, `http.curloptResolve=${host}:${port ?? "443"}:${shown}`] };
}

/** Undefined when a proxy looks the name up. */
async function publicAddresses(
  url: RepoUrl,
  host: string,
  { env }: GitCredentials,
  { credentials, dialer }: RepoAddressDeps,
): Promise<readonly string[] | undefined> {
  try {
    return await dialer.addresses(host, AbortSignal.timeout(LOOKUP_MS));
  } catch (error) {
    if (!(error instanceof Refused)) throw unresolved(url, error);
    if (error.reason === "address_refused") throw notPublic(url);
    // Behind a proxy a name need not be known here; the proxy dials it.
    const proxied = Object.keys(env).some((key) => /^https?_proxy$/i.test(key)) ||
      (credentials.settings ?? []).some(([key]) => /^http\.(?:.*\.)?proxy$/.test(key));
    if (proxied && url.transport === "https") return undefined;
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

/**
 * Does what talks to the code host of a task. The server's words are the operator's to read: of a task that came over the
 * network they go to the log, and its record has the error's code and what that means.
 *
 * @param attempted What begins the message, before the repository's name.
 */
export async function withoutServerWords<T>(
  { log }: Pick<EngineDeps, "log">,
  { id, repo, over_network }: TaskRecord,
  attempted: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!over_network || !(error instanceof TaskdError)) throw error;
    if (["interrupted", "invalid_request"].includes(error.code)) throw error;
    log("warn", "code_host_failed", messageOf(error), { task_id: id });
    throw new TaskdError(error.code, `${attempted} ${parseRepo(repo).canonical}: ${ERROR_CODES[error.code]}`, {
      cause: error,
      hint: "The broker's log has the reason",
    });
  }
}
