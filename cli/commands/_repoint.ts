/**
 * What rollback and promote share: their flags, and their result in words.
 *
 * @module
 */

import type { RepointArgs } from "../../lib/protocol/messages.ts";
import type { RepointResult } from "../../lib/store/results.ts";
import type { Args } from "../plan/args.ts";
import { safetyLifetime } from "./_lifetime.ts";
import { branchName } from "./_result_text.ts";

/** The flags as fields of a request. */
export function repointFlags(args: Args): Omit<RepointArgs, "db" | "branch"> {
  return {
    materialize: args.on("materialize"),
    safety: args.on("safety"),
    reopen: args.on("reopen"),
    ...safetyLifetime(args),
  };
}

/** The result, after its first words. */
export function repointText(done: string, result: RepointResult): string {
  const lines = [`${done} (${result.mode}, txid ${result.txid})`];
  if (result.safety_branch !== undefined) {
    lines.push(`What was there before is kept as ${result.db}@${result.safety_branch}`);
  }
  if (!result.checkout_refreshed) {
    lines.push(`Its file still holds the old content: run taskd checkout ${branchName(result)}`);
  }
  return lines.join("\n");
}
