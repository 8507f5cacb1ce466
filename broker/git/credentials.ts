/**
 * The operator's credentials for git, picked out of the environment for clone and push alone.
 */

import { shellWord } from "../../lib/text/shell_word.ts";
import { type GitSetting, reachedUrl } from "./reached_url.ts";
import type { RepoUrl } from "./repo_url.ts";

/** What a command gets beyond the empty environment. */
export interface GitCredentials {
  env: Readonly<Record<string, string>>;
  /** `key=value` settings; no secrets, they are seen in the process list. */
  config: readonly string[];
  /** Texts that no message may repeat. */
  secrets: readonly string[];
}

export interface CredentialSources {
  env: Readonly<Record<string, string | undefined>>;
  /** Absolute path of `gh`, when it is installed: it answers for https. */
  gh_path?: string;
  /** What `readGitSettings` has found; its helpers are asked before gh. */
  settings?: readonly GitSetting[];
}

/** Where a repository is reached, and as whom. */
export interface Reached {
  url: RepoUrl;
  credentials: GitCredentials;
}

/** Settings by the environment, which other users cannot read: a helper may be a command with a password in it. */
function settingsEnv(settings: readonly GitSetting[]): Record<string, string> {
  if (settings.length === 0) return {};
  const all = [["credential.helper", ""], ...settings];
  return Object.fromEntries([
    ["GIT_CONFIG_COUNT", String(all.length)],
    ...all.flatMap(([key, value], n) => [[`GIT_CONFIG_KEY_${n}`, key], [`GIT_CONFIG_VALUE_${n}`, value]]),
  ]);
}

/** Secrets that `gh` reads. */
export const TOKEN_VARIABLES = ["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"] as const;

/** Where keys, logins and trust are kept, and how the network is reached. */
export const HOST_VARIABLES = [
  "HOME",
  "XDG_CONFIG_HOME",
  "XDG_RUNTIME_DIR",
  "DBUS_SESSION_BUS_ADDRESS",
  "GH_CONFIG_DIR",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "http_proxy",
  "https_proxy",
  "HTTPS_PROXY",
  "no_proxy",
  "NO_PROXY",
] as const;

/** No prompt, no forwarded agent or port, no local command of the operator's ssh configuration. */
const SSH_OPTIONS = "-oBatchMode=yes -oForwardAgent=no -oClearAllForwardings=yes -oPermitLocalCommand=no";

/**
 * The way to a repository, by the operator's settings and with their credentials.
 *
 * @throws {TaskdError} `invalid_request` as {@linkcode reachedUrl}.
 */
export function reach(named: RepoUrl, sources: CredentialSources, way: "fetch" | "push"): Reached {
  const url = reachedUrl(named, sources.settings ?? [], way);
  return { url, credentials: operatorCredentials(url, sources) };
}

/** Credentials for one repository. Those of other transports stay out: an https push has no use for ssh's agent. */
export function operatorCredentials(url: RepoUrl, sources: CredentialSources): GitCredentials {
  const { gh_path, settings = [] } = sources;
  if (url.transport === "file") return { env: {}, config: [], secrets: [] };
  const of = (...sections: string[]) => settings.filter(([key]) => sections.some((name) => key.startsWith(name)));
  const env = picked(sources.env, [
    ...HOST_VARIABLES,
    ...url.transport === "ssh" ? ["SSH_AUTH_SOCK"] as const : TOKEN_VARIABLES,
  ]);
  if (url.transport === "ssh") {
    const own = of("core.sshcommand").at(-1)?.[1] ?? "/usr/bin/ssh";
    // Options go to ssh alone, other programs have others.
    const GIT_SSH_COMMAND = isSshCommand(own) ? `${own} ${SSH_OPTIONS}` : own;
    // A program of the operator's may know no batch mode; ssh below it asks no terminal.
    const silent = { SSH_ASKPASS: "/bin/false", SSH_ASKPASS_REQUIRE: "force" };
    return { env: { ...env, ...silent, GIT_SSH_COMMAND, ...settingsEnv(of("ssh.")) }, config: [], secrets: [] };
  }
  // Not every build of git's HTTP reads the trust store's usual name: one with GnuTLS does not.
  if (env.SSL_CERT_FILE !== undefined) env.GIT_SSL_CAINFO = env.SSL_CERT_FILE;
  const helper = gh_path === undefined
    ? []
    : [`credential.${url.transport}://${url.host}.helper=!${shellWord(gh_path)} auth git-credential`];
  Object.assign(env, settingsEnv(of("credential.", "http.")));
  const headers = of("http.").filter(([key]) => key.endsWith("extraheader")).map(([, value]) => value);
  return { env, config: helper, secrets: [...TOKEN_VARIABLES.flatMap((name) => env[name] ?? []), ...headers] };
}

export function isSshCommand(command: string): boolean {
  return /^(?:\S*\/)?ssh(?:\s|$)/.test(command);
}

export function picked(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]]));
}
