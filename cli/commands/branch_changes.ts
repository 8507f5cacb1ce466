/**
 * The commands that make, repoint, keep and remove branches: create, fork, promote, rollback, destroy, undo, touch,
 * protect and unprotect.
 */

import { hasCode } from "../../lib/errors.ts";
import type { OpAnswer, RepointArgs } from "../../lib/protocol/messages.ts";
import { parseName, parsePointName } from "../../lib/store/names.ts";
import type { RepointResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { storeCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { branchName, lifetimeText, noteLeftOut, stamp, waitFlag } from "./_result_text.ts";
import { formatLevels, parseLevels } from "../../lib/store/retention.ts";
import { ttlOption } from "../../lib/store/time_to_live.ts";

export const create = storeCommand({
  async run(args, io, ops) {
    const db = args.positional("db");
    const from = args.text("from");
    return await ops.call(
      "create",
      { db, ...(from === undefined ? {} : { from, force: args.on("force") }) },
      io.progress(`create ${db}`),
    );
  },
  render(result) {
    const sizes = `${formatBytes(result.size_bytes)}, ${formatBytes(result.stored_bytes)} stored`;
    return `Created ${branchName(result)} (${sizes})`;
  },
});

export const fork = storeCommand({
  async run(args, io, ops) {
    const { checkpoint, ...branch } = args.addressAt("address");
    const forked = await ops.call("fork", {
      ...branch,
      ...(checkpoint === undefined ? {} : { at: checkpoint }),
      ...ttlOption(args.number("ttl")),
      new_branch: args.positional("new-branch"),
      materialize: args.on("materialize"),
    }, io.progress(`fork ${args.positional("address")}`));
    return noteLeftOut(forked, io);
  },
  render: (result) => `Forked ${branchName(result)} (${result.mode}, txid ${result.txid})`,
});

export const promote = storeCommand({
  async run(args, io, ops) {
    const onto = parseName(args.text("onto") ?? "", "branch");
    const request = { ...args.address("branch"), onto, ...repointFlags(args) };
    const promoted = await ops.call("promote", request, io.progress(`promote ${args.positional("branch")}`));
    return noteLeftOut(promoted, io);
  },
  render: (result, _io, args) =>
    repointText(`Promoted ${args.positional("branch")} onto ${branchName(result)}`, result),
});

export const rollback = storeCommand({
  async run(args, io, ops) {
    const to = parsePointName(args.text("to") ?? "");
    const request = { ...args.address("branch"), to, ...repointFlags(args) };
    return await ops.call("rollback", request, io.progress(`rollback ${args.positional("branch")}`));
  },
  render: (result, _io, args) => repointText(`Rolled ${branchName(result)} back to ${args.text("to")}`, result),
});

export function repointFlags(args: Args): Omit<RepointArgs, "db" | "branch"> {
  const safety_ttl_ms = args.number("safety-ttl");
  return {
    materialize: args.on("materialize"),
    safety: args.on("safety"),
    reopen: args.on("reopen"),
    ...waitFlag(args),
    ...(safety_ttl_ms === undefined ? {} : { safety_ttl_ms }),
  };
}

export function repointText(done: string, result: RepointResult): string {
  const lines = [`${done} (${result.mode}, txid ${result.txid})`];
  if (result.safety_branch !== undefined) {
    lines.push(`What was there before is kept as ${result.db}@${result.safety_branch}`);
  }
  if (!result.checkout_refreshed) {
    const why = result.checkout_problem === undefined ? "" : ` (${sanitizeLine(result.checkout_problem)})`;
    lines.push(`Its file still holds the old content${why}: run taskd checkout ${branchName(result)}`);
  }
  return lines.join("\n");
}

export const destroy = storeCommand({
  async run(args, io, ops) {
    const safety_ttl_ms = args.number("safety-ttl");
    const request = {
      ...args.address("branch"),
      force: args.on("force"),
      safety: args.on("safety"),
      ...(safety_ttl_ms === undefined ? {} : { safety_ttl_ms }),
      ...waitFlag(args),
    };
    try {
      return await ops.call("destroy", { ...request, confirm: args.on("yes") });
    } catch (error) {
      if (!hasCode(error, "unconfirmed") || io.json || !Deno.stdin.isTerminal() || !io.errorIsTerminal) throw error;
      const { processTerminal, Prompt } = await import("../setup/prompt.ts");
      const prompt = new Prompt(processTerminal, io.signal);
      prompt.say(sanitizeLine(error.message));
      if (!await prompt.confirm("Destroy it all the same?", false)) throw error;
      return await ops.call("destroy", { ...request, confirm: true });
    }
  },
  render: (result) =>
    result.safety_branch === undefined
      ? `Destroyed ${branchName(result)}`
      : `Destroyed ${branchName(result)}; taskd undo ${
        branchName(result)
      } brings it back (kept as ${result.safety_branch})`,
});

export const undo = storeCommand<OpAnswer<"undo"> | OpAnswer<"undoable">>({
  async run(args, io, ops) {
    const address = args.address("branch");
    if (args.on("list")) return await ops.call("undoable", address);
    return await ops.call(
      "undo",
      { ...address, ...repointFlags(args) },
      io.progress(`undo ${args.positional("branch")}`),
    );
  },
  render(result, io, args) {
    if (!("entries" in result)) {
      return repointText(`Took back the ${sanitizeLine(result.undone)} of ${branchName(result)}`, result);
    }
    const until = (expires_at: string | undefined) => expires_at === undefined ? "for good" : stamp(expires_at);
    const rows = result.entries.map((entry) => [
      entry.op,
      stamp(entry.at),
      entry.safety_branch ?? "",
      entry.merge === undefined ? until(entry.expires_at) : `merge ${entry.merge}`,
    ]);
    if (rows.length === 0) return `Nothing to undo on ${args.positional("branch")}`;
    const head = ["OPERATION", "DONE", "KEPT AS", "UNTIL"];
    return textTable(rows, { head, names: [2], columns: io.columns });
  },
});

export const touch = storeCommand({
  async run(args, _io, ops) {
    const ttl = args.number("ttl");
    const keep = args.text("keep");
    return await ops.call("touch", {
      ...args.address("branch"),
      ...ttlOption(ttl === 0 ? null : ttl),
      ...(keep === undefined ? {} : { keep: keep === "default" ? null : formatLevels(parseLevels(keep)) }),
    });
  },
  render(result) {
    const ttl = lifetimeText(result);
    const kept = result.keep === undefined ? "" : `, and its points are kept: ${result.keep}`;
    return `Touched ${branchName(result)}: it ${ttl === undefined ? "never expires" : `expires in ${ttl}`}${kept}`;
  },
});

export const protect = storeCommand({
  run: (args, _io, ops) => ops.call("protect", { ...args.address("branch"), on: args.plan.command === "protect" }),
  render: (result) => `${result.protected ? "Protected" : "Unprotected"} ${branchName(result)}`,
});

export const unprotect = protect;
