/**
 * Where each lane leads and how it is paid, from the settings and the operator's credentials. Keys go from here into the
 * gateway and nowhere else.
 */

import type { Clock } from "../../lib/clock.ts";
import { hasCode, messageWithHint, TaskdError } from "../../lib/errors.ts";
import { type Lane, LANES } from "../agents.ts";
import type { Credential, TokenSource, UpstreamOptions } from "../gateway/upstream.ts";
import type { Log } from "../../lib/log.ts";
import { type ApiKey, apiKey, KEY_VARIABLES } from "../settings/keys.ts";
import type { ResolvedSettings } from "../settings/load.ts";
import { VendorSubscription } from "../settings/oauth.ts";
import type { VendorAuth } from "../settings/settings.ts";

/** Where subscriptions of vendor_b are served; a key's requests go to `upstreams.vendor_b`. */
const VENDOR_B_SUBSCRIPTION = { base_url: "https://chatgpt.com", base_path: "/backend-api/codex" } as const;

export interface LaneSources {
  resolved: ResolvedSettings;
  home: string;
  env: (name: string) => string | undefined;
  key_file: ReadonlyMap<string, string>;
  clock: Clock;
  log: Log;
}

export interface Lanes {
  upstreams: Partial<Record<Lane, UpstreamOptions>>;
  secrets: string[];
  /**
   * Says what keeps a lane from being paid; undefined when nothing does. A subscription that has expired is renewed.
   *
   * @throws {TaskdError} `unavailable` when it cannot be renewed now.
   */
  credentialProblem(lane: Lane, auth: VendorAuth): Promise<string | undefined>;
}

export function openLanes(sources: LaneSources): Lanes {
  const { resolved, home, env, key_file, clock, log } = sources;
  const { settings } = resolved;
  const compat_variable = settings.compat.api_key_env;
  const keys = new Map<Lane, ApiKey | undefined>(
    LANES.map((lane) => [lane, apiKey(lane, { env, file: key_file, compat_variable })]),
  );
  const upstreams: Lanes["upstreams"] = {};
  const subscriptions = new Map<Lane, VendorSubscription>();
  for (const lane of ["vendor_a", "vendor_b", "vendor_c"] as const) {
    const base_url = settings.upstreams[lane];
    if (lane !== "vendor_c" && settings[`${lane}_auth`] === "subscription") {
      const subscription = new VendorSubscription(lane, { home, clock });
      subscriptions.set(lane, subscription);
      const source = withErrorLog(subscription, log);
      const own = lane === "vendor_b" && resolved.sources.get("upstreams.vendor_b") === "default";
      upstreams[lane] = { base_url, subscription: { source, ...(own ? VENDOR_B_SUBSCRIPTION : {}) } };
    } else {
      const key = keys.get(lane);
      if (key !== undefined) upstreams[lane] = { base_url, api_key: key.secret };
    }
  }
  const { base_url, base_path } = settings.compat;
  if (base_url !== "") upstreams.compat = { base_url, base_path, api_key: keys.get("compat")?.secret ?? "" };
  return {
    upstreams,
    secrets: [...keys.values()].flatMap((key) => key?.secret ?? []),
    async credentialProblem(lane, auth) {
      if (auth === "subscription") return await subscriptionProblem(subscriptions.get(lane)!);
      if (keys.get(lane) !== undefined || (lane === "compat" && compat_variable === "")) return undefined;
      const variable = lane === "compat" ? compat_variable : KEY_VARIABLES[lane][0]!;
      return `${variable} is neither in the environment nor in ~/.taskd/api-keys.env`;
    },
  };
}

async function subscriptionProblem(subscription: VendorSubscription): Promise<string | undefined> {
  try {
    await subscription.current();
    return undefined;
  } catch (error) {
    if (!(error instanceof TaskdError) || hasCode(error, "unavailable")) throw error;
    return messageWithHint(error);
  }
}

/** Logs failures for the operator: the agent only learns that there was one. */
function withErrorLog(subscription: VendorSubscription, log: Log): TokenSource {
  const logged = async (bearer: Promise<Credential>) => {
    try {
      return await bearer;
    } catch (error) {
      log("error", "subscription", error instanceof TaskdError ? messageWithHint(error) : String(error));
      throw error;
    }
  };
  return { current: () => logged(subscription.current()), renew: (rejected) => logged(subscription.renew(rejected)) };
}
