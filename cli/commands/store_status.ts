/** The commands that look at a store: databases, branches, status, lease. */

import type { StatusAnswer } from "../../lib/protocol/messages.ts";
import type { BranchInfo, BranchStatus, ConditionInfo } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { storeCommand } from "../plan/command_module.ts";
import type { Io } from "../text/io.ts";
import { textList, textTable } from "../text/text_table.ts";
import { branchName, lifetimeText, stamp } from "./_result_text.ts";

export const databases = storeCommand({
  run: (_args, _io, ops) => ops.call("databases", {}),
  async render({ databases }, { columns }) {
    if (databases.length === 0) return "There are no databases";
    const rows = databases.map(({ db, branches }) => [db, String(branches)]);
    return await textTable(rows, { head: ["DATABASE", "BRANCHES"], right: [1], names: [0], columns });
  },
});

export const branches = storeCommand({
  async run(args, _io, ops) {
    const db = args.optional("db");
    return await ops.call("branches", db === undefined ? {} : { db });
  },
  render: ({ branches }, io) => branchTable(branches, io),
});

/** What a branch at rest is shown as: `unknown` where its content could not be compared. */
function stateOf({ state, problem }: BranchInfo): string {
  return state === "idle" && problem !== undefined ? "unknown" : state;
}

async function branchTable(branches: readonly BranchInfo[], { columns }: Io): Promise<string> {
  if (branches.length === 0) return "There are no branches";
  const rows = branches.map((branch) => [
    branchName(branch),
    stateOf(branch),
    `storage=${branch.shared ? "shared" : "materialized"}`,
    String(branch.txid),
    String(branch.checkpoints.length),
    lifetimeText(branch) ?? "never",
    stamp(branch.touched_at),
    branch.protected ? "protected" : "",
  ]);
  const head = ["BRANCH", "STATE", "STORAGE", "TXID", "CHECKPOINTS", "TTL", "TOUCHED", ""];
  const table = await textTable(rows, { head, right: [3, 4], names: [0], columns });
  const problems = branches.flatMap((branch) =>
    branch.problem === undefined ? [] : [`${branchName(branch)}: ${sanitizeLine(branch.problem)}`]
  );
  return [table, ...problems].join("\n");
}

export const status = storeCommand<StatusAnswer>({
  async run(args, _io, ops) {
    const of_branch = args.optional("branch") === undefined ? { branches: true } : args.address("branch");
    return await ops.call("status", { ...of_branch, ro_cache: args.number("ro-cache-budget") !== undefined });
  },
  async render({ branch, branches = [], condition, sqlite_version, ro_cache_bytes }, io, args) {
    const about = branch === undefined ? await branchTable(branches, io) : await depth(branch);
    const cache = cacheText(ro_cache_bytes, args.number("ro-cache-budget"));
    const known: [string, string | undefined][] = [["sqlite", sqlite_version], ["ro cache", cache]];
    return `${about}\n${await textList([...known, ...conditionRows(condition)])}`;
  },
});

function conditionRows(condition: ConditionInfo | undefined): [string, string | undefined][] {
  if (condition === undefined) return [];
  const { damaged, set_aside, scrubbed_at } = condition;
  return [
    ["damaged", damaged === 0 ? undefined : `${plural(damaged, "object")}: see taskd verify --all`],
    ["set aside", set_aside === 0 ? undefined : `${plural(set_aside, "damaged file")} below damaged/`],
    ["scrubbed", scrubbed_at === undefined ? undefined : stamp(scrubbed_at)],
  ];
}

function cacheText(bytes: number | undefined, budget_bytes: number | undefined): string | undefined {
  if (bytes === undefined || budget_bytes === undefined) return undefined;
  if (budget_bytes === 0) return `${formatBytes(bytes)}, no budget`;
  const share = Math.round(bytes / budget_bytes * 100);
  return `${formatBytes(bytes)} of ${formatBytes(budget_bytes)} (${share}%)`;
}

async function depth(branch: BranchStatus): Promise<string> {
  return await textList([
    ["branch", branchName(branch)],
    ["state", stateOf(branch)],
    ["error", branch.error],
    ["problem", branch.problem],
    ["storage", `storage=${branch.storage}`],
    ["txid", String(branch.txid)],
    ["epoch", String(branch.epoch)],
    ["lineage", branch.lineage],
    ["depth", `${branch.depth} past the last snapshot`],
    ["stored", `${formatBytes(branch.chain_bytes)}, ${formatBytes(branch.own_bytes)} of its own`],
    ["history", historyText(branch)],
    ["holder", branch.holder],
    ["checkout", branch.checkout],
    ["protected", branch.protected ? "yes" : "no"],
    ["ttl", lifetimeText(branch) ?? "never expires"],
    ["touched", stamp(branch.touched_at)],
    ...branch.checkpoints.map((point, index): [string, string] => [
      index === 0 ? "checkpoints" : "",
      `${point.name}  txid ${point.txid}  ${point.kind}  ${stamp(point.created_at)}${
        point.note ? `  ${point.note}` : ""
      }`,
    ]),
  ]);
}

function historyText({ history_points, history_bytes = 0, keep }: BranchStatus): string | undefined {
  if (history_points === undefined) return keep;
  const kept = keep === undefined ? "" : `, kept: ${keep}`;
  return `${plural(history_points, "point")}, ${formatBytes(history_bytes)} for these alone${kept}`;
}

export const lease = storeCommand({
  run: (args, _io, ops) => ops.call("lease", args.address("branch")),
  render: (result) =>
    textList([
      ["branch", branchName(result)],
      ["lease", result.live ? "live" : "none"],
      ["epoch", String(result.epoch)],
      ["holder", result.holder],
      ["host", result.host],
      ["since", result.since === undefined ? undefined : stamp(result.since)],
      ["expires", result.expires_at === undefined ? undefined : stamp(result.expires_at)],
    ]),
});
