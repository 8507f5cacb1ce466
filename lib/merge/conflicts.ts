/**
 * What two sides changed differently, and what a person decided about it. A conflict is found, shown and decided by one
 * identity: its table, key and column.
 */

import * as v from "../packages/valibot.ts";
import { TaskdError } from "../errors.ts";
import { parseJson } from "../text/json.ts";
import type { JsonValue } from "../sqlite/diff_result.ts";

/** What is in conflict. */
export type ConflictKind =
  /** One column of a row has another new value on either side. */
  | "changed_twice"
  /** A row that the source deleted was changed by the target. */
  | "changed_and_deleted"
  /** A row that the source changed was deleted by the target. */
  | "deleted_and_changed"
  /** Both inserted a row of one key, with other values. */
  | "inserted_twice"
  /** A row would break a UNIQUE, CHECK or NOT NULL of the target. */
  | "constraint"
  /** A row would refer to one that is not there. */
  | "foreign_key"
  /** A definition is another one on either side. */
  | "definition"
  /** A field of the file's header, or one that no transaction can change. */
  | "setting";

/** Which side's value stays: the target's or the source's. */
export type MergeSide = "ours" | "theirs";

/** One thing to decide. */
export interface MergeConflict {
  /** What is in conflict. */
  kind: ConflictKind;
  /** The table, or the name of the definition or setting. */
  table: string;
  /** The row's key. */
  key?: Record<string, JsonValue>;
  /** The column, of values that were changed twice. */
  column?: string;
  /** What both began with, by column; a definition by `sql`, a setting by `value`. Absent where there was nothing. */
  base?: Record<string, JsonValue>;
  /** What the target has; absent where that is nothing. */
  ours?: Record<string, JsonValue>;
  /** What the source has; absent where that is nothing. */
  theirs?: Record<string, JsonValue>;
  /** What SQLite says, or what to do. */
  detail?: string;
}

/** What decides one conflict. */
export interface Resolution {
  /** As in the conflict. */
  table: string;
  /** As in the conflict. */
  key?: Record<string, JsonValue>;
  /** As in the conflict; absent: every column of the row. */
  column?: string;
  /** Which side's value stays. */
  take: MergeSide;
}

/** Conflicts that are returned one by one; all of them are counted. */
export const MAX_CONFLICTS = 1_000;

/** Kinds that a side can be preferred for: the rest has no two values to choose from. */
const DECIDABLE: ReadonlySet<ConflictKind> = new Set([
  "changed_twice",
  "changed_and_deleted",
  "deleted_and_changed",
  "inserted_twice",
]);

const ResolutionsSchema = v.array(v.strictObject({
  table: v.string(),
  key: v.exactOptional(v.record(v.string(), v.any())),
  column: v.exactOptional(v.string()),
  take: v.picklist(["ours", "theirs"]),
}));

/**
 * Reads the decisions of a file: a JSON array.
 *
 * @throws {TaskdError} `usage`.
 */
export function parseResolutions(text: string): Resolution[] {
  const hint =
    'It is a JSON array of {"table", "key", "column", "take": "ours" or "theirs"}, as --check --json has them';
  const value = parseJson(text);
  if (value === undefined) throw new TaskdError("usage", "Cannot read the resolutions: they are no JSON", { hint });
  const parsed = v.safeParse(ResolutionsSchema, value);
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  throw new TaskdError("usage", `Cannot read the resolutions: ${v.getDotPath(issue) ?? "the file"}: ${issue.message}`, {
    hint,
  });
}

/** Decides conflicts by what was said of them. */
export class Decisions {
  readonly #prefer: MergeSide | undefined;
  readonly #by_row = new Map<string, MergeSide>();
  readonly #unused = new Set<string>();

  constructor(options: { prefer?: MergeSide | undefined; resolutions?: readonly Resolution[] | undefined }) {
    this.#prefer = options.prefer;
    for (const { take, ...place } of options.resolutions ?? []) {
      this.#by_row.set(placeOf(place), take);
      this.#unused.add(placeOf(place));
    }
  }

  /** The side that stays; undefined where that is not decided. */
  of(conflict: MergeConflict): MergeSide | undefined {
    if (!DECIDABLE.has(conflict.kind)) return undefined;
    const { table, key = {}, column } = conflict;
    for (const place of [placeOf({ table, key, ...column === undefined ? {} : { column } }), placeOf({ table, key })]) {
      const side = this.#by_row.get(place);
      if (side === undefined) continue;
      this.#unused.delete(place);
      return side;
    }
    return this.#prefer;
  }

  /** Decisions of conflicts that there are not: made of another state. */
  get unused(): string[] {
    return [...this.#unused];
  }
}

/** One text for one place, whatever the order of a key's columns. */
function placeOf({ table, key = {}, column }: Omit<Resolution, "take">): string {
  const columns = Object.entries(key).sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
  return JSON.stringify([table, columns, column ?? null]);
}
