/**
 * Checks of the credentials for models: keys and subscriptions. Only the source of a
 * credential is shown, never its value.
 */

import { agentOf, AGENTS, type Lane, LANES } from "../../broker/agents.ts";
import { apiKey, KEY_VARIABLES, keysPath, metricsToken, readKeys } from "../../broker/settings/keys.ts";
import { oauthPath, readCredential, type SubscriptionLane } from "../../broker/settings/oauth.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import { messageOf } from "../../lib/errors.ts";
import { endpointAddress } from "../../lib/http/address.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { checked, fail, failedCheck, type HostCheck, ok, warn } from "./check.ts";

export interface CredentialOptions {
  home: string;
  env: (name: string) => string | undefined;
  settings: Settings;
  /** Wall-clock milliseconds. */
  now: number;
}

/** One check for each lane; the one of `default_agent` has to be paid for. */
export async function checkCredentials(options: CredentialOptions): Promise<HostCheck[]> {
  const { settings } = options;
  const needed = agentOf(settings.default_agent).lane;
  let file: ReadonlyMap<string, string>;
  try {
    file = await readKeys(options.home);
  } catch (error) {
    return [failedCheck("keys", error)];
  }
  const checks: HostCheck[] = [];
  for (const lane of LANES) {
    const agent = AGENTS.find((one) => one.lane === lane)!;
    const name = `credentials ${lane}`;
    const known = { ...options, file, isNeeded: lane === needed, agent: agent.name };
    checks.push(
      ...await checked(name, () => {
        if (lane === "compat") return compatCheck(name, known);
        const subscribed = lane !== "vendor_c" && settings[`${lane}_auth`] === "subscription";
        return subscribed ? subscriptionCheck(name, lane, options) : keyCheck(name, lane, known);
      }),
    );
  }
  if (settings.broker.metrics_token_env !== "") {
    const name = "credentials metrics";
    checks.push(...await checked(name, () => metricsCheck(name, { ...options, file })));
  }
  return checks;
}

/** The token that the metrics ask for: without it the broker does not start. */
function metricsCheck(name: string, { settings: { broker }, env, file }: Omit<KeyOptions, "isNeeded">): HostCheck {
  const token = metricsToken(broker, { env, file });
  return ok(name, token === undefined ? "broker.metrics_addr is empty: none is used" : broker.metrics_token_env);
}

interface KeyOptions extends CredentialOptions {
  file: ReadonlyMap<string, string>;
  isNeeded: boolean;
}

function keyCheck(name: string, lane: Exclude<Lane, "compat">, options: KeyOptions & { agent: string }): HostCheck {
  const { env, file, home, isNeeded, agent } = options;
  const key = apiKey(lane, { env, file });
  if (key !== undefined) return ok(name, `key of ${key.source}`);
  const remedy = `Run taskd setup --key ${lane}=-, or set ${KEY_VARIABLES[lane][0]}, or write it into ${
    keysPath(home)
  }`;
  if (!isNeeded) return ok(name, `no key: ${agent} cannot be used`);
  return fail(name, `no key, and ${agent} is the default agent`, remedy);
}

function compatCheck(name: string, { settings, env, file, isNeeded }: KeyOptions): HostCheck {
  const { base_url, api_key_env, model } = settings.compat;
  const remedy = "Run taskd setup --compat-url URL --compat-model MODEL, or choose another default_agent";
  if (base_url === "") {
    if (!isNeeded) return ok(name, "no endpoint: agent_d cannot be used");
    return fail(name, "compat.base_url is empty, and agent_d is the default agent", remedy);
  }
  if (model === "") return warn(name, `${base_url}, without a model`, "Set compat.model, or name one with each task");
  if (api_key_env === "") return ok(name, `${base_url}, without a key`);
  const key = apiKey("compat", { env, file, compat_variable: api_key_env });
  if (key !== undefined) return ok(name, `${base_url}, key of ${key.source}`);
  const missing = `${base_url}: there is no ${api_key_env}, which compat.api_key_env names`;
  const how = "Run taskd setup --key compat=-, or set the variable";
  return isNeeded ? fail(name, missing, how) : warn(name, missing, how);
}

/** How long the endpoint may take to accept a connection, in milliseconds. */
const CONNECT_MS = 2_000;

/** Whether something listens where agent_d's model is expected, if agent_d is the default agent. Nothing is sent. */
export async function checkEndpoint({ compat: { base_url }, default_agent }: Settings): Promise<HostCheck[]> {
  const at = agentOf(default_agent).lane === "compat" ? endpointAddress(base_url) : undefined;
  if (at === undefined) return [];
  try {
    (await Deno.connect({ ...at, signal: AbortSignal.timeout(CONNECT_MS) })).close();
    return [ok("endpoint", `${base_url} accepts connections`)];
  } catch (error) {
    // Of settings that this very call has changed: it was granted the address of those before.
    if (error instanceof Deno.errors.NotCapable) return [];
    const remedy = "Start the model's server, or set compat.base_url: until then tasks of agent_d fail";
    return [warn("endpoint", `nothing answers at ${base_url}: ${sanitizeLine(messageOf(error))}`, remedy)];
  }
}

/** A token that is renewed by itself is fine however soon it expires. */
async function subscriptionCheck(name: string, lane: SubscriptionLane, options: CredentialOptions): Promise<HostCheck> {
  const { home, now } = options;
  const { expires_at, refresh_token } = await readCredential(home, lane);
  const left_ms = expires_at === undefined ? Infinity : Date.parse(expires_at) - now;
  if (refresh_token !== undefined) {
    return ok(name, left_ms <= 0 ? "subscription, to be renewed at its next use" : "subscription");
  }
  const signIn = `Sign in again and write ${oauthPath(home, lane)}`;
  if (left_ms <= 0) return fail(name, "subscription: its token has expired and cannot be renewed", signIn);
  if (left_ms < EXPIRING_MS) {
    return warn(name, `subscription: its token expires at ${expires_at} and cannot be renewed`, signIn);
  }
  return ok(name, expires_at === undefined ? "subscription" : `subscription, until ${expires_at}`);
}

/** A day: time to sign in before the next task. */
const EXPIRING_MS = 86_400_000;
