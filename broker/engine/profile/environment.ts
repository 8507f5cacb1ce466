/**
 * The environment of a profile's commands: nothing of the host's, no gateway, and the egress proxy in every spelling that
 * tools read.
 */

/**
 * The environment of a command, except the cache.
 *
 * HOME is the sandbox's own and ends with it: what a package writes there must not become configuration of the next
 * command or of the agent.
 *
 * @param proxy_url Has the task's credentials.
 */
export function setupEnv(proxy_url: string): Record<string, string> {
  const env: Record<string, string> = {};
  // Programs disagree about the case; curl reads http_proxy in lower case alone.
  for (const name of ["http_proxy", "https_proxy", "all_proxy"]) {
    env[name] = env[name.toUpperCase()] = proxy_url;
  }
  return {
    HOME: "/tmp",
    LANG: "C.UTF-8",
    CI: "true",
    NO_COLOR: "1",
    npm_config_update_notifier: "false",
    PIP_DISABLE_PIP_VERSION_CHECK: "1",
    ...env,
    no_proxy: "",
    NO_PROXY: "",
    npm_config_proxy: proxy_url,
    npm_config_https_proxy: proxy_url,
    npm_config_noproxy: "",
    YARN_HTTP_PROXY: proxy_url,
    YARN_HTTPS_PROXY: proxy_url,
    PIP_PROXY: proxy_url,
    CARGO_HTTP_PROXY: proxy_url,
    // Node's own fetch, from version 22 on.
    NODE_USE_ENV_PROXY: "1",
  };
}
