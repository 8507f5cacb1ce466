/**
 * Phrases that several commands print.
 *
 * @module
 */

import type { Args } from "../plan/args.ts";
import { safetyLifetime } from "./_lifetime.ts";
import type { RepointArgs } from "../../lib/protocol/messages.ts";
import type { RepointResult } from "../../lib/store/results.ts";

/** `<db>@<branch>`. */
export function branchName(result: { db: string; branch: string }): string {
  return `${result.db}@${result.branch}`;
}

/** `1 page`, `2 pages`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
}

/** An ISO 8601 stamp to the second, as `2026-01-31 12:00:00Z`. */
export function stamp(iso: string): string {
  return iso.replace("T", " ").replace(/\.\d+(?=Z)/, "");
}

/** The flags that rollback and promote share. */
export function repointFlags(args: Args): Omit<RepointArgs, "db" | "branch"> {
  return {
    materialize: args.on("materialize"),
    safety: args.on("safety"),
    reopen: args.on("reopen"),
    ...safetyLifetime(args),
  };
}

/** What rollback and promote did, after their first words. */
export function repointWords(done: string, result: RepointResult): string {
  const lines = [`${done} (${result.mode}, txid ${result.txid})`];
  if (result.safety_branch !== undefined) {
    lines.push(`What was there before is kept as ${result.db}@${result.safety_branch}`);
  }
  if (!result.checkout_refreshed) {
    lines.push(`Its file still holds the old content: run taskd checkout ${branchName(result)}`);
  }
  return lines.join("\n");
}
