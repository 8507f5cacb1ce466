/**
 * The rules between settings: pairs of values that are allowed one by one and not together.
 */

import { type ConfigPlace, InvalidConfig } from "./invalid_config.ts";
import { formatExact } from "./value_schemas.ts";
import type { SettingPath, Settings } from "./settings.ts";

/** Refuses a pair that breaks a rule, at the place of the setting that is configured. */
export function checkPairs(settings: Settings, placeOf: (path: SettingPath) => ConfigPlace): void {
  const { global_max_tasks, max_concurrent_tasks, approval_timeout, ci } = settings;
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
}
