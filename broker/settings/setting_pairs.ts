/**
 * The rules between settings: pairs of values that are allowed one by one and not together.
 */

import { parseHttpAddress } from "../../lib/http/address.ts";
import { type ConfigPlace, InvalidConfig } from "./invalid_config.ts";
import { formatExact } from "./value_schemas.ts";
import type { SettingPath, Settings } from "./settings.ts";

/** Refuses a pair that breaks a rule, at the place of the setting that is configured. */
export function checkPairs(settings: Settings, placeOf: (path: SettingPath) => ConfigPlace): void {
  const { global_max_tasks, max_concurrent_tasks, approval_timeout, ci, broker } = settings;
  const refuse = (paths: readonly [SettingPath, SettingPath], shown: string, rule: string, hint: string): never => {
    const given = paths.find((path) => !("built_in" in placeOf(path))) ?? paths[0];
    throw new InvalidConfig(paths[0], placeOf(given), rule, { shown, hint });
  };
  if (global_max_tasks > 0 && global_max_tasks < max_concurrent_tasks) {
    refuse(
      ["global_max_tasks", "max_concurrent_tasks"],
      String(global_max_tasks),
      `must be 0 or at least max_concurrent_tasks, which is ${max_concurrent_tasks}`,
      "Raise global_max_tasks or lower max_concurrent_tasks",
    );
  }
  if (ci.max_attempts > 0 && approval_timeout === 0) {
    refuse(
      ["ci.max_attempts", "approval_timeout"],
      String(ci.max_attempts),
      "must be 0 while approval_timeout is 0: a retry would wait at its gate forever",
      "Set approval_timeout, for example to 24h",
    );
  }
  const least_ms = Math.max(2 * ci.poll_interval, 300_000);
  if (ci.watch_timeout <= least_ms) {
    refuse(
      ["ci.watch_timeout", "ci.poll_interval"],
      formatExact(ci.watch_timeout),
      `must be longer than ${formatExact(least_ms)}, the longer of 5m and twice ci.poll_interval`,
      "Raise ci.watch_timeout or lower ci.poll_interval",
    );
  }
  if (broker.api_addr !== "" && !broker.api_allow_non_loopback && !parseHttpAddress(broker.api_addr).loopback) {
    refuse(
      ["broker.api_addr", "broker.api_allow_non_loopback"],
      broker.api_addr,
      "must be a loopback address unless broker.api_allow_non_loopback is true: there is no TLS",
      "Use 127.0.0.1 with a server with TLS in front, on this machine",
    );
  }
  for (const [one, other] of LISTENER_PAIRS) {
    const [address, its] = [settings.broker[one], settings.broker[other]];
    if (address === "" || its === "") continue;
    const { port } = parseHttpAddress(address);
    if (port === 0 || port !== parseHttpAddress(its).port) continue;
    refuse(
      [`broker.${one}`, `broker.${other}`],
      address,
      `must have another port than broker.${other}`,
      "Give each listener a port of its own",
    );
  }
}

const LISTENER_PAIRS = [["api_addr", "addr"], ["metrics_addr", "addr"], ["metrics_addr", "api_addr"]] as const;
