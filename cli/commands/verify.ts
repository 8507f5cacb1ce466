/**
 * The command `taskd verify`.
 *
 * @module
 */

import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { VerifyAnswer } from "../../lib/protocol/messages.ts";
import type { Address } from "../../lib/store/names.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName, count } from "./_result_text.ts";

/** Every branch that was verified. */
export interface VerifyAllResult {
  intact: boolean;
  branches: VerifyAnswer[];
}

/** Verifies the branch, or all. */
export async function run(args: Args, io: Io, ops: Operations): Promise<VerifyAllResult> {
  const branches: VerifyAnswer[] = [];
  for (const address of await addresses(args, ops)) {
    const onProgress = io.progress(`verify ${branchName(address)}`);
    try {
      branches.push(await ops.call("verify", address, onProgress));
    } catch (error) {
      // Destroyed since it was listed.
      if (!args.on("all") || !hasCode(error, "not_found")) throw error;
    } finally {
      io.clearProgress();
    }
  }
  return { intact: branches.every((branch) => branch.intact), branches };
}

async function addresses(args: Args, ops: Operations): Promise<Address[]> {
  const named = args.optional("address") !== undefined;
  if (named === args.on("all")) {
    throw new TaskdError("usage", `Verify takes one address${named ? " or --all, not both" : ", or --all"}`, {
      hint: "See taskd help verify",
    });
  }
  if (named) return [args.address("address")];
  return (await ops.call("branches", {})).branches.map(({ db, branch }) => ({ db, branch }));
}

/** One line for each branch, and one for each problem. */
export function render(result: VerifyAllResult): string {
  if (result.branches.length === 0) return "There are no branches";
  return result.branches.flatMap((branch) => {
    const what = `${count(branch.objects, "object")}, ${count(branch.pages, "page")}, txid ${branch.txid}`;
    const verdict = branch.intact ? "intact" : "DAMAGED";
    return [
      `${branchName(branch)} is ${verdict} (${what})`,
      ...branch.problems.map((problem) => `  ${sanitizeLine(problem)}`),
    ];
  }).join("\n");
}

/** Damage is a failure. */
export function exitCode(result: VerifyAllResult): number {
  return result.intact ? EXIT_OK : EXIT_FAILURE;
}
