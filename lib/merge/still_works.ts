/**
 * What worked before a merge works after it. Of a target whose definitions a merge changes: foreign keys find the table
 * and the key that they refer to, without which SQLite refuses every change of either table; and triggers find what
 * they write to, without which it refuses what fires them. What SQLite itself checks when a definition changes does not
 * see the columns that a trigger sets: here it compiles what fires each, and runs nothing.
 */

import { isSameName, nameKey, quoteName } from "../sqlite/image.ts";
import type { MergeConflict } from "./conflicts.ts";
import { written } from "./source_changes.ts";
import { type ForeignKey, Target } from "./target.ts";

/** Foreign keys of one database. */
interface References {
  all: ReadonlyMap<string, ForeignKey>;
  /** Those whose parent is no table. */
  lost: ReadonlySet<string>;
  /** Tables with one whose parent has no such key, and what SQLite says of that. */
  mismatched: ReadonlyMap<string, { child: string; detail: string }>;
}

interface Trigger {
  name: string;
  table: string;
  sql: string;
}

/** What an application brings along, and this program has not: that it is missing here says nothing. */
const UNKNOWN =
  /^(?:no such (?:function|collation sequence|module)|unknown function|unsafe use of|wrong number of arg)/;
/** No trigger stands in for that statement. */
const NO_TRIGGER = /^cannot modify .* because it is a view$/s;

const NAME = /"(?:[^"]|"")*"|\[[^\]]*\]|`(?:[^`]|``)*`|'(?:[^']|'')*'|[^\s,"'`[\]]+/;
const UPDATE_OF = new RegExp(`\\bUPDATE\\s+OF\\s+((?:${NAME.source})(?:\\s*,\\s*(?:${NAME.source}))*)\\s+ON\\b`, "i");

/** How a target was before its definitions changed. */
export class StillWorks {
  readonly #target: Target;
  readonly #references: References;
  readonly #triggers: ReadonlyMap<string, Trigger>;
  /** Those that did not work, and why. */
  readonly #failed: ReadonlyMap<string, string>;
  /** Keys of the columns of tables with triggers that wait for some. */
  readonly #columns: ReadonlyMap<string, ReadonlySet<string>>;

  constructor(target: Target) {
    this.#target = target;
    this.#references = referencesOf(target);
    this.#triggers = triggersOf(target);
    this.#failed = failedTriggers(target, this.#triggers);
    const waiting = [...this.#triggers.values()].filter(({ sql }) => waitsFor(sql).length > 0);
    this.#columns = new Map(waiting.map(({ table }) => [nameKey(table), columnsOf(target, table)]));
  }

  /**
   * What does not work any more.
   *
   * @param source_path An image of the source: what it brings worked there, or need not here.
   */
  *broken(source_path: string): Generator<MergeConflict> {
    yield* this.#brokenReferences(source_path);
    yield* this.#brokenTriggers(source_path);
  }

  *#brokenTriggers(source_path: string): Generator<MergeConflict> {
    const triggers = triggersOf(this.#target);
    const failed = failedTriggers(this.#target, triggers);
    const missing = new Map([...triggers].flatMap(([key, { sql, table }]) => {
      const names = waitsFor(sql);
      if (names.length === 0) return [];
      const there = columnsOf(this.#target, table);
      const lost = names.filter((name) => !there.has(name));
      return lost.length === 0 ? [] : [[key, lost] as const];
    }));
    if (failed.size + missing.size === 0) return;
    using image = new Target(source_path, { busy_timeout_ms: 0, image: true });
    const of_source = triggersOf(image);
    const isAsBefore = (key: string) => this.#triggers.get(key)?.sql === triggers.get(key)!.sql;
    const isAsInSource = (key: string) => of_source.get(key)?.sql === triggers.get(key)!.sql;
    for (const [key, detail] of failed) {
      const { name, table } = triggers.get(key)!;
      const worked = isAsBefore(key) ? !this.#failed.has(key) : refusals(image, table).length === 0;
      if (worked) yield { kind: "definition", table: name, detail };
    }
    for (const [key, columns] of missing) {
      const { name, table } = triggers.get(key)!;
      const in_source = columnsOf(image, table);
      // Where the source has it so, SQLite took the column away and left the trigger.
      const was_there = (column: string) =>
        isAsInSource(key) ? in_source.has(column) : this.#columns.get(nameKey(table))?.has(column) === true;
      const lost = columns.find(was_there);
      if (lost === undefined || failed.has(key)) continue;
      yield {
        kind: "definition",
        table: name,
        detail: `it waits for updates of ${lost}, and ${table} has no such column`,
      };
    }
  }

  *#brokenReferences(source_path: string): Generator<MergeConflict> {
    const now = referencesOf(this.#target);
    if (now.lost.size + now.mismatched.size === 0) return;
    using image = new Target(source_path, { busy_timeout_ms: 0, image: true });
    const source = referencesOf(image);
    const before = this.#references;
    for (const key of now.lost) {
      if ((before.all.has(key) ? before : source).lost.has(key)) continue;
      const { child, parent } = now.all.get(key)!;
      yield { kind: "definition", table: child, detail: `it refers to the table ${parent}, which is not there` };
    }
    const had = (child: string) => [...before.all.values()].some((key) => isSameName(key.child, child));
    for (const [key, { child, detail }] of now.mismatched) {
      if ((had(child) ? before : source).mismatched.has(key)) continue;
      yield { kind: "definition", table: child, detail };
    }
  }
}

function referencesOf(target: Target): References {
  const keys = target.foreignKeys();
  const all = new Map(keys.map((key) => [identityOf(key), key]));
  const lost = [...all].filter(([, { parent }]) => target.table(parent) === undefined).map(([identity]) => identity);
  const mismatched = new Map<string, { child: string; detail: string }>();
  for (const child of new Set(keys.map((key) => key.child))) {
    const detail = target.refused(`PRAGMA main.foreign_key_check(${quoteName(child)})`);
    if (detail?.startsWith("foreign key mismatch")) mismatched.set(nameKey(child), { child, detail });
  }
  return { all, lost: new Set(lost), mismatched };
}

/** Also where it names no columns of its parent, whose key may be another one by now. */
function identityOf({ child, parent, from, to, implied }: ForeignKey): string {
  return nameKey(JSON.stringify([child, parent, from, implied ? null : to]));
}

function triggersOf(target: Target): Map<string, Trigger> {
  const all = [...written((sql) => target.query(sql)).values()];
  return new Map(all.filter(({ type }) => type === "trigger").map((trigger) => [nameKey(trigger.name), trigger]));
}

/** Keys of the columns that a trigger names behind UPDATE OF; SQLite does not ask whether they are there. */
function waitsFor(sql: string): string[] {
  const names = UPDATE_OF.exec(sql)?.[1]?.match(new RegExp(NAME.source, "g")) ?? [];
  return names.map((name) =>
    nameKey(/^["'`[]/.test(name) ? name.slice(1, -1).replaceAll(name[0]!.repeat(2), name[0]!) : name)
  );
}

function columnsOf(target: Target, table: string): Set<string> {
  const found = target.table(table);
  return new Set([...found?.columns ?? [], ...found?.generated ?? []].map(nameKey));
}

/** Why SQLite refuses what fires the triggers of a table or view. */
function refusals(target: Target, table: string): string[] {
  const name = `main.${quoteName(table)}`;
  const columns = target.table(table)?.columns ?? [];
  const set = columns.map((column) => `${quoteName(column)} = ${quoteName(column)}`).join(", ");
  const statements = [
    `INSERT INTO ${name} DEFAULT VALUES`,
    ...set === "" ? [] : [`UPDATE ${name} SET ${set}`],
    `DELETE FROM ${name}`,
  ];
  return statements.map((sql) => target.refused(sql))
    .filter((detail): detail is string => detail !== undefined && !NO_TRIGGER.test(detail));
}

/** Triggers that something is missing for, each looked at alone where something is refused: another may be to blame. */
function failedTriggers(target: Target, triggers: ReadonlyMap<string, Trigger>): Map<string, string> {
  const tables = new Set([...triggers.values()].map(({ table }) => nameKey(table)));
  const refused = new Set([...tables].filter((table) => refusals(target, table).length > 0));
  if (refused.size === 0) return new Map();
  return target.probe(() => {
    for (const { name } of triggers.values()) target.define(`DROP TRIGGER main.${quoteName(name)}`);
    const failed = new Map<string, string>();
    for (const [key, { name, table, sql }] of triggers) {
      if (!refused.has(nameKey(table))) continue;
      target.define(sql);
      const detail = refusals(target, table).find((one) => !UNKNOWN.test(one));
      if (detail !== undefined) failed.set(key, detail);
      target.define(`DROP TRIGGER main.${quoteName(name)}`);
    }
    return failed;
  });
}
