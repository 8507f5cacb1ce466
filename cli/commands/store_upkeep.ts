/**
 * The commands that look after what is stored: gc, verify.
 */

import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { VerifyAnswer } from "../../lib/protocol/messages.ts";
import type { Address } from "../../lib/store/names.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { storeCommand } from "../plan/command_module.ts";
import type { Operations } from "../plan/operations.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import { branchName } from "./_result_text.ts";

export const gc = storeCommand({
  async run(args, _io, ops) {
    const dry_run = args.on("dry-run");
    return { ...await ops.call("gc", { grace_ms: args.numberOf("grace"), dry_run }), dry_run };
  },
  render(result) {
    const [deleted, marked] = result.dry_run ? ["would be deleted", "would be marked"] : ["deleted", "marked"];
    return [
      `${plural(result.marked, "object")} reached by branches`,
      `${plural(result.deleted, "object")} ${deleted} (${formatBytes(result.bytes_deleted)})`,
      `${plural(result.tombstoned, "object")} newly ${marked} as unreachable`,
      `${plural(result.backlog, "object")} waiting for a grace period to end`,
      `${plural(result.kept, "object")} left alone`,
    ].join("\n");
  },
});

export const verify = storeCommand({
  async run(args, io, ops) {
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
  },
  render({ branches }) {
    if (branches.length === 0) return "There are no branches";
    return branches.flatMap((branch) => {
      const what = `${plural(branch.objects, "object")}, ${plural(branch.pages, "page")}, txid ${branch.txid}`;
      return [
        `${branchName(branch)} is ${branch.intact ? "intact" : "DAMAGED"} (${what})`,
        ...branch.problems.map((problem) => `  ${sanitizeLine(problem)}`),
      ];
    }).join("\n");
  },
  exitCode: ({ intact }) => intact ? EXIT_OK : EXIT_FAILURE,
});

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
