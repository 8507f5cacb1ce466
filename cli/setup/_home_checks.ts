/** Checks of `~/.taskd` and what is configured in it. */

import { fileErrorCode } from "../../lib/fs.ts";
import { loadSettings, type ResolvedSettings, taskdHome } from "../../broker/settings/load.ts";
import type { UntrustedPlace } from "../../broker/settings/own_places.ts";
import { startWarnings } from "../../broker/settings/warnings.ts";
import { readApiTokens } from "../../broker/http/api_tokens.ts";
import { apiTokensPath } from "../../broker/settings/keys.ts";
import { readItems } from "../../broker/engine/queue/item.ts";
import { surveyTraces } from "../../broker/task/task_index.ts";
import { tracePath } from "../../broker/task/trace.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { checked, fail, failedCheck, type HostCheck, ok, warn } from "./check.ts";

export interface HomeOptions {
  home: string;
  uid: number;
  env: (name: string) => string | undefined;
}

/** Whether there is one, and whether another user could decide about it or about anything that it names. */
export function checkHome(home: string, untrusted: readonly UntrustedPlace[]): HostCheck[] {
  const directory = taskdHome(home);
  if (stat(directory) === undefined) return [fail("home", `${directory} does not exist`, "Run taskd init")];
  if (untrusted.length === 0) return [ok("home", `${directory}, for its owner alone to change`)];
  return untrusted.map(({ problem, remedy }) => fail("home", sanitizeLine(problem), remedy));
}

function stat(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return undefined;
    throw error;
  }
}

/** The settings, and the warnings that the broker logs when it starts. */
export async function checkConfig(
  { home, env, uid }: HomeOptions,
): Promise<[HostCheck[], ResolvedSettings | undefined]> {
  try {
    const resolved = await loadSettings({ home, env, uid });
    const counts = { file: 0, variables: 0 };
    for (const source of resolved.sources.values()) {
      if (source === "config.yaml") counts.file++;
      if (source.startsWith("env:")) counts.variables++;
    }
    const detail = `valid; ${counts.file} set in config.yaml, ${counts.variables} by the environment`;
    const warnings = startWarnings(resolved.settings).map((text) =>
      warn("config", text, "Change config.yaml, unless it is meant so")
    );
    return [[ok("config", detail), ...warnings, egressCheck(resolved)], resolved];
  } catch (error) {
    return [[failedCheck("config", error)], undefined];
  }
}

function egressCheck({ egress }: ResolvedSettings): HostCheck {
  const { length } = egress.entries;
  if (length === 0) return ok("egress", "nothing is listed: sandboxes reach the model gateway alone");
  return ok("egress", `${length} ${length === 1 ? "entry" : "entries"}`);
}

/** Whether what the broker has written of tasks and of its queue reads as it was written. */
export async function checkRecords(
  { home, audit_root }: { home: string; audit_root: string },
): Promise<HostCheck[]> {
  const { entries, damaged } = await surveyTraces(audit_root);
  const directory = `${taskdHome(home)}/queue`;
  const queue = stat(directory) === undefined ? { items: [], damaged: [] } : readItems(directory);
  const tokens = await checked("records", async () => {
    await readApiTokens(apiTokensPath(home));
    return [];
  });
  const found = [
    ...tokens,
    ...[...damaged.values()].map(({ id, fault: { seq, problem } }) => {
      const detail = `${tracePath(audit_root, id)}: row ${seq} is ${problem}`;
      return fail("records", detail, "Restore the file from a backup, or move it away: the task is not continued");
    }),
    ...queue.damaged.map((path) =>
      fail("records", `${path} is damaged: its task does not begin`, "Restore it, or move it away and queue anew")
    ),
  ];
  return found.length > 0 ? found : [ok("records", `${entries.size} traces, ${queue.items.length} items of the queue`)];
}

/** A clock that was set back makes records that end before they begin, and budget windows that never close. */
export function checkClock({ home, now }: { home: string; now: number }): HostCheck {
  const newest = newestChange(taskdHome(home));
  if (now < PROGRAM_FROM) {
    const today = new Date(now).toISOString().slice(0, 10);
    return fail("clock", `its date, ${today}, is before this program was made`, "Set the machine's clock");
  }
  if (newest !== undefined && newest.at > now + CLOCK_SLACK_MS) {
    const by = Math.round((newest.at - now) / 1_000);
    const detail = `${newest.path} was changed ${by} s in the future: the clock has been set back`;
    return warn("clock", detail, "Set the machine's clock, and keep it by NTP");
  }
  return ok("clock", new Date(now).toISOString());
}

/** 2025-06-01: older than any release. */
const PROGRAM_FROM = Date.UTC(2025, 5, 1);
/** Network file systems have clocks of their own. */
const CLOCK_SLACK_MS = 60_000;

function newestChange(directory: string): { path: string; at: number } | undefined {
  let newest: { path: string; at: number } | undefined;
  for (const name of ["config.yaml", "egress.yaml", "api-keys.env", "audit", "stage"]) {
    const path = `${directory}/${name}`;
    const at = stat(path)?.mtime?.getTime();
    if (at !== undefined && (newest === undefined || at > newest.at)) newest = { path, at };
  }
  return newest;
}
