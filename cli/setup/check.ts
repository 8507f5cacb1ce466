/**
 * The results of the host's checks, as `doctor` and `setup` print them.
 *
 * A check never fails the command: an error of it is its result, with what to do.
 */

import type { SessionInfo } from "../../lib/protocol/messages.ts";
import type { DaemonInfo } from "../../lib/store/daemon_lock.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";

/** Whether the broker can work: as it is, with something missing that only some tasks need, or not at all. */
export type CheckStatus = "ok" | "warn" | "fail";

export interface HostCheck {
  name: string;
  status: CheckStatus;
  /** What was found. Never a secret. */
  detail: string;
  /** What to do about it; absent when all is well. */
  remedy?: string;
}

/** The daemon of the branch store, as it answered. */
export interface FoundStore {
  info: DaemonInfo;
  sessions: readonly SessionInfo[];
}

export function ok(name: string, detail: string): HostCheck {
  return { name, status: "ok", detail };
}

export function warn(name: string, detail: string, remedy: string): HostCheck {
  return { name, status: "warn", detail, remedy };
}

export function fail(name: string, detail: string, remedy: string): HostCheck {
  return { name, status: "fail", detail, remedy };
}

export function failedCheck(name: string, error: unknown, status: "warn" | "fail" = "fail"): HostCheck {
  if ([error, error instanceof Error ? error.cause : undefined].some((one) => one instanceof Deno.errors.NotCapable)) {
    // The command was granted what settings name that could be read and trusted, before it changed them.
    return warn(name, "not tried, since the settings could not be used as they were", "Run taskd doctor again");
  }
  const detail = sanitizeLine(messageOf(error));
  const hint = error instanceof TaskdError ? error.hint : undefined;
  return { name, status, detail, remedy: hint ?? "Repair it and run taskd doctor again" };
}

export async function checked(
  name: string,
  check: () => HostCheck | HostCheck[] | Promise<HostCheck | HostCheck[]>,
  status: "warn" | "fail" = "fail",
): Promise<HostCheck[]> {
  try {
    return [await check()].flat();
  } catch (error) {
    return [failedCheck(name, error, status)];
  }
}

export function worst(checks: readonly HostCheck[]): CheckStatus {
  if (checks.some(({ status }) => status === "fail")) return "fail";
  return checks.some(({ status }) => status === "warn") ? "warn" : "ok";
}
