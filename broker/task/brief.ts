/**
 * The trust brief: what the broker itself established about a task, for the person who decides on it.
 *
 * It holds nothing that an agent claims about its own work. What could not be established is listed as such, in
 * `missing_evidence`, so that silence is never read as consent.
 */

import { formatDuration } from "../../lib/text/duration.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { ColumnSpread } from "../../lib/sqlite/row_spread.ts";
import { definitionLines, otherPagesText, rowText, tableNotes, valueText } from "../../lib/sqlite/diff_text.ts";
import type { DiffFacts } from "../git/diff_facts.ts";
import { diffFiles } from "../git/file_change.ts";
import type { PolicyVerdict } from "../git/diff_policy.ts";
import type { BriefDiff, BriefFlag, EgressGrants, SetupEvidence, SpendFigures, TrustBrief } from "./schema.ts";
import type { BriefCheck, BriefDatabase, CheckAnswer } from "./database_schema.ts";
import { grantText } from "./granted.ts";
import { answerLines, briefTables, rowCount, spreadLines } from "./seen.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { plural } from "../../lib/text/plural.ts";

/** What is known of a task; what is absent was not established. */
export interface BriefInput {
  task_id: string;
  instruction: string;
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
  /** Absent when no person opened hosts to it while it ran. */
  egress_grants?: EgressGrants;
}

export const DATABASE = "database";

/** Files that a brief lists; the diff has them all. */
export const MAX_FILES = 1_000;
const MAX_PATHS = 100;
const MAX_SHOWN = 40;

const GAPS: readonly ((input: BriefInput) => string | undefined)[] = [
  ({ base_commit }) => base_commit === undefined ? "the commit that the work started from" : undefined,
  ({ image, image_digest, runtime }) =>
    image_digest !== undefined || runtime === "deno" || runtime === "bubblewrap"
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
    ...(input.egress_grants === undefined ? {} : { egress_grants: input.egress_grants }),
    missing_evidence: GAPS.flatMap((gap) => gap(input) ?? []),
  };
}

/** Tables that have a category of their own, when the brief does not show all of their rows. */
const MAX_NAMED = 100;

/**
 * Categories of what a person is not shown by the brief: rows of a table, tables, definitions, each with its number. Who
 * reads them to the end acknowledges them by that.
 */
export function unreadData(databases: readonly BriefDatabase[]): string[] {
  const more = briefTables(databases).filter(({ to, of, unread }) => to < of || unread);
  const own = new Set(more.slice(0, MAX_NAMED));
  return databases.flatMap((database) => {
    const { db, base, more_tables, schema, more_schema } = database;
    const tables = more.filter((table) => table.database === db);
    const named = tables.filter((table) => own.has(table));
    const unlisted = tables.length - named.length + more_tables;
    const unseen = more_schema +
      schema.filter(({ before, after }) => before === undefined && after === undefined).length;
    return [
      ...named.map(({ category }) => category),
      ...unlisted === 0 ? [] : [`tables:${unlisted}:${db}@${base}`],
      ...unseen === 0 ? [] : [`definitions:${unseen}:${db}@${base}`],
    ];
  });
}

/** What the profile's checks expect and did not find: as with the diff policy, no acknowledgement helps. */
export function failedChecks(
  databases: readonly Pick<BriefDatabase, "db" | "base" | "checks">[] = [],
): PolicyVerdict["blocked"] {
  return databases.flatMap(({ db, base, checks = [] }) =>
    checks.filter(({ holds }) => holds === false).map(({ name, expect, before, after }) => ({
      rule: "checks" as const,
      check: name,
      message: `the check ${name} of ${db}@${base} does not hold (${expect}): ${answerText(before)} -> ${
        answerText(after)
      }`,
    }))
  );
}

const answerText = (answer: CheckAnswer) => answerLines(answer, valueText).join("; ");

function checkLine({ name, expect, holds, before, after }: BriefCheck): string {
  const verdict = holds === undefined ? "" : ` (${expect}: ${holds ? "holds" : "DOES NOT HOLD"})`;
  return `${name}${verdict}: ${answerText(before)} -> ${answerText(after)}`;
}

/** One flag for all databases: what is promoted is approved together. */
function databaseFlags(databases: readonly BriefDatabase[]): BriefFlag[] {
  const all = databases.filter(({ changed }) => changed).flatMap(databaseParts);
  if (all.length === 0) return [];
  const reason = "a database was changed, and is promoted when this is approved";
  return [{ category: DATABASE, reason, count: all.length, paths: all.slice(0, MAX_PATHS) }];
}

function databaseParts({ db, base, tables, schema, settings, ...more }: BriefDatabase): BriefFlag["paths"] {
  const address = `${db}@${base}`;
  const unlisted = more.more_tables + more.more_schema;
  return [
    ...tables.map((table) => ({ path: `${address} table ${table.table}`, detail: tableText(table) })),
    ...schema.map(({ type, name, change }) => ({ path: `${address} ${type} ${name}`, detail: `definition ${change}` })),
    ...(settings ?? []).map(({ setting, before, after }) => ({
      path: `${address} setting ${setting}`,
      detail: `${before} -> ${after}`,
    })),
    ...otherChanges(more).map((detail) => ({ path: address, detail })),
    ...(unlisted > 0 ? [{ path: address, detail: `${unlisted} more tables and definitions` }] : []),
  ];
}

/** In briefs of earlier versions nothing says what it is. */
function otherChanges({ other_changes, other_pages }: Pick<BriefDatabase, "other_changes" | "other_pages">): string[] {
  if (other_pages === undefined) return other_changes ? ["bytes differ that are no row and no definition"] : [];
  return [otherPagesText(other_pages)].filter((text) => text !== undefined);
}

function tableText(table: BriefDatabase["tables"][number]): string {
  const { change, rows_added, rows_changed, rows_removed, storage_rows } = table;
  const index = storage_rows === undefined ? [] : [`${storage_rows} in the tables of its full-text index`];
  const counts = `${rows_added} added, ${rows_changed} changed, ${rows_removed} removed`;
  const rows = change === "schema"
    ? "other columns: rows are not compared"
    : change === "changed"
    ? `rows: ${counts}`
    : `table ${change}; rows: ${counts}`;
  return [rows, ...index, ...tableNotes(table)].join("; ");
}

function briefDiff({ tree, files_changed, lines_changed, files }: DiffFacts): BriefDiff {
  const listed = files.slice(0, MAX_FILES);
  return {
    tree,
    files_changed,
    lines_changed,
    diff_files: diffFiles(files).reduce((sum, { heads }) => sum + heads, 0),
    files: listed.map(({ path, status, added, deleted, binary, from }) => ({
      path,
      status,
      added,
      deleted,
      binary,
      ...from === undefined ? {} : { from },
    })),
  };
}

const BAR_LENGTH = 20;
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
    ["tree", brief.diff?.tree ?? NOT_KNOWN],
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
    ...(brief.egress_grants === undefined ? [] : grantLines(brief.egress_grants)),
    ...brief.setup === null ? [] : setupLines(brief.setup),
    ...section("not established:", brief.missing_evidence),
    "",
  ].join("\n");
}

/** Hosts that a person opened beside the egress list. */
export function grantLines(grants: EgressGrants): string[] {
  return section("allowed by a person:", grants.map((grant) => `${grant.target}  ${grantText(grant)}`));
}

/** A heading and its lines; `count` is how many there are in all. */
function section(
  heading: string,
  items: readonly string[],
  count: number = items.length,
  most: number = MAX_SHOWN,
): string[] {
  const shown = items.slice(0, most);
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

function fileLine({ path, status, added, deleted, binary, from }: BriefDiff["files"][number]): string {
  const origin = from === undefined ? "" : `  (${from.kind} from ${from.path}, ${from.similarity}% the same)`;
  return `${status.padEnd(12)} +${added} -${deleted}${binary ? " binary" : ""}  ${path}${origin}`;
}

/** Definitions and rows of a changed database; which tables there are stands among the flags. */
function databaseLines({ db, base, changed, tables, schema, checks = [] }: BriefDatabase): string[] {
  if (!changed) return section(`database ${db}@${base}: unchanged`, []);
  const defined = schema.filter(({ before, after }) => before !== undefined || after !== undefined);
  return [
    ...checks.length === 0 ? [] : section(`database ${db}@${base}, checks before -> after:`, checks.map(checkLine)),
    ...defined.length === 0
      ? []
      : section(`database ${db}@${base}, definitions:`, defined.flatMap(definitionLines), undefined, Infinity),
    ...tables.flatMap(({ table, rows = [], spread = [], ...counts }) => {
      const total = rowCount(counts);
      const of = `database ${db}@${base}, table ${table}`;
      return [
        ...spread.flatMap((column) =>
          section(
            `${of}, where its ${total} rows fall by ${column.column}:`,
            barLines(column, total),
            undefined,
            Infinity,
          )
        ),
        ...rows.length === 0 ? [] : section(`${of}:`, rows.map(rowText), total),
      ];
    }),
  ];
}

/** A bar of up to twenty for each bin, before its number, so that the value's own width moves neither. */
function barLines(spread: ColumnSpread, total: number): string[] {
  const lines = spreadLines(spread, valueText);
  const width = Math.max(...lines.map(({ count }) => count.length));
  return lines.map(({ value, rows, count }) =>
    `${"#".repeat(Math.ceil(BAR_LENGTH * rows / total)).padEnd(BAR_LENGTH)} ${count.padStart(width)}  ${value}`
  );
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
