/** The commands that bring rows of one branch into another: merge, revert and reset. */

import { type MergeSide, parseResolutions } from "../../lib/merge/conflicts.ts";
import { isDecidable } from "../../lib/merge/decidable.ts";
import type { MergeArgs, OpAnswer } from "../../lib/protocol/messages.ts";
import { parseName } from "../../lib/store/names.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { storeCommand } from "../plan/command_module.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";
import { conflictLines, resolutionsText } from "./_conflicts.ts";
import { branchName, noteLeftOut, stamp, waitFlag } from "./_result_text.ts";
import { repointFlags, repointText } from "./branch_changes.ts";

type Merged = OpAnswer<"merge">;

export const merge = storeCommand<Merged>({
  async run(args, io, ops) {
    const into = parseName(args.text("into") ?? "", "branch");
    const request = { ...args.addressAt("source"), into, ...mergeFlags(args) };
    const merged = await ops.call("merge", request, io.progress(`merge ${args.positional("source")}`));
    return noteLeftOut(merged, io);
  },
  render: (result, io, args) => mergeText(result, io, args, `merge ${result.from} --into ${result.branch}`),
  exitCode: ({ conflicts_total }) => conflicts_total === 0 ? EXIT_OK : EXIT_FAILURE,
});

export const revert = storeCommand<Merged | OpAnswer<"merges">>({
  async run(args, io, ops) {
    const address = args.address("branch");
    if (args.on("list")) return await ops.call("merges", address);
    const merge = args.optional("merge");
    const request = { ...address, ...(merge === undefined ? {} : { merge }), ...mergeFlags(args) };
    return await ops.call("revert", request, io.progress(`revert ${args.positional("branch")}`));
  },
  async render(result, io, args) {
    if ("tables" in result) return await mergeText(result, io, args, `revert ${branchName(result)}`);
    const rows = result.merges.map(({ merge, at, from, txid, in_force, reverts }) => [
      merge,
      stamp(at),
      from,
      String(txid),
      reverts === undefined ? in_force ? "in force" : "taken back" : `takes back ${reverts}`,
    ]);
    if (rows.length === 0) return `Nothing was merged into ${args.positional("branch")}`;
    return await textTable(rows, { head: ["MERGE", "DONE", "FROM", "TXID", "STATE"], names: [2], columns: io.columns });
  },
  exitCode: (result) => "merges" in result || result.conflicts_total === 0 ? EXIT_OK : EXIT_FAILURE,
});

export const reset = storeCommand<OpAnswer<"reset">>({
  async run(args, io, ops) {
    const request = { ...args.address("branch"), ...repointFlags(args) };
    return noteLeftOut(await ops.call("reset", request, io.progress(`reset ${args.positional("branch")}`)), io);
  },
  render: (result) => repointText(`Reset ${branchName(result)} to the head of ${result.parent}`, result),
});

function mergeFlags(args: Args): MergeArgs {
  const prefer = args.choice<MergeSide>("prefer");
  const text = resolutionsText(args);
  return {
    check: args.on("check"),
    ...(prefer === undefined ? {} : { prefer }),
    ...(text === undefined ? {} : { resolutions: parseResolutions(text) }),
    ...waitFlag(args),
  };
}

async function mergeText(result: Merged, io: Io, args: Args, command: string): Promise<string> {
  const { conflicts_total, tables, definitions } = result;
  if (conflicts_total > 0) return await conflictText(result, io, command);
  const changes = tables.length > 0 || definitions.length > 0;
  const done = args.plan.command === "revert" ? "Took back" : "Merged";
  const what = `${sanitizeLine(result.from)}${done === "Merged" ? ` into ${branchName(result)}` : ""}`;
  if (!changes) return `${branchName(result)} has all of ${sanitizeLine(result.from)}: nothing was changed`;
  const head = args.on("check")
    ? `Nothing is in conflict. It would change in ${branchName(result)}:`
    : `${done} ${what} (merge ${result.merge}, txid ${result.txid}, write lock held for ${result.locked_ms} ms)`;
  const rows = tables.map(({ table, rows_added, rows_removed, rows_changed, rows_already }) => [
    table,
    ...[rows_added, rows_removed, rows_changed, rows_already].map(String),
  ]);
  return [
    head,
    ...(rows.length === 0 ? [] : [
      await textTable(rows, {
        head: ["TABLE", "ADDED", "REMOVED", "CHANGED", "ALREADY"],
        right: [1, 2, 3, 4],
        names: [0],
        columns: io.columns,
      }),
    ]),
    ...definitions.map((name) => `definition ${sanitizeLine(name)}`),
  ].join("\n");
}

async function conflictText(result: Merged, io: Io, command: string): Promise<string> {
  const { conflicts, conflicts_total } = result;
  return [
    `${plural(conflicts_total, "conflict")}: nothing was changed in ${branchName(result)}`,
    ...await conflictLines(conflicts, conflicts_total, io.columns),
    // The first thousand of them stand for all.
    conflicts.some(isDecidable)
      ? `To decide: taskd ${sanitizeLine(command)} --prefer ours|theirs, or --resolve FILE with ` +
        '[{"table", "key", "column", "take": "ours"}] as --check --json has them'
      : "There are no two values to choose from: change one of the branches, and merge again",
  ].join("\n");
}
