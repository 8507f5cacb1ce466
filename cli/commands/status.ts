/**
 * The command `taskd status`.
 *
 * @module
 */

import type { BranchInfo, BranchStatus } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textList } from "../text/text_table.ts";
import { cacheBytes } from "./_cache_bytes.ts";
import { render as renderBranches } from "./branches.ts";
import { lifetimeText } from "./_lifetime.ts";
import { branchName, stamp } from "./_result_text.ts";

/** Use of the read-only cache. */
export interface CacheDiskUse {
  bytes: number;
  budget_bytes: number;
}

/** A branch in depth, or all in short; and the SQLite library at work. */
export interface StatusResult {
  branch?: BranchStatus;
  branches?: BranchInfo[];
  sqlite_version: string;
  ro_cache?: CacheDiskUse;
}

/** Looks. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<StatusResult> {
  const budget_bytes = args.number("ro-cache-budget");
  const of_branch = args.optional("branch") === undefined ? {} : args.address("branch");
  const { branch, sqlite_version } = await ops.call("status", of_branch);
  const about = branch === undefined ? await ops.call("branches", {}) : { branch };
  const cache = budget_bytes === undefined
    ? {}
    : { ro_cache: { bytes: await cacheBytes(`${args.workspace}/checkouts-ro`), budget_bytes } };
  return { ...about, sqlite_version, ...cache };
}

/** Names and values, or a table. */
export async function render(result: StatusResult, io: Io): Promise<string> {
  const lines = [
    result.branch === undefined
      ? await renderBranches({ branches: result.branches ?? [] }, io)
      : await depth(result.branch),
  ];
  lines.push(await textList([["sqlite", result.sqlite_version], ["ro cache", cacheWords(result.ro_cache)]]));
  return lines.join("\n");
}

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
