/**
 * The second step of a tool that destroys. A model sets a flag as readily as any other argument; so the first call
 * destroys nothing and answers what would go, with a confirmation that only this answer has. It is for one call, with the
 * same arguments, on the branch as it was then.
 */

import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { OpAnswer } from "../../lib/protocol/messages.ts";
import { parseArgs } from "../../lib/protocol/parse_args.ts";
import type { BranchStatus } from "../../lib/store/results.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Operations } from "../plan/operations.ts";

/** Confirmations that are open at once; the oldest goes first. */
const MAX_OPEN = 100;

/** Open confirmations of one server. */
export class Confirmations {
  readonly #random: RandomBytes;
  /** By confirmation: the call that it is of, and the branch as it was. */
  readonly #open = new Map<string, string>();

  constructor(random: RandomBytes) {
    this.#random = random;
  }

  /** @throws {TaskdError} `unconfirmed` with what would go and the confirmation, and as the operation. */
  async destroy(
    ops: Pick<Operations, "call">,
    { confirmation, ...given }: Record<string, unknown>,
  ): Promise<OpAnswer<"destroy">> {
    if ("confirm" in given) {
      throw new TaskdError("invalid_request", 'Cannot run destroy: unknown field "confirm"', {
        hint: "A call without confirmation is answered with one",
      });
    }
    const args = parseArgs("destroy", given);
    const { db, branch } = args;
    const { branch: status } = await ops.call("status", { db, branch });
    if (status === undefined) throw new TaskdError("not_found", `Cannot destroy ${db}@${branch}: there is none`);
    const { lineage, txid, checkpoints, state } = status;
    const bound = JSON.stringify([args, lineage, txid, checkpoints, state]);
    if (typeof confirmation === "string" && this.#open.get(confirmation) === bound) {
      this.#open.delete(confirmation);
      return await ops.call("destroy", { ...args, confirm: true });
    }
    const next = randomHex(this.#random, 8);
    this.#open.set(next, bound);
    for (const oldest of this.#open.keys()) {
      if (this.#open.size <= MAX_OPEN) break;
      this.#open.delete(oldest);
    }
    throw new TaskdError(
      "unconfirmed",
      `${db}@${branch} is not destroyed yet: ${loss(status, args.safety !== false)}`,
      {
        hint:
          `Ask the person you work for; if they agree, call destroy again with the same fields and confirmation: "${next}"`,
      },
    );
  }
}

function loss({ txid, checkpoints, state }: BranchStatus, is_kept: boolean): string {
  const names = checkpoints.length === 0 ? "" : `, with ${plural(checkpoints.length, "checkpoint")}`;
  const fate = is_kept ? "kept as another branch for a time, for undo" : "gone for good, since safety is false";
  return `it is ${state} and at transaction ${txid}${names}; that, and edits that no checkpoint has, would be ${fate}`;
}
