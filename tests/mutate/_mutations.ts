/**
 * The property of a comparison: either it is empty and every query answers the same, or what differs is in it, and the
 * numbers of rows are exact.
 */

import { nameKey } from "../../lib/sqlite/image.ts";
import type { DatabaseDiff, TableDiff } from "../../lib/sqlite/diff_result.ts";
import { compareDatabases, differingRows } from "../../lib/sqlite/row_diff.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { makeDatabase, mutate } from "./_databases.ts";
import { observe, type Observed, type ObservedTable } from "./_observe.ts";

export interface MutationCounts {
  cases: number;
  /** SQLite cannot open what came out, or not compare it. */
  refused: number;
  /** Nothing that a query shows differs. */
  alike: number;
  differ: number;
  kinds: Record<string, number>;
}

/** Cases that share a database to begin with. */
const PER_BASE = 10;

/** Runs `cases` of them; throws for the first change that is not seen, with its seed. */
export async function runMutations(
  { cases, seed, directory, log }: { cases: number; seed: number; directory: string; log?: (line: string) => void },
): Promise<MutationCounts> {
  const counts: MutationCounts = { cases: 0, refused: 0, alike: 0, differ: 0, kinds: {} };
  const [base, mutant] = [`${directory}/base.db`, `${directory}/mutant.db`];
  let before: Observed | undefined;
  for (let i = 0; i < cases; i++) {
    if (i % PER_BASE === 0) {
      if (i > 0) Deno.removeSync(base);
      makeDatabase(base, new SeededRandom(seed + i));
      before = observe(base);
    }
    const random = new SeededRandom((seed + i) * 31 + 7);
    Deno.copyFileSync(base, mutant);
    const kinds = mutate(mutant, random);
    const after = observe(mutant);
    counts.cases++;
    const kind = [...new Set(kinds)].sort().join("+");
    counts.kinds[kind] = (counts.kinds[kind] ?? 0) + 1;
    try {
      const diff = before && after ? await compareOrRefuse(base, mutant) : undefined;
      if (diff === undefined) counts.refused++;
      else {
        const problems = unseen(before!, after!, diff);
        if (problems.length === 0) problems.push(...await wrongPages(base, mutant, diff));
        if (problems.length > 0) throw new Error(problems.join("\n"));
        counts[isEmpty(diff) || isLayout(diff) ? "alike" : "differ"]++;
      }
    } catch (error) {
      throw new Error(
        `case ${i} of seed ${seed} (${kinds.join(", ")}): ${error instanceof Error ? error.stack : error}`,
      );
    }
    if (counts.cases % 1000 === 0) log?.(JSON.stringify(counts));
  }
  return counts;
}

async function compareOrRefuse(base: string, mutant: string): Promise<DatabaseDiff | undefined> {
  try {
    return await compareDatabases(base, mutant);
  } catch (error) {
    // To refuse is no silence. Anything else than damage is a fault.
    if (["corrupt", "not_a_database"].includes((error as { code?: string }).code ?? "")) return undefined;
    throw error;
  }
}

function isEmpty(diff: DatabaseDiff): boolean {
  return isLayout(diff) && diff.other_pages.length === 0;
}

/** Whether nothing but pages differs. */
function isLayout({ settings, definitions, tables, problems }: DatabaseDiff): boolean {
  return settings.length + definitions.length + tables.length + problems.length === 0;
}

/** What queries show and the comparison does not; also where it says more than there is. */
function unseen(before: Observed, after: Observed, diff: DatabaseDiff): string[] {
  const problems: string[] = [];
  const settings = new Set(diff.settings.map(({ setting }) => setting));
  for (const [name, value] of Object.entries(before.settings)) {
    if (value !== after.settings[name] && !settings.has(name)) problems.push(`setting ${name}`);
  }
  if (before.schema.join() !== after.schema.join() && diff.definitions.length === 0) problems.push("schema");
  if (before.schema.join() === after.schema.join()) {
    if (diff.definitions.length > 0) problems.push("definitions that do not differ");
    if (before.trigger_order !== after.trigger_order && !settings.has("trigger_order")) {
      problems.push("order of triggers");
    }
  }
  const found = new Map(diff.tables.map((table) => [nameKey(table.table), table]));
  const [olds, nows] = [before, after].map(({ tables }) => byKey(tables)) as [Observed["tables"], Observed["tables"]];
  for (const key of new Set([...olds.keys(), ...nows.keys()])) {
    problems.push(...unseenRows(key, olds.get(key), nows.get(key), diff, found.get(key)));
  }
  const plain = problems.length === 0 && isLayout(diff);
  if (plain && JSON.stringify(before.views) !== JSON.stringify(after.views)) problems.push("views");
  return problems;
}

/** A name in other letters is one name to SQLite; that it changed is in its definition. */
function byKey(tables: Observed["tables"]): Observed["tables"] {
  return new Map([...tables].map(([name, table]) => [nameKey(name), table]));
}

function unseenRows(
  name: string,
  old: ObservedTable | undefined,
  now: ObservedTable | undefined,
  diff: DatabaseDiff,
  table: TableDiff | undefined,
): string[] {
  if (!old || !now) {
    if (table?.change !== (old ? "removed" : "added")) return [`table ${name} came or went`];
    const count = old ? table.rows_removed : table.rows_added;
    const rows = (old ?? now)!;
    // Of a damaged file the two may come by different ways to the rows.
    return table.unread !== undefined || rows.damaged || diff.problems.length > 0 || count === rows.rows.length
      ? []
      : [`table ${name}: ${count} of ${rows.rows.length} rows`];
  }
  const defined = old.definition !== now.definition ||
    diff.definitions.some(({ table, table_before }) => [table, table_before].some((of) => of && nameKey(of) === name));
  const trouble = diff.problems.length > 0 || table?.unread !== undefined || table?.columns !== undefined;
  if (old.damaged !== now.damaged) return trouble ? [] : [`table ${name}: damage`];
  const rows = { removed: without(old.rows, now.rows), added: without(now.rows, old.rows) };
  if (
    table?.unread === undefined && !old.damaged && old.columns === now.columns && old.kind === now.kind &&
    old.with_rowid === now.with_rowid
  ) {
    const counted = {
      removed: (table?.rows_removed ?? 0) + (table?.rows_changed ?? 0),
      added: (table?.rows_added ?? 0) + (table?.rows_changed ?? 0),
    };
    // Of a damaged table, in which a rowid stands twice, more may come out, but as many on either side.
    const more = counted.removed - rows.removed;
    if (more !== counted.added - rows.added || more < 0 || more > 0 && diff.problems.length === 0) {
      return [`rows of ${name}: ${JSON.stringify(counted)} counted, ${JSON.stringify(rows)} differ`];
    }
  } else if (rows.removed + rows.added > 0 && !trouble && table === undefined) {
    // Where rowids came or went, the definition says so.
    return old.with_rowid === now.with_rowid || !defined ? [`rows of ${name}`] : [];
  }
  const same = rows.removed + rows.added === 0;
  const through = JSON.stringify(old.through) !== JSON.stringify(now.through) || old.computed !== now.computed;
  return same && through && !trouble && !defined && table === undefined && !isStorageSeen(name, diff)
    ? [`queries of ${name}: ${JSON.stringify(old.through)} ${JSON.stringify(now.through)}`]
    : [];
}

/** A virtual table answers from its storage. */
function isStorageSeen(name: string, { tables }: DatabaseDiff): boolean {
  return tables.some(({ table }) => nameKey(table).startsWith(`${name}_`));
}

/** How many of `list` are not in `other`, each of which counts once. */
function without(list: readonly string[], other: readonly string[]): number {
  const left = new Map<string, number>();
  for (const row of other) left.set(row, (left.get(row) ?? 0) + 1);
  return list.filter((row) => {
    const count = left.get(row) ?? 0;
    left.set(row, count - 1);
    return count <= 0;
  }).length;
}

/** Whether the rows, read in parts, are those that were counted. */
async function wrongPages(base: string, mutant: string, { tables, problems: damage }: DatabaseDiff): Promise<string[]> {
  const problems: string[] = [];
  for (const { table, unread, rows_added, rows_removed, rows_changed } of tables) {
    if (unread !== undefined) continue;
    const counts = { added: 0, removed: 0, changed: 0 };
    let after: string | undefined;
    do {
      const part = await partOf(base, mutant, table, after);
      if (part === undefined && damage.length > 0) {
        after = "damaged";
        break;
      }
      if (part === undefined) return [`parts of ${table} cannot be read, and no damage is listed`];
      for (const { change } of part.rows) counts[change]++;
      after = part.next;
    } while (after !== undefined);
    if (after === "damaged") continue;
    const expected = { added: rows_added, removed: rows_removed, changed: rows_changed };
    if (JSON.stringify(counts) !== JSON.stringify(expected)) {
      problems.push(`parts of ${table}: ${JSON.stringify(counts)} instead of ${JSON.stringify(expected)}`);
    }
  }
  return problems;
}

async function partOf(base: string, mutant: string, table: string, after: string | undefined) {
  try {
    return await differingRows(base, mutant, table, { rows: 7, ...(after === undefined ? {} : { after }) });
  } catch (error) {
    if ((error as { code?: string }).code === "corrupt") return undefined;
    throw error;
  }
}
