/**
 * The operator's credentials for git, picked out of the environment for clone and push alone.
 */

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
const SSH = "/usr/bin/ssh -oBatchMode=yes -oForwardAgent=no -oClearAllForwardings=yes -oPermitLocalCommand=no";

/** Credentials for one repository. Those of other transports stay out: an https push has no use for ssh's agent. */
export function operatorCredentials(url: RepoUrl, sources: CredentialSources): GitCredentials {
  const { gh_path } = sources;
  if (url.transport === "file") return { env: {}, config: [], secrets: [] };
  const env = picked(sources.env, [
    ...HOST_VARIABLES,
    ...url.transport === "ssh" ? ["SSH_AUTH_SOCK"] as const : TOKEN_VARIABLES,
  ]);
  if (url.transport === "ssh") return { env: { ...env, GIT_SSH_COMMAND: SSH }, config: [], secrets: [] };
  // Not every build of git's HTTP reads the trust store's usual name: one with GnuTLS does not.
  if (env.SSL_CERT_FILE !== undefined) env.GIT_SSL_CAINFO = env.SSL_CERT_FILE;
  const helper = gh_path === undefined
    ? []
    : [`credential.${url.transport}://${url.host}.helper=!${shellQuoted(gh_path)} auth git-credential`];
  return { env, config: helper, secrets: TOKEN_VARIABLES.flatMap((name) => env[name] ?? []) };
}

export function picked(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]]));
}

function shellQuoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
