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
const EFFECTS: { readonly [O in CallableOp]?: Effect } = {
  databases: "reads",
  branches: "reads",
  status: "reads",
  diff: "reads",
  "diff-rows": "reads",
  lease: "reads",
  verify: "reads",
  create: "adds",
  checkout: "adds",
  "checkout-at": "adds",
  checkpoint: "adds",
  fork: "adds",
  touch: "adds",
  rollback: "destroys",
  promote: "destroys",
  merge: "destroys",
  revert: "destroys",
  merges: "reads",
  log: "reads",
  reset: "destroys",
  destroy: "destroys",
  undo: "destroys",
  undoable: "reads",
  open: "adds",
  flush: "adds",
  close: "adds",
};

export const TOOLS: readonly Tool[] = (Object.entries(EFFECTS) as [CallableOp, Effect][]).map(([op, effect]) =>
  isConfirmed(op) ? confirmed(op, toolOf([op, effect])) : toolOf([op, effect])
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

function toolOf([op, effect]: [CallableOp, Effect]): Tool {
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
