/**
 * What the MCP server offers: one table of tools. Each is an operation of docs/reference/store_protocol.md with its fields checked by
 * the same table, done by the daemon when one is alive and on the store otherwise.
 *
 * @module
 */

import { type Field, OPS } from "../../lib/protocol/ops.ts";
import { parseArgs } from "../../lib/protocol/parse.ts";
import type { OpArgs, OpName } from "../../lib/protocol/messages.ts";
import { type Address, DEFAULT_BRANCH, parseAddress } from "../../lib/store/names.ts";
import { liveSessions, type Operations } from "../plan/operations.ts";

/** What a tool does to the store, as clients are told. */
export type Effect = "reads" | "adds" | "destroys";

/** One tool. */
export interface Tool {
  /** Its name; that of the operation. */
  name: string;
  description: string;
  effect: Effect;
  /** JSON schema of its arguments. */
  input_schema: { type: "object"; properties: Record<string, object>; required: string[]; additionalProperties: false };
  /** Checks the arguments and does the work. */
  run(ops: Operations, given: Record<string, unknown>): Promise<object>;
}

type Run<O extends OpName> = (ops: Operations, args: OpArgs<O>) => Promise<object>;

function tool<O extends OpName>(op: O, effect: Effect, run: Run<O>): Tool {
  const fields = OPS[op].fields as Record<string, Field<unknown>>;
  return {
    name: op,
    description: OPS[op].summary,
    effect,
    input_schema: {
      type: "object",
      properties: Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, schemaOf(field)])),
      required: Object.entries(fields).filter(([, field]) => field.required).map(([name]) => name),
      additionalProperties: false,
    },
    run: (ops, given) => run(ops, parseArgs(op, given)),
  };
}

/** A field as JSON schema; the exact rules are checked when the tool is called. */
function schemaOf({ type, doc }: Field<unknown>): object {
  if (type === "boolean") return { type: "boolean", description: doc };
  if (type === "array of strings") return { type: "array", items: { type: "string" }, description: doc };
  if (!type.startsWith("integer")) return { type: "string", description: `${doc} (${type})` };
  const nullable = type.endsWith("null");
  return { type: nullable ? ["integer", "null"] : "integer", description: `${doc} (${type})` };
}

function branchOf({ db, branch }: { db: string; branch?: string }): Address {
  return { db, branch: branch ?? DEFAULT_BRANCH };
}

function pointOf(args: { db: string; branch?: string; checkpoint?: string }): Address {
  const branch = branchOf(args);
  return args.checkpoint === undefined ? branch : { ...branch, checkpoint: args.checkpoint };
}

function only<K extends string>(name: K, value: string | undefined): { [N in K]?: string } {
  return value === undefined ? {} : { [name]: value } as { [N in K]?: string };
}

/** Every tool, in the order in which clients list them. */
export const TOOLS: readonly Tool[] = [
  tool("databases", "reads", async (ops) => ({ databases: await ops.branches.databases() })),
  tool("branches", "reads", async (ops, { db }) => ({ branches: await ops.branches.branches(db) })),
  tool("status", "reads", async (ops, { db, branch }) => {
    if (db !== undefined) return { branch: await ops.branches.status(branchOf({ db, ...only("branch", branch) })) };
    return { sessions: await ops.live?.status() ?? [] };
  }),
  tool("diff", "reads", (ops, { a, b, ...options }) => ops.branches.diff(parseAddress(a), parseAddress(b), options)),
  tool("lease", "reads", (ops, args) => ops.branches.lease(branchOf(args))),
  tool("verify", "reads", async (ops, args) => {
    const { ok, ...found } = await (await ops.store()).verify(pointOf(args));
    return { ...found, intact: ok };
  }),
  tool("create", "adds", async (ops, { db, ...options }) => await (await ops.store()).create(db, options)),
  tool("checkout", "adds", (ops, { force, ...args }) => ops.branches.checkout(branchOf(args), force ? { force } : {})),
  tool("checkout-at", "adds", (ops, args) => ops.branches.checkout(pointOf(args))),
  tool(
    "checkpoint",
    "adds",
    (ops, { name, note, ...args }) => ops.branches.checkpoint(branchOf(args), name, note === undefined ? {} : { note }),
  ),
  tool(
    "fork",
    "adds",
    (ops, { new_branch, at, ttl_ms, materialize, ...args }) =>
      ops.branches.fork(at === undefined ? branchOf(args) : { ...branchOf(args), checkpoint: at }, new_branch, {
        ...(ttl_ms === undefined ? {} : { ttl_ms }),
        ...(materialize === undefined ? {} : { materialize }),
      }),
  ),
  tool(
    "touch",
    "adds",
    (ops, { ttl_ms, ...args }) => ops.branches.touch(branchOf(args), ttl_ms === undefined ? {} : { ttl_ms }),
  ),
  tool(
    "rollback",
    "destroys",
    ({ branches }, { to, db, branch, ...options }) =>
      branches.rollback({ ...branchOf({ db, ...only("branch", branch) }), checkpoint: to }, options),
  ),
  tool(
    "promote",
    "destroys",
    ({ branches }, { onto, db, branch, ...options }) =>
      branches.promote(branchOf({ db, ...only("branch", branch) }), { db, branch: onto }, options),
  ),
  tool(
    "destroy",
    "destroys",
    ({ branches }, { force, ...args }) => branches.destroy(branchOf(args), force === undefined ? {} : { force }),
  ),
  tool("open", "adds", async (ops, args) => await liveSessions(ops).open(branchOf(args))),
  tool("flush", "adds", async (ops, args) => await liveSessions(ops).flush(branchOf(args))),
  tool("close", "adds", async (ops, args) => await liveSessions(ops).close(branchOf(args))),
];
