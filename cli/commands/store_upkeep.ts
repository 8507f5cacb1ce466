/** The commands that look after what is stored: gc, verify. */

import { TaskdError } from "../../lib/errors.ts";
import type { AuditAnswer, VerifyAnswer } from "../../lib/protocol/messages.ts";
import { formatLevels, parseLevels } from "../../lib/store/retention.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { RepairedBranch, RepairResult } from "../../lib/store/results.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { storeCommand } from "../plan/command_module.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import { branchName, findingLines, stamp } from "./_result_text.ts";

export const gc = storeCommand({
  async run(args, _io, ops) {
    const keep = args.text("keep");
    return await ops.call("gc", {
      grace_ms: args.numberOf("grace"),
      dry_run: args.on("dry-run"),
      ...(keep === undefined ? {} : { keep: formatLevels(parseLevels(keep)) }),
    });
  },
  render(result, _io, args) {
    const [deleted, marked] = args.on("dry-run") ? ["would be deleted", "would be marked"] : ["deleted", "marked"];
    return [
      `${plural(result.marked, "object")} reached by branches`,
      `${plural(result.deleted, "object")} ${deleted} (${formatBytes(result.bytes_deleted)})`,
      `${plural(result.tombstoned, "object")} ${marked} as unreachable by this pass`,
      `${plural(result.backlog, "object")} waiting for a grace period to end (${formatBytes(result.backlog_bytes)})`,
      `${plural(result.kept, "object")} left alone`,
      ...result.history.map((cost) =>
        `${branchName(cost)} keeps ${plural(cost.points, "point")} of its past (${formatBytes(cost.bytes)})`
      ),
    ].join("\n");
  },
});

export const verify = storeCommand<VerifyAnswer | AuditAnswer>({
  async run(args, io, ops) {
    const fast = args.on("fast");
    const named = isNamed(args, "address");
    const onProgress = io.progress(`verify ${named ? args.positional("address") : "--all"}`);
    if (!named) return await ops.call("verify-all", { fast }, onProgress);
    return await ops.call("verify", { ...args.address("address"), fast }, onProgress);
  },
  render(result) {
    const { findings } = result;
    const audit = "branches" in result ? result : undefined;
    const branches = "branches" in result ? result.branches : [result];
    if (branches.length === 0 && findings.length === 0) return "There are no branches";
    const left = new Map(findings.map((finding) => [JSON.stringify(finding), finding]));
    const lines = branches.flatMap((branch) => {
      const what = `${plural(branch.objects, "object")}, ${plural(branch.pages, "page")}, txid ${branch.txid}`;
      // What several branches need is shown once, with their names.
      const own = branch.findings.filter((finding) => left.delete(JSON.stringify(finding)));
      return [
        `${branchName(branch)} is ${branch.intact ? "intact" : "DAMAGED"} (${what})`,
        ...own.flatMap((finding) => findingLines(finding, branchName(branch))),
      ];
    });
    lines.push(...[...left.values()].flatMap((finding) => findingLines(finding)));
    if (audit === undefined) return lines.join("\n");
    const { objects, bytes, set_aside } = audit;
    lines.push(`Read ${plural(objects, "object")} (${formatBytes(bytes)})`);
    if (set_aside > 0) lines.push(`${plural(set_aside, "damaged file")} of former repairs below damaged/`);
    return lines.join("\n");
  },
  exitCode: ({ intact }) => intact ? EXIT_OK : EXIT_FAILURE,
});

/** Whether one is named, and not all. */
function isNamed(args: Args, what: "address" | "branch"): boolean {
  const named = args.optional(what) !== undefined;
  if (named !== args.on("all")) return named;
  const [command, capital] = what === "address" ? ["verify", "Verify"] : ["repair", "Repair"];
  throw new TaskdError("usage", `${capital} takes one ${what}${named ? " or --all, not both" : ", or --all"}`, {
    hint: `See taskd help ${command}`,
  });
}

export const repair = storeCommand<RepairResult>({
  async run(args, io, ops) {
    const named = isNamed(args, "branch");
    const from = args.text("from");
    return await ops.call("repair", {
      ...(named ? args.address("branch") : {}),
      ...(from === undefined ? {} : { from }),
      dry_run: args.on("dry-run"),
    }, io.progress(`repair ${named ? args.positional("branch") : "--all"}`));
  },
  render({ dry_run, restored, moved, left, folder }) {
    if (restored.length + moved.length + left.length === 0) return "Nothing is damaged";
    const would = dry_run ? "would be " : "";
    return [
      ...restored.flatMap(({ where, from, lost }) => [
        `${sanitizeLine(where)} ${would || "is "}restored from ${sanitizeLine(from)}`,
        ...(lost === undefined ? [] : [`  Lost: ${sanitizeLine(lost)}`]),
      ]),
      ...moved.flatMap((branch) => movedLines(branch, would)),
      ...left.flatMap((each) => [`${each.where} is as damaged as before`, ...findingLines(each, each.where)]),
      ...(dry_run || restored.length + moved.length === 0 ? [] : [`What was replaced is in ${folder} of the store`]),
    ].join("\n");
  },
  exitCode: ({ restored, moved, left }) =>
    moved.length + left.length === 0 && restored.every(({ lost }) => lost === undefined) ? EXIT_OK : EXIT_FAILURE,
});

function movedLines(
  { db, branch, txid, lost, lost_checkpoints, lost_points, safety_branch }: RepairedBranch,
  would: string,
): string[] {
  const name = branchName({ db, branch });
  const lines: string[] = [];
  if (lost) {
    const since = lost.since === undefined ? "" : `${stamp(lost.since)} and `;
    lines.push(`${name} ${would || "is "}taken back to txid ${txid}`);
    lines.push(
      `  Lost: txids ${lost.first_txid} to ${lost.last_txid}, ${since ? "between " : "before "}${since}${
        stamp(lost.until)
      }`,
    );
  }
  if (lost_checkpoints.length > 0) lines.push(`  Lost of ${name}: checkpoints ${lost_checkpoints.join(", ")}`);
  if (lost_points !== undefined) lines.push(`  Lost of ${name}: ${lost_points} points of its past`);
  if (safety_branch !== undefined) lines.push(`  What it was is kept as ${branchName({ db, branch: safety_branch })}`);
  if (lost) lines.push("  A checkout may still hold them: copy it before you check the branch out again");
  return lines;
}
