/**
 * The commands that make, repoint, keep and remove branches: create, fork, promote, rollback, destroy, touch, protect
 * and unprotect.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { RepointArgs } from "../../lib/protocol/messages.ts";
import { type Address, parseName } from "../../lib/store/names.ts";
import type { RepointResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import { storeCommand } from "../plan/command_module.ts";
import { branchName, lifetimeText } from "./_result_text.ts";

export const create = storeCommand({
  async run(args, io, ops) {
    const db = args.positional("db");
    const from = args.text("from");
    return await ops.call("create", { db, ...(from === undefined ? {} : { from }) }, io.progress(`create ${db}`));
  },
  render(result) {
    const sizes = `${formatBytes(result.size_bytes)}, ${formatBytes(result.stored_bytes)} stored`;
    return `Created ${branchName(result)} (${sizes})`;
  },
});

export const fork = storeCommand({
  async run(args, io, ops) {
    const { checkpoint, ...branch } = startOf(args);
    const ttl_ms = args.number("ttl");
    return await ops.call("fork", {
      ...branch,
      ...(checkpoint === undefined ? {} : { at: checkpoint }),
      ...(ttl_ms === undefined ? {} : { ttl_ms }),
      new_branch: args.positional("new-branch"),
      materialize: args.on("materialize"),
    }, io.progress(`fork ${args.positional("address")}`));
  },
  render: (result) => `Forked ${branchName(result)} (${result.mode}, txid ${result.txid})`,
});

function startOf(args: Args): Address {
  const address = args.address("address");
  const at = args.text("at");
  if (at === undefined) return address;
  if (address.checkpoint !== undefined) {
    throw new TaskdError("usage", `Fork is given two checkpoints, ${address.checkpoint} and ${JSON.stringify(at)}`, {
      hint: "Name the checkpoint in the address or with --at, not both",
    });
  }
  return { ...address, checkpoint: parseName(at, "checkpoint") };
}

/** Repoints another branch to this one. */
export const promote = storeCommand({
  async run(args, io, ops) {
    const onto = parseName(args.text("onto") ?? "", "branch");
    const request = { ...args.address("branch"), onto, ...repointFlags(args) };
    return await ops.call("promote", request, io.progress(`promote ${args.positional("branch")}`));
  },
  render: (result, _io, args) =>
    repointText(`Promoted ${args.positional("branch")} onto ${branchName(result)}`, result),
});

export const rollback = storeCommand({
  async run(args, io, ops) {
    const to = parseName(args.text("to") ?? "", "checkpoint");
    const request = { ...args.address("branch"), to, ...repointFlags(args) };
    return await ops.call("rollback", request, io.progress(`rollback ${args.positional("branch")}`));
  },
  render: (result, _io, args) => repointText(`Rolled ${branchName(result)} back to ${args.text("to")}`, result),
});

function repointFlags(args: Args): Omit<RepointArgs, "db" | "branch"> {
  const safety_ttl_ms = args.number("safety-ttl");
  return {
    materialize: args.on("materialize"),
    safety: args.on("safety"),
    reopen: args.on("reopen"),
    ...(safety_ttl_ms === undefined ? {} : { safety_ttl_ms }),
  };
}

function repointText(done: string, result: RepointResult): string {
  const lines = [`${done} (${result.mode}, txid ${result.txid})`];
  if (result.safety_branch !== undefined) {
    lines.push(`What was there before is kept as ${result.db}@${result.safety_branch}`);
  }
  if (!result.checkout_refreshed) {
    lines.push(`Its file still holds the old content: run taskd checkout ${branchName(result)}`);
  }
  return lines.join("\n");
}

export const destroy = storeCommand({
  async run(args, _io, ops) {
    return await ops.call("destroy", { ...args.address("branch"), force: args.on("force") });
  },
  render: (result) => `Destroyed ${branchName(result)}`,
});

/** Restarts the time to live of a branch; `--ttl 0` ends it. */
export const touch = storeCommand({
  async run(args, _io, ops) {
    const ttl_ms = args.number("ttl");
    return await ops.call("touch", {
      ...args.address("branch"),
      ...(ttl_ms === undefined ? {} : { ttl_ms: ttl_ms || null }),
    });
  },
  render(result) {
    const ttl = lifetimeText(result);
    return `Touched ${branchName(result)}: it ${ttl === undefined ? "never expires" : `expires in ${ttl}`}`;
  },
});

export const protect = storeCommand({
  async run(args, _io, ops) {
    return await ops.call("protect", { ...args.address("branch"), on: args.plan.command === "protect" });
  },
  render: (result) => `${result.protected ? "Protected" : "Unprotected"} ${branchName(result)}`,
});
