/**
 * The commands that look at a store: databases, branches, status, lease.
 */

import type { BranchInfo, BranchStatus } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { storeCommand } from "../plan/command_module.ts";
import type { Io } from "../text/io.ts";
import { textList, textTable } from "../text/text_table.ts";
import { cacheBytes } from "./_cache_bytes.ts";
import { branchName, lifetimeText, stamp } from "./_result_text.ts";

export const databases = storeCommand({
  async run(_args, _io, ops) {
    return await ops.call("databases", {});
  },
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

/** A table, and a line for each branch that cannot be read. */
async function branchTable(branches: readonly BranchInfo[], { columns }: Io): Promise<string> {
  if (branches.length === 0) return "There are no branches";
  const rows = branches.map((branch) => [
    branchName(branch),
    branch.state,
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

interface CacheDiskUse {
  bytes: number;
  budget_bytes: number;
}

/** A branch in depth, or all in short; and the SQLite library at work. */
interface StatusResult {
  branch?: BranchStatus;
  branches?: BranchInfo[];
  sqlite_version: string;
  ro_cache?: CacheDiskUse;
}

export const status = storeCommand<StatusResult>({
  async run(args, _io, ops) {
    const budget_bytes = args.number("ro-cache-budget");
    const of_branch = args.optional("branch") === undefined ? {} : args.address("branch");
    const { branch, sqlite_version } = await ops.call("status", of_branch);
    const about = branch === undefined ? await ops.call("branches", {}) : { branch };
    const cache = budget_bytes === undefined
      ? {}
      : { ro_cache: { bytes: await cacheBytes(`${args.plan.workspace}/checkouts-ro`), budget_bytes } };
    return { ...about, sqlite_version, ...cache };
  },
  async render({ branch, branches = [], sqlite_version, ro_cache }, io) {
    const about = branch === undefined ? await branchTable(branches, io) : await depth(branch);
    return `${about}\n${await textList([["sqlite", sqlite_version], ["ro cache", cacheWords(ro_cache)]])}`;
  },
});

function cacheWords(use: CacheDiskUse | undefined): string | undefined {
  if (use === undefined) return undefined;
  if (use.budget_bytes === 0) return `${formatBytes(use.bytes)}, no budget`;
  const share = Math.round(use.bytes / use.budget_bytes * 100);
  return `${formatBytes(use.bytes)} of ${formatBytes(use.budget_bytes)} (${share}%)`;
}

async function depth(branch: BranchStatus): Promise<string> {
  return await textList([
    ["branch", branchName(branch)],
    ["state", branch.state],
    ["error", branch.error],
    ["problem", branch.problem],
    ["storage", `storage=${branch.storage}`],
    ["txid", String(branch.txid)],
    ["epoch", String(branch.epoch)],
    ["lineage", branch.lineage],
    ["depth", `${branch.depth} past the last snapshot`],
    ["stored", `${formatBytes(branch.chain_bytes)}, ${formatBytes(branch.own_bytes)} of its own`],
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

export const lease = storeCommand({
  async run(args, _io, ops) {
    return await ops.call("lease", args.address("branch"));
  },
  render: (result) =>
    textList([
      ["branch", branchName(result)],
      ["lease", result.live ? "live" : "none"],
      ["epoch", String(result.epoch)],
      ["holder", result.holder],
      ["expires", result.expires_at === undefined ? undefined : stamp(result.expires_at)],
    ]),
});
