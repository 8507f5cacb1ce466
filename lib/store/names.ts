/**
 * Names, addresses and transaction ids: parsed once, at the edge.
 */

import { TaskdError } from "../errors.ts";
import { parsePoint } from "./point_text.ts";

/** A transaction id: a count of captured commits within a chain, a safe integer >= 0. */
export type Txid = number;

/** The branch an address means when it names none. */
export const DEFAULT_BRANCH = "main";

export const MAX_NAME_CHARS = 128;

const NAME = new RegExp(`^(?![-.])[a-z0-9_.-]{1,${MAX_NAME_CHARS}}$`);

/**
 * Checks a database, branch or checkpoint name: 1-128 of `[a-z0-9_.-]`, not beginning with `-` or `.`, without `..`.
 *
 * @example
 * ```ts
 * import { parseName } from "@taskd/taskd";
 *
 * console.log(parseName("try-2", "branch")); // try-2
 * ```
 *
 * @returns The name as it was given.
 * @throws {TaskdError} `invalid_name`.
 */
export function parseName(text: string, what: "database" | "branch" | "checkpoint"): string {
  if (!isName(text)) {
    throw new TaskdError("invalid_name", `Cannot use ${JSON.stringify(text.slice(0, 200))} as a ${what} name`, {
      hint: hintOf(text, what),
    });
  }
  return text;
}

/** Whether {@linkcode parseName} accepts it. */
export function isName(text: string): boolean {
  return NAME.test(text) && !text.includes("..");
}

/**
 * Checks what names a checkpoint or another point, as {@linkcode parsePoint} reads it.
 *
 * @returns The text as it was given.
 * @throws {TaskdError} `invalid_name`.
 */
export function parsePointName(text: string): string {
  if (isName(text) || (text.length <= MAX_NAME_CHARS && parsePoint(text) !== undefined)) return text;
  throw new TaskdError("invalid_name", `Cannot use ${JSON.stringify(text.slice(0, 200))} as a point of a branch`, {
    hint: "Name a checkpoint, a transaction (txid:41), a time (time:2026-11-25T15:00:00Z) or an age (age:15m)",
  });
}

function hintOf(text: string, what: "database" | "branch" | "checkpoint"): string {
  // An address where only its end is asked for, as in `promote shop@try --onto shop@main`.
  const alone = text.slice(text.lastIndexOf("@") + 1);
  if (what !== "database" && alone !== text && NAME.test(alone)) {
    return `Write the name alone, ${alone}: the ${what} is in the same database`;
  }
  return `Names are 1-${MAX_NAME_CHARS} characters of a-z 0-9 _ . -, do not begin with - or ., and hold no ..`;
}

/** A branch of a database. */
export interface BranchName {
  /** Database name. */
  db: string;
  /** Branch name. */
  branch: string;
}

/** `<db>`, `<db>@<branch>` or `<db>@<branch>@<checkpoint>`. */
export interface Address extends BranchName {
  /** A checkpoint's name, or another point as {@linkcode parsePoint} reads it; absent, the address means the head. */
  checkpoint?: string;
}

/**
 * Parses an address; a missing branch is {@linkcode DEFAULT_BRANCH}.
 *
 * @example
 * ```ts
 * import { formatAddress, parseAddress } from "@taskd/taskd";
 *
 * console.log(parseAddress("shop@try@v1")); // { db: "shop", branch: "try", checkpoint: "v1" }
 * console.log(formatAddress(parseAddress("shop"))); // shop@main
 * ```
 *
 * @throws {TaskdError} `invalid_name`.
 */
export function parseAddress(text: string): Address {
  const parts = text.split("@");
  if (parts.length > 3) {
    throw new TaskdError("invalid_name", `Cannot read ${JSON.stringify(text.slice(0, 400))} as an address`, {
      hint: "An address is <db>, <db>@<branch> or <db>@<branch>@<checkpoint>",
    });
  }
  const address: Address = {
    db: parseName(parts[0]!, "database"),
    branch: parts[1] === undefined ? DEFAULT_BRANCH : parseName(parts[1], "branch"),
  };
  if (parts[2] !== undefined) address.checkpoint = parsePointName(parts[2]);
  return address;
}

/** An address as text; the inverse of {@linkcode parseAddress}. */
export function formatAddress(address: Address): string {
  const branch = `${address.db}@${address.branch}`;
  return address.checkpoint === undefined ? branch : `${branch}@${address.checkpoint}`;
}

/** Refuses, with `usage`, the address of a checkpoint where a branch is `done` something to, such as "destroy". */
export function requireBranch(address: Address, done: string): void {
  if (address.checkpoint === undefined) return;
  throw new TaskdError("usage", `Cannot ${done} ${formatAddress(address)}: it is a checkpoint, not a branch`);
}

/**
 * A txid or epoch as keys have it: 16 hex digits, so that keys sort.
 *
 * @example
 * ```ts
 * import { formatTxid, parseTxid } from "@taskd/taskd";
 *
 * console.log(formatTxid(255)); // 00000000000000ff
 * console.log(parseTxid("00000000000000ff"), parseTxid("ff")); // 255 undefined
 * ```
 *
 * @throws {RangeError} for what is no safe integer >= 0.
 */
export function formatTxid(txid: Txid): string {
  if (!Number.isSafeInteger(txid) || txid < 0) throw new RangeError(`Not a txid: ${txid}`);
  return txid.toString(16).padStart(16, "0");
}

/** Parses the 16 hex digits of {@linkcode formatTxid}; undefined when the text is anything else or beyond 2^53. */
export function parseTxid(text: string): Txid | undefined {
  if (!/^[0-9a-f]{16}$/.test(text)) return undefined;
  const value = Number.parseInt(text, 16);
  return Number.isSafeInteger(value) ? value : undefined;
}
