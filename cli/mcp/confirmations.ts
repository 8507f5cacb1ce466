/**
 * The second step of a tool call that can lose something for good, or destroys a branch. A model sets a flag as readily as
 * any other argument; so the first call changes nothing and answers what would go, with a confirmation that only this
 * answer has. It is for one call, with the same arguments, on the branch as it was then.
 */

import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { CallableOp, OpAnswer } from "../../lib/protocol/messages.ts";
import { parseArgs } from "../../lib/protocol/parse_args.ts";
import { type BranchName, DEFAULT_BRANCH } from "../../lib/store/names.ts";
import type { BranchStatus } from "../../lib/store/results.ts";
import { formatLevels, parseLevels } from "../../lib/store/retention.ts";
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
  async run<O extends ConfirmedOp>(
    op: O,
    ops: Pick<Operations, "call">,
    { confirmation, ...given }: Record<string, unknown>,
  ): Promise<OpAnswer<O>> {
    if ("confirm" in given) {
      throw new TaskdError("invalid_request", `Cannot run ${op}: unknown field "confirm"`, {
        hint: "A call without confirmation is answered with one",
      });
    }
    const args = parseArgs(op, given);
    const { db, branch } = targetOf(op, args);
    const status = mayLose(args) || op === "destroy" ? await statusOf(ops, { db, branch }) : undefined;
    if (status === undefined && op === "destroy") {
      throw new TaskdError("not_found", `Cannot destroy ${db}@${branch}: there is none`);
    }
    const loss = status && LOSS[op](args, status);
    if (status === undefined || loss === undefined) return await ops.call(op, args);
    const { lineage, txid, checkpoints, state } = status;
    const bound = JSON.stringify([op, args, lineage, txid, checkpoints, state]);
    if (typeof confirmation === "string" && this.#open.get(confirmation) === bound) {
      this.#open.delete(confirmation);
      return await ops.call(op, op === "destroy" ? { ...args, confirm: true } : args);
    }
    const next = randomHex(this.#random, 8);
    this.#open.set(next, bound);
    for (const oldest of this.#open.keys()) {
      if (this.#open.size <= MAX_OPEN) break;
      this.#open.delete(oldest);
    }
    throw new TaskdError("unconfirmed", `${db}@${branch} is left as it is yet: ${loss}`, {
      hint:
        `Ask the person you work for; if they agree, call ${op} again with the same fields and confirmation: "${next}"`,
    });
  }
}

/** What an argument of an operation says about loss. */
interface Lossy {
  safety?: boolean;
  safety_ttl_ms?: number;
  force?: boolean;
  ttl_ms?: number | null;
  keep?: string | null;
}

/** What a call would take from a branch for good; undefined for nothing. */
type LossOf = (args: Lossy, status: BranchStatus) => string | undefined;

const MOVES: LossOf = ({ safety, safety_ttl_ms }, status) => {
  if (safety === false) return `${standing(status)}, would be gone for good, since safety is false`;
  if (safety_ttl_ms === undefined) return undefined;
  return `${
    standing(status)
  }, would be kept as another branch for ${safety_ttl_ms} ms alone, since safety_ttl_ms says so`;
};

/** Every operation whose arguments can lose something. */
const LOSS = {
  destroy: (args, status) =>
    MOVES(args, status) ?? `${standing(status)}, would be kept as another branch for a time, for undo`,
  rollback: MOVES,
  promote: MOVES,
  reset: MOVES,
  undo: MOVES,
  checkout: ({ force }, { state }) =>
    force === true ? `it is ${state}, and edits in its file that no checkpoint has would be gone for good` : undefined,
  touch: ({ ttl_ms, keep }, status) => {
    const sooner = typeof ttl_ms === "number" && ttl_ms < (status.ttl_ms ?? Infinity);
    // Which of two lists of levels keeps more depends on the points: a person decides about each change.
    const fewer = keep !== undefined && levelsOf(keep) !== levelsOf(status.keep);
    const losses = [
      ...sooner ? [`${standing(status)}, would be removed when ${ttl_ms} ms are over, sooner than now`] : [],
      ...fewer
        ? [
          `of the points of its past${counted(status)}, kept so far as ${shown(status.keep)} says, those would be ` +
          `gone for good that ${shown(keep)} does not keep`,
        ]
        : [],
    ];
    return losses.length === 0 ? undefined : losses.join("; and ");
  },
} satisfies Partial<Record<CallableOp, LossOf>>;

/** An operation that takes two calls, always or with some arguments. */
export type ConfirmedOp = keyof typeof LOSS;

export function isConfirmed(op: CallableOp): op is ConfirmedOp {
  return op in LOSS;
}

/** Whether the arguments alone leave it open that something is lost. */
function mayLose(args: Lossy): boolean {
  const { safety, safety_ttl_ms, force, ttl_ms, keep } = args;
  return safety === false || safety_ttl_ms !== undefined || force === true || typeof ttl_ms === "number" ||
    keep !== undefined;
}

/** The branch that loses. */
function targetOf(op: ConfirmedOp, args: { db: string; branch?: string; onto?: string }): BranchName {
  const { db, branch = DEFAULT_BRANCH, onto } = args;
  return { db, branch: op === "promote" ? onto! : branch };
}

/** Undefined of a branch that is not there: the operation itself says so, or makes it. */
async function statusOf(ops: Pick<Operations, "call">, name: BranchName): Promise<BranchStatus | undefined> {
  try {
    return (await ops.call("status", name)).branch;
  } catch (error) {
    if (!hasCode(error, "not_found")) throw error;
    return undefined;
  }
}

function standing({ txid, checkpoints, state }: BranchStatus): string {
  const names = checkpoints.length === 0 ? "" : `, with ${plural(checkpoints.length, "checkpoint")}`;
  return `it is ${state} and at transaction ${txid}${names}; that, and edits that no checkpoint has`;
}

/** One text for each list of levels, and for the store's. */
function levelsOf(keep: string | null | undefined): string | undefined {
  return typeof keep === "string" ? formatLevels(parseLevels(keep)) : undefined;
}

function shown(keep: string | null | undefined): string {
  return typeof keep === "string" ? `"${keep}"` : "the store's setting";
}

function counted({ history_points }: BranchStatus): string {
  return history_points === undefined ? "" : ` (${history_points} now)`;
}
