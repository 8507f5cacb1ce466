/**
 * Warnings about settings that are allowed, for the log of the broker's start.
 */

import { parseHttpAddress } from "../../lib/http/address.ts";
import type { Settings } from "./settings.ts";

/** Sentences for the log; none in the default configuration. */
export function startWarnings(settings: Settings): string[] {
  const { global_budget_usd, global_max_tasks, global_window, broker, compat } = settings;
  const warnings: string[] = [];
  const armed = [
    ...global_budget_usd > 0 ? ["global_budget_usd"] : [],
    ...global_max_tasks > 0 ? ["global_max_tasks"] : [],
  ];
  if (global_window === 0 && armed.length > 0) {
    warnings.push(
      `global_window is 0, so nothing ages out of ${
        armed.join(" and ")
      }: once exhausted, the ceiling stays so across ` +
        "restarts until it is raised or its ledger is removed",
    );
  }
  warnings.push(...listenerWarnings(broker));
  const { prices } = compat;
  if (compat.base_url !== "" && !Object.hasOwn(prices, "default") && !Object.hasOwn(prices, compat.model)) {
    const model = compat.model === "" ? "the endpoint's models" : compat.model;
    warnings.push(
      `compat.prices has no price for ${model}: its requests are unmetered, and only task_max_requests bounds them`,
    );
  }
  return warnings;
}

function listenerWarnings({ addr, api_addr, metrics_addr, metrics_token_env }: Settings["broker"]): string[] {
  const warnings: string[] = [];
  if (addr !== "") {
    const who = isLoopback(addr)
      ? "every user of this machine can submit and approve tasks there"
      : "it is reachable from other machines";
    warnings.push(
      `broker.addr ${addr} has no authentication, and ${who}: broker.api_addr asks for tokens, broker.metrics_addr is ` +
        "for metrics alone",
    );
  }
  if (api_addr !== "" && !isLoopback(api_addr)) {
    warnings.push(
      `broker.api_addr ${api_addr} is reachable from other machines without TLS: who sees the traffic has the tokens`,
    );
  }
  if (metrics_addr !== "" && metrics_token_env === "" && !isLoopback(metrics_addr)) {
    warnings.push(
      `broker.metrics_addr ${metrics_addr} is reachable from other machines, and asks for no token: ` +
        "broker.metrics_token_env names one",
    );
  }
  return warnings;
}

function isLoopback(address: string): boolean {
  return parseHttpAddress(address).loopback;
}
