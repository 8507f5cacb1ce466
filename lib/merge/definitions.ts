/**
 * Definitions in a merge: what the source made, remade or dropped, where the target's is that of the base. Rows of a table
 * that is remade are carried over inside the same transaction; triggers of tables that get rows are away meanwhile.
 */

import { hasCode, messageOf } from "../errors.ts";
import { isSameName as is, nameKey, quoteName } from "../sqlite/image.ts";
import { type PairPlan, planOf } from "../sqlite/row_pairs.ts";
import { type ChangedDefinition, isExternal, type SourceChanges, written } from "./source_changes.ts";
import type { ReportConflict } from "./table_merge.ts";
import { ConstraintBroken, placeholder, type Target } from "./target.ts";

const CONTENTLESS = /\bcontent\s*=\s*(?:''|"")/i;

export interface DefinitionPlan {
  /** What is taken over, by name; of header fields too. */
  names: string[];
  taken: ChangedDefinition[];
  /** Tables that are made or made anew, which the target has not as the source has them. */
  isRemade(table: string): boolean;
}

/** What of the source's definitions the target takes; reports those that it changed itself. */
export function planDefinitions(target: Target, changes: SourceChanges, report: ReportConflict): DefinitionPlan {
  const here = written((sql) => target.query(sql));
  const taken = changes.definitions.filter((definition) => {
    const { type, name, base, source } = definition;
    const ours = here.get(`${type} ${nameKey(name)}`)?.sql;
    if (ours === source) return false;
    const detail = type === "table" && hasOtherKey(planFor(changes, name))
      ? "its primary key is another one"
      : undefined;
    if (ours === base && detail === undefined) return true;
    report({
      kind: "definition",
      table: name,
      ...(base === undefined ? {} : { base: { sql: base } }),
      ...(ours === undefined ? {} : { ours: { sql: ours } }),
      ...(source === undefined ? {} : { theirs: { sql: source } }),
      ...(detail === undefined ? {} : { detail }),
    });
    return false;
  });
  const dropped = taken.filter(({ type, source }) => (type === "table" || type === "view") && source === undefined);
  for (const { type, name, table, sql } of here.values()) {
    // What goes with its table went in the source as well, or is the target's own.
    if (!["index", "trigger"].includes(type) || !dropped.some((one) => is(one.name, table))) continue;
    if (taken.some((one) => one.type === type && is(one.name, name))) continue;
    report({ kind: "definition", table: name, ours: { sql }, detail: `the source dropped ${table}` });
  }
  for (const { name, sql } of written((text) => changes.source.query(text)).values()) {
    if (!isExternal(sql) || !CONTENTLESS.test(sql) || !isIndexChanged(changes, name)) continue;
    report({ kind: "definition", table: name, detail: "an index without content has no rows to merge" });
  }
  const names = taken.map(({ name }) => name);
  for (const { setting, before, after } of changes.settings) {
    if (setting !== "user_version" && setting !== "application_id") continue;
    const ours = String(target.query(`PRAGMA ${setting}`)[0]![0]);
    if (ours === before && ours !== after) names.push(setting);
    if (ours !== before && ours !== after) {
      report({
        kind: "setting",
        table: setting,
        base: { value: before },
        ours: { value: ours },
        theirs: { value: after },
      });
    }
  }
  const remade = new Set(
    taken.filter(({ type, source }) => type === "table" && source !== undefined).map(({ name }) => nameKey(name)),
  );
  return { names, taken, isRemade: (table) => remade.has(nameKey(table)) };
}

/** Whether what stands for a virtual table in the file differs. */
function isIndexChanged({ tables, base, source }: SourceChanges, index: string): boolean {
  return tables.some(({ name }) =>
    (source.table(name) ?? base.table(name))?.kind === "shadow" &&
    nameKey(name).startsWith(`${nameKey(index)}_`)
  );
}

function planFor({ base, source }: SourceChanges, table: string): PairPlan {
  return planOf(base.table(table), source.table(table), source.encoding);
}

function hasOtherKey({ before, after, key_length, columns_before, columns_after, places }: PairPlan): boolean {
  if (before === undefined || after === undefined) return false;
  if (before.alias !== undefined || after.alias !== undefined) {
    // It may have another name by now.
    return before.alias !== columns_before[places[columns_after.indexOf(after.alias ?? "")] ?? -1];
  }
  return key_length === 0 && before.key.length + after.key.length > 0;
}

/**
 * Makes what rows need, and takes triggers away. What it returns puts the rest in place, once the rows are there.
 *
 * @param touched Tables that get rows.
 */
export function applyDefinitions(
  target: Target,
  changes: SourceChanges,
  { plan, touched, report }: { plan: DefinitionPlan; touched: readonly string[]; report: ReportConflict },
): () => void {
  const here = [...written((sql) => target.query(sql)).values()];
  const of_source = new Map(
    plan.taken.map((definition) => [`${definition.type} ${nameKey(definition.name)}`, definition]),
  );
  const remade = plan.taken.filter(({ type, base, source }) => type === "table" && base !== undefined && source);
  // What acts on a view goes with it.
  const views = plan.taken.filter(({ type, base }) => type === "view" && base !== undefined);
  const affected = [...touched, ...[...remade, ...views].map(({ name }) => name)];
  const isAffected = (table: string) => affected.some((name) => is(name, table));
  const again: string[] = [];
  for (const { type, name, table, sql } of here) {
    const taken = of_source.get(`${type} ${nameKey(name)}`);
    const away = type === "trigger"
      ? isAffected(table) || taken !== undefined
      : (type === "view" || type === "index") && (taken !== undefined || remade.some((one) => is(one.name, table)));
    if (!away) continue;
    // A view takes its triggers with it.
    target.define(`DROP ${type} IF EXISTS main.${quoteName(name)}`);
    if (taken === undefined) again.push(sql);
    else if (taken.source !== undefined) again.push(taken.source);
  }
  const guarded = (table: string, work: () => void) => {
    try {
      work();
    } catch (error) {
      if (error instanceof ConstraintBroken) report({ kind: "constraint", table, detail: error.message });
      // What the target has may need what the source took away, such as an index the column that it is of.
      else if (hasCode(error, "conflict")) {
        report({ kind: "definition", table, detail: messageOf(error.cause ?? error) });
      } else throw error;
    }
  };
  for (const definition of plan.taken) {
    const { type, name, base, source } = definition;
    if (type !== "table" || source === undefined) continue;
    if (base === undefined) target.define(source);
    else {
      const merged = changes.tables.find((one) => is(one.name, name))?.plan;
      guarded(name, () => {
        const added = remake(target, definition, planFor(changes, name));
        // What rows of the base have there is what they have been given.
        if (merged !== undefined && added !== undefined) merged.added = added;
      });
    }
  }
  for (const [setting, before, after] of changes.settings.map((each) => [each.setting, each.before, each.after])) {
    const is_field = setting === "user_version" || setting === "application_id";
    if (is_field && before !== after) target.run(`PRAGMA ${setting}=${Number(after)}`);
  }
  return () => {
    for (const { type, name, base, source } of plan.taken) {
      if (type !== "table" || source !== undefined) continue;
      const table = target.table(name);
      if (table === undefined) continue;
      // An index over another table's rows shows those for its own.
      if (isExternal(base ?? "") || target.isEmpty(table)) target.define(`DROP TABLE main.${quoteName(name)}`);
      else report({ kind: "definition", table: name, detail: "the source dropped it, and the target has more rows" });
    }
    const made = plan.taken.filter(({ type, base, source }) => type !== "table" && base === undefined && source);
    // Indexes before triggers: what was there is in its old order, and what the source made comes after it.
    for (const sql of [...again, ...made.map(({ source }) => source!)]) guarded(nameIn(sql), () => target.define(sql));
    for (const { name, sql } of written((text) => target.query(text)).values()) {
      if (!isExternal(sql) || CONTENTLESS.test(sql)) continue;
      const content = contentTable(target, sql);
      const is_current = content !== undefined && !isAffected(content) && !isIndexChanged(changes, name) &&
        here.some((one) => is(one.name, name) && one.sql === sql);
      if (is_current) continue;
      target.run(`INSERT INTO main.${quoteName(name)}(${quoteName(name)}) VALUES('rebuild')`);
    }
  };
}

/** The table whose rows a full-text index is of; undefined where that is a view, or not certain. */
function contentTable(target: Target, sql: string): string | undefined {
  const [found, ...more] = sql.matchAll(/\bcontent\s*=\s*['"`[]?([^'"`[\]\s,)]*)(['"`\]]?\s*[,)])?/gi);
  if (found === undefined || more.length > 0 || found[2] === undefined) return undefined;
  const tables =
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = ? COLLATE NOCASE";
  return target.query(tables, [found[1]!])[0]?.[0] as string | undefined;
}

function nameIn(sql: string): string {
  return /^CREATE\s+(?:UNIQUE\s+)?\w+\s+(?:"((?:[^"]|"")+)"|(\S+))/i.exec(sql)?.slice(1).find(Boolean) ?? sql;
}

/**
 * Gives a table the source's definition, and keeps its rows. Returns the columns that the source added, with what these
 * rows have in them until they are merged.
 */
function remake(
  target: Target,
  { name, base, source }: ChangedDefinition,
  plan: PairPlan,
): PairPlan["added"] | undefined {
  const table = `main.${quoteName(name)}`;
  if (addColumn(target, table, { name, base: base!, source: source! })) return undefined;
  let old = `${name}_before_merge`;
  while (target.table(old) !== undefined) old += "_";
  const had = target.table(name)!;
  const sequence = target.table("sqlite_sequence") &&
    target.query("SELECT seq FROM sqlite_sequence WHERE name = ?", [had.name])[0];
  target.define(`ALTER TABLE ${table} RENAME TO ${quoteName(old)}`);
  target.define(source!);
  const now = target.table(name)!;
  const columns = plan.columns_after.flatMap((column, i) => {
    const place = plan.places[i]!;
    return place < 0 || !now.columns.includes(column)
      ? []
      : [[quoteName(column), quoteName(plan.columns_before[place]!)]];
  });
  const rowid = had.rowid !== undefined && now.rowid !== undefined && plan.after?.alias === undefined;
  const [into, from] = [0, 1].map((side) =>
    [...rowid ? [[now.rowid!, had.rowid!][side]!] : [], ...columns.map((pair) => pair[side]!)].join(", ")
  );
  const added = target.filled(now, plan.added);
  const fills = added.filter((column) => now.columns.includes(column.name));
  if (columns.length > 0) {
    // What DEFAULT computes is another value in every row, and no one's.
    const names = fills.map((column) => `, ${quoteName(column.name)}`).join("");
    const values = fills.map(({ fallback }) => fallback);
    const rows = `SELECT ${from}${values.map((value) => `, ${placeholder(value)}`).join("")} FROM main.${
      quoteName(old)
    }`;
    target.run(`INSERT OR ABORT INTO ${table}(${into}${names}) ${rows}`, values);
  }
  target.define(`DROP TABLE main.${quoteName(old)}`);
  if (sequence !== undefined && target.table("sqlite_sequence") !== undefined) {
    target.run("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", [sequence[0] as bigint, name]);
  }
  return added;
}

/** Where the source only added a column at the end, SQLite does that without touching a row. */
function addColumn(
  target: Target,
  table: string,
  { name, base, source }: { name: string; base: string; source: string },
): boolean {
  const start = base.replace(/\s*\)\s*$/, "");
  if (start === base || !source.startsWith(start)) return false;
  const column = /^\s*,\s*([\s\S]+)\)\s*$/.exec(source.slice(start.length))?.[1];
  if (column === undefined) return false;
  target.run("SAVEPOINT column_added");
  try {
    target.define(`ALTER TABLE ${table} ADD COLUMN ${column}`);
    const [found] = target.query("SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?", [name]);
    if (found?.[0] === source) return true;
  } catch {
    // It is more than one column, or one that only a new table can have.
  } finally {
    // After a rollback to it as well: it stays open.
    if (!isAdded(target, name, source)) target.run("ROLLBACK TO column_added");
    target.run("RELEASE column_added");
  }
  return false;
}

function isAdded(target: Target, name: string, source: string): boolean {
  return target.query("SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?", [name])[0]?.[0] ===
    source;
}
