/**
 * The trust brief: what the broker itself established about a task, for the person who decides on it.
 *
 * It holds nothing that an agent claims about its own work. What could not be established is listed as such, in
 * `missing_evidence`, so that silence is never read as consent.
 */

import { formatDuration } from "../../lib/text/duration.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { ComparedTable } from "../../lib/sqlite/row_diff.ts";
import type { RowDiff } from "../../lib/sqlite/diff_result.ts";
import type { DiffFacts } from "../git/diff_facts.ts";
import type { PolicyVerdict } from "../git/diff_policy.ts";
import type { BriefDatabase, BriefDiff, BriefFlag, SetupEvidence, SpendFigures, TrustBrief } from "./schema.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { plural } from "../../lib/text/plural.ts";

/** What is known of a task; what is absent was not established. */
export interface BriefInput {
  task_id: string;
  instruction: string;
  /** Canonical form of the repository. */
  repo: string;
  base_commit?: string;
  /** Sandbox runtime: podman, deno. */
  runtime?: string;
  image?: string;
  /** Digest of the image that really ran. */
  image_digest?: string;
  agent: string;
  /** As asked for; absent when the agent chose. */
  model?: string;
  /** Hash of the settings under which the task ran. */
  policy_hash?: string;
  /** 0 where a subscription pays. */
  budget_usd?: number;
  spend?: SpendFigures;
  /** Absent while nothing was collected. */
  facts?: DiffFacts;
  verdict?: PolicyVerdict;
  /** Absent when the repository's profile has no commands. */
  setup?: SetupEvidence;
  /** Absent when the task has no databases. */
  databases?: BriefDatabase[];
}

/** The second-look category of a task that changed a database. */
export const DATABASE = "database";

/** Files that a brief lists; the diff has them all. */
export const MAX_FILES = 1_000;
/** Paths that a brief lists for each category. */
const MAX_PATHS = 100;
/** A row of a database in the text. */
const MAX_ROW_CHARS = 500;
/** Lines of files and paths in the text. */
const MAX_SHOWN = 40;

/** What may be missing: each entry says what, or nothing. */
const GAPS: readonly ((input: BriefInput) => string | undefined)[] = [
  ({ base_commit }) => base_commit === undefined ? "the commit that the work started from" : undefined,
  ({ image, image_digest, runtime }) =>
    image_digest !== undefined || runtime === "deno"
      ? undefined
      : image === undefined
      ? "the image that the task ran in"
      : `which build of the image ${image} the task ran in: its digest is not known`,
  ({ model }) => model === undefined ? "which model did the work: the agent chose" : undefined,
  ({ policy_hash }) => policy_hash === undefined ? "the settings under which the task ran" : undefined,
  ({ spend }) =>
    spend === undefined
      ? "what the task has spent"
      : spend.unmetered_requests > 0
      ? `what ${spend.unmetered_requests} of ${spend.requests} requests have cost: they have no price or reported no usage`
      : undefined,
  ({ facts }) => facts === undefined ? "what the task has changed" : undefined,
  ({ facts }) => {
    const count = facts?.flags.filter(({ category }) => category === "unscanned").length ?? 0;
    return count === 0 ? undefined : `what special files ${count} directories hold: their names could not be followed`;
  },
  ({ setup }) => {
    const count = setup?.commands.filter(({ status }) => status === "not_run").length ?? 0;
    return count === 0 ? undefined : `what ${count} commands of the profile would have said: they were not run`;
  },
  ({ setup }) =>
    setup?.commands.some(({ phase }) => phase === "readiness")
      ? undefined
      : "whether the repository was in order before the agent began: its profile has no readiness commands",
  () => "whether the result builds or passes its tests: the broker runs nothing of it",
];

export function buildBrief(input: BriefInput): TrustBrief {
  const { facts, verdict, setup } = input;
  const details = new Map(facts?.flags.map(({ category, path, detail }) => [`${category}\0${path}`, detail]));
  return {
    version: 1,
    task_id: input.task_id,
    instruction_sha256: sha256Hex(input.instruction),
    repo: input.repo,
    base_commit: input.base_commit ?? null,
    runtime: input.runtime ?? null,
    image: input.image ?? null,
    image_digest: input.image_digest ?? null,
    agent: input.agent,
    model: input.model ?? null,
    policy_hash: input.policy_hash ?? null,
    budget_usd: input.budget_usd ?? null,
    spend: input.spend ?? null,
    diff: facts === undefined ? null : briefDiff(facts),
    flags: [
      ...(verdict?.second_look ?? []).map(({ category, reason, paths }) => ({
        category,
        reason,
        count: paths.length,
        paths: paths.slice(0, MAX_PATHS).map((path) => {
          const detail = details.get(`${category}\0${path}`);
          return { path, ...detail === undefined ? {} : { detail } };
        }),
      })),
      ...databaseFlags(input.databases ?? []),
    ],
    violations: verdict?.blocked ?? [],
    setup: setup ?? null,
    ...(input.databases === undefined ? {} : { databases: input.databases }),
    missing_evidence: GAPS.flatMap((gap) => gap(input) ?? []),
  };
}

/** One flag for all databases: what is promoted is approved together. */
function databaseFlags(databases: readonly BriefDatabase[]): BriefFlag[] {
  const all = databases.filter(({ changed }) => changed).flatMap(databaseParts);
  if (all.length === 0) return [];
  const reason = "a database was changed, and is promoted when this is approved";
  return [{ category: DATABASE, reason, count: all.length, paths: all.slice(0, MAX_PATHS) }];
}

function databaseParts({ db, base, tables, schema, other_changes, ...more }: BriefDatabase): BriefFlag["paths"] {
  const address = `${db}@${base}`;
  const unlisted = more.more_tables + more.more_schema;
  return [
    ...schema.map(({ type, name, change }) => ({ path: `${address} ${type} ${name}`, detail: `definition ${change}` })),
    ...tables.map((table) => ({ path: `${address} table ${table.table}`, detail: tableText(table) })),
    ...(other_changes ? [{ path: address, detail: "bytes differ that are no row and no definition" }] : []),
    ...(unlisted > 0 ? [{ path: address, detail: `${unlisted} more tables and definitions` }] : []),
  ];
}

function tableText({ change, rows_added, rows_changed, rows_removed, storage_rows }: ComparedTable): string {
  const index = storage_rows === undefined ? "" : `; ${storage_rows} in the tables of its full-text index`;
  const counts = `${rows_added} added, ${rows_changed} changed, ${rows_removed} removed${index}`;
  if (change === "schema") return `other columns: rows are not compared${index}`;
  return change === "changed" ? `rows: ${counts}` : `table ${change}; rows: ${counts}`;
}

function briefDiff({ diff_sha256, tree, files_changed, lines_changed, files }: DiffFacts): BriefDiff {
  const listed = files.slice(0, MAX_FILES);
  return {
    sha256: diff_sha256,
    tree,
    files_changed,
    lines_changed,
    files: listed.map(({ path, status, added, deleted, binary }) => ({ path, status, added, deleted, binary })),
  };
}

const NOT_KNOWN = "not known";

/** The brief as text for a terminal: no line in it can act on one, or pose as another. */
export function renderBrief(brief: TrustBrief): string {
  const lines: [string, string][] = [
    ["task", brief.task_id],
    ["instruction", `SHA-256 ${brief.instruction_sha256}`],
    ["repository", brief.repo],
    ["base commit", brief.base_commit ?? NOT_KNOWN],
    ["sandbox", brief.runtime ?? NOT_KNOWN],
    ["image", [brief.image ?? NOT_KNOWN, brief.image_digest].filter((part) => part !== null).join(" ")],
    ["agent", brief.agent],
    ["model", brief.model ?? "the agent's choice"],
    ["policy", brief.policy_hash ?? NOT_KNOWN],
    ["budget", brief.budget_usd === null ? NOT_KNOWN : `$${brief.budget_usd.toFixed(2)}`],
    ["spent", brief.spend === null ? NOT_KNOWN : spendText(brief.spend)],
    ["diff", brief.diff === null ? NOT_KNOWN : `SHA-256 ${brief.diff.sha256}`],
  ];
  const width = Math.max(...lines.map(([label]) => label.length));
  return [
    ...lines.map(([label, value]) => `${label.padEnd(width)}  ${sanitizeLine(value)}`),
    ...brief.diff === null ? [] : section(
      `changed: ${plural(brief.diff.files_changed, "file")}, ${plural(brief.diff.lines_changed, "line")}`,
      brief.diff.files.map(fileLine),
      brief.diff.files_changed,
    ),
    ...brief.violations.length === 0
      ? []
      : section("refused by the diff policy:", brief.violations.map((v) => v.message)),
    ...brief.flags.flatMap(({ category, reason, paths, count }) =>
      section(
        `look twice, ${category}: ${reason}`,
        paths.map(({ path, detail }) => detail === undefined ? path : `${path} (${detail})`),
        count,
      )
    ),
    ...(brief.databases ?? []).flatMap(databaseLines),
    ...brief.setup === null ? [] : setupLines(brief.setup),
    ...section("not established:", brief.missing_evidence),
    "",
  ].join("\n");
}

/** A heading and its lines; `count` is how many there are in all. */
function section(heading: string, items: readonly string[], count = items.length): string[] {
  const shown = items.slice(0, MAX_SHOWN);
  const rest = count - shown.length;
  return [
    "",
    sanitizeLine(heading),
    ...shown.map((item) => `  ${sanitizeLine(item)}`),
    ...rest > 0 ? [`  and ${rest} more`] : [],
  ];
}

function spendText({ usd, requests, unmetered_requests, priced }: SpendFigures): string {
  // Where nothing is known, an amount would pass for one.
  if (usd === 0 && requests > 0 && unmetered_requests === requests) return `unmetered, ${plural(requests, "request")}`;
  const amount = `${priced ? "" : "at least "}$${usd.toFixed(4)} in ${plural(requests, "request")}`;
  return unmetered_requests === 0 ? amount : `${amount}, ${unmetered_requests} of them unmetered`;
}

function fileLine({ path, status, added, deleted, binary }: BriefDiff["files"][number]): string {
  return `${status.padEnd(12)} +${added} -${deleted}${binary ? " binary" : ""}  ${path}`;
}

/** Rows of a changed database; which tables there are stands among the flags. */
function databaseLines({ db, base, changed, tables }: BriefDatabase): string[] {
  if (!changed) return section(`database ${db}@${base}: unchanged`, []);
  return tables.flatMap(({ table, rows = [], ...counts }) => {
    const total = counts.rows_added + counts.rows_changed + counts.rows_removed;
    return rows.length === 0 ? [] : section(`database ${db}@${base}, table ${table}:`, rows.map(rowText), total);
  });
}

function rowText({ change, key, before, after }: RowDiff): string {
  const [old, now] = [before, after].map((values) => values === undefined ? undefined : JSON.stringify(values));
  const values = change === "changed" ? `${old} -> ${now}` : now ?? old ?? "";
  return `${change.padEnd(8)} ${JSON.stringify(key)} ${values}`.slice(0, MAX_ROW_CHARS);
}

function setupLines({ commands, cache }: SetupEvidence): string[] {
  const key = cache.key_prefix === undefined ? "" : ` ${cache.key_prefix}`;
  return section(
    `setup, cache ${cache.participation}${key}:`,
    commands.map(({ phase, command, status, exit_code, duration_ms }) =>
      `${phase} ${status}${exit_code === undefined ? "" : ` (exit code ${exit_code})`} in ${
        formatDuration(Math.round(duration_ms))
      }: ${command.map((word) => /^[\w./:=@%+,-]+$/.test(word) ? word : JSON.stringify(word)).join(" ")}`
    ),
  );
}
