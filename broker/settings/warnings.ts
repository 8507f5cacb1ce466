/**
 * Warnings about settings that are allowed, for the log of the broker's start.
 */

import { classifyAddress } from "../egress/address_class.ts";
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
  if (broker.addr !== "" && !isLoopback(broker.addr)) {
    warnings.push(`broker.addr ${broker.addr} is reachable from other machines, and there is no authentication on it`);
  }
  const { prices } = compat;
  if (compat.base_url !== "" && !Object.hasOwn(prices, "default") && !Object.hasOwn(prices, compat.model)) {
    const model = compat.model === "" ? "the endpoint's models" : compat.model;
    warnings.push(
      `compat.prices has no price for ${model}: its requests are unmetered, and only task_max_requests bounds them`,
    );
  }
  return warnings;
}

function isLoopback(address: string): boolean {
  const host = address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return host === "localhost" || classifyAddress(host) === "loopback";
}
