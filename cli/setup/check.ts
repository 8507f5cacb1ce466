/**
 * What one look at the host came to, in the words that `doctor` and `setup` print.
 *
 * A check never throws: what it could not find out is its result, with what to do.
 *
 * @module
 */

import { messageOf, TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";

/** Whether the broker can work: as it is, with something missing that only some tasks need, or not at all. */
export type CheckStatus = "ok" | "warn" | "fail";

/** A line of `doctor`. */
export interface HostCheck {
  /** What was looked at. */
  name: string;
  status: CheckStatus;
  /** What was found. Never a secret. */
  detail: string;
  /** What to do about it; absent when all is well. */
  remedy?: string;
}

/** All is well. */
export function ok(name: string, detail: string): HostCheck {
  return { name, status: "ok", detail };
}

/** Some tasks will miss it. */
export function warn(name: string, detail: string, remedy: string): HostCheck {
  return { name, status: "warn", detail, remedy };
}

/** Nothing works without it. */
export function fail(name: string, detail: string, remedy: string): HostCheck {
  return { name, status: "fail", detail, remedy };
}

/** A check whose look failed. */
export function failedCheck(name: string, error: unknown, options: { status?: "warn" | "fail" } = {}): HostCheck {
  const { status = "fail" } = options;
  const detail = sanitizeLine(messageOf(error));
  const hint = error instanceof TaskdError ? error.hint : undefined;
  return { name, status, detail, remedy: hint ?? "Look into it and run taskd doctor again" };
}

/** Looks, and makes whatever is thrown the check's result. */
export async function checked(name: string, check: () => HostCheck[] | Promise<HostCheck[]>): Promise<HostCheck[]> {
  try {
    return await check();
  } catch (error) {
    return [failedCheck(name, error)];
  }
}

/** The worst of several. */
export function worst(checks: readonly HostCheck[]): CheckStatus {
  if (checks.some(({ status }) => status === "fail")) return "fail";
  return checks.some(({ status }) => status === "warn") ? "warn" : "ok";
}
