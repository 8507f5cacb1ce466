/**
 * What the MCP server offers: operations of docs/reference/store_protocol.md, with the fields and the checks of the same
 * table, done by the daemon when one is alive and on the store otherwise.
 */

import type { CallableOp, OpArgs } from "../../lib/protocol/messages.ts";
import { type AnyFields, objectSchema, OPS } from "../../lib/protocol/operations.ts";
import { parseArgs } from "../../lib/protocol/parse_args.ts";
import { DEFAULT_BRANCH } from "../../lib/store/names.ts";
import type { Operations } from "../plan/operations.ts";
import { type Confirmations, type ConfirmedOp, isConfirmed } from "./confirmations.ts";

/** What a tool does to the store; clients see it. */
export type Effect = "reads" | "adds" | "destroys";

export interface Tool {
  name: string;
  description: string;
  effect: Effect;
  /** JSON schemas of its arguments and of its result. */
  input_schema: object;
  output_schema: object;
  run(ops: Operations, args: Record<string, unknown>, confirmations: Confirmations): Promise<object>;
}

/** The operations that are tools, in the order in which clients list them. */
const EFFECTS: readonly (readonly [Effect, readonly CallableOp[]])[] = [
  ["reads", ["databases", "branches", "status", "diff", "diff-rows", "lease", "verify"]],
  ["adds", ["create", "checkout", "checkout-at", "checkpoint", "fork", "touch"]],
  ["destroys", ["rollback", "promote", "merge", "revert"]],
  ["reads", ["merges", "log"]],
  ["destroys", ["reset", "destroy", "undo"]],
  ["reads", ["undoable"]],
  ["adds", ["open", "flush", "close"]],
];

export const TOOLS: readonly Tool[] = EFFECTS.flatMap(([effect, ops]) =>
  ops.map((op) => isConfirmed(op) ? confirmed(op, toolOf(op, effect)) : toolOf(op, effect))
);

/** A tool that takes two calls: what a model sets by itself confirms nothing. */
function confirmed(op: ConfirmedOp, tool: Tool): Tool {
  const { confirm: _confirm, ...fields } = OPS[op].fields as AnyFields;
  const confirmation = { type: "string", description: "what the answer to a call without it gave" };
  const schema = objectSchema(fields as AnyFields);
  const when = op === "destroy" ? "Takes" : "What would lose something for good takes";
  return {
    ...tool,
    description: `${tool.description} ${when} two calls: the first changes nothing, and answers what would go.`,
    input_schema: { ...schema, properties: { ...schema.properties, confirmation }, additionalProperties: false },
    run: (ops, args, confirmations) => confirmations.run(op, ops, args),
  };
}

function toolOf(op: CallableOp, effect: Effect): Tool {
  const { summary, fields, answer } = OPS[op];
  return {
    name: op,
    description: summary,
    effect,
    input_schema: { ...objectSchema(fields as AnyFields), additionalProperties: false },
    output_schema: objectSchema(answer as AnyFields),
    run: (ops, args) => ops.call(op, defaulted(op, parseArgs(op, args))),
  };
}

/** To a model, the status of a database is that of its main branch. */
function defaulted<O extends CallableOp>(op: O, args: OpArgs<O>): OpArgs<O> {
  return op === "status" && "db" in args ? { branch: DEFAULT_BRANCH, ...args } : args;
}
