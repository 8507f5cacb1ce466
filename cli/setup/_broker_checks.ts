/**
 * Checks of the running daemons: the broker, whether it works with what is configured, and
 * the branch store that tasks with databases need.
 */

import { compareWithLive, verdictLine } from "../../broker/settings/explain.ts";
import type { PolicyView } from "../../broker/settings/policy_view.ts";
import type { ResolvedSettings } from "../../broker/settings/load.ts";
import { fail, type FoundStore, type HostCheck, ok, warn } from "./check.ts";
import type { FoundBroker } from "../../broker/client/lifecycle.ts";

/** The broker, and whether it is in sync; `live` are the settings that it answered with. */
export function checkBroker(
  found: FoundBroker,
  options: { resolved: ResolvedSettings | undefined; live: PolicyView | null },
): HostCheck[] {
  if (found.state === "none") return [warn("broker", "not running", "Run taskd start")];
  if (found.state === "silent") {
    const detail = `process ${found.pid} runs and does not answer${found.socket ? ` on ${found.socket}` : ""}`;
    return [fail("broker", detail, `End process ${found.pid} with kill, then run taskd start`)];
  }
  const { pid, socket, health } = found;
  const running = ok("broker", `version ${health.version}, pid ${pid}, on ${socket}`);
  const { resolved, live } = options;
  if (resolved === undefined) return [running];
  if (live === null) return [running, warn("in sync", "the broker's settings are not understood", "Run taskd start")];
  const comparison = compareWithLive(resolved, live);
  const verdict = verdictLine(comparison).replace(/^daemon: /, "");
  return [running, comparison.in_sync ? ok("in sync", verdict) : warn("in sync", verdict, "Run taskd start")];
}

/** The branch store's daemon, which only tasks with databases need, and sessions that it could not go on with. */
export function checkStore(found: FoundStore | undefined): HostCheck[] {
  if (found === undefined) return [ok("branch store", "its daemon does not run; only tasks with databases need it")];
  const { info: { pid, socket }, sessions } = found;
  const running = ok("branch store", `pid ${pid}, on ${socket ?? "no socket yet"}`);
  const failed = sessions.filter(({ state }) => state === "error");
  return [
    running,
    ...failed.map(({ db, branch, error }) =>
      fail(
        "session",
        `${db}@${branch} has failed, and what is committed is in its file alone: ${
          error?.message ?? "no reason is known"
        }`,
        `Mend that, then capture it again with: taskd session open ${db}@${branch}`,
      )
    ),
  ];
}
