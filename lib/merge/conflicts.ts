/**
 * What two sides changed differently, and what a person decided about it. A conflict is found, shown and decided by one
 * identity: its table, key and column.
 */

import * as v from "../packages/valibot.ts";
import { TaskdError } from "../errors.ts";
import { canonicalJson } from "../text/canonical_json.ts";
import { InvalidJson, parseStrictJson } from "../text/strict_json.ts";
import type { JsonValue } from "../sqlite/diff_result.ts";
import { type ConflictKind, isDecidable } from "./decidable.ts";

export type { ConflictKind };

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
  /** What the target had then, null for nothing: where it has something else, nothing is decided. */
  ours?: Record<string, JsonValue> | null;
}

/** Conflicts that are returned one by one; all of them are counted. */
export const MAX_CONFLICTS = 1_000;

const ResolutionsSchema = v.array(v.strictObject({
  table: v.string(),
  key: v.exactOptional(v.record(v.string(), v.any())),
  column: v.exactOptional(v.string()),
  take: v.picklist(["ours", "theirs"]),
  ours: v.exactOptional(v.nullable(v.record(v.string(), v.any()))),
}));

const HINT = 'It is a JSON array of {"table", "key", "column", "take": "ours" or "theirs"}, as --check --json has them';

/**
 * Reads the decisions of a file: a JSON array, in which no name of an object stands twice.
 *
 * @throws {TaskdError} `usage`.
 */
export function parseDecisions(text: string): unknown[] {
  let problem = "is no JSON array";
  try {
    const value = parseStrictJson(text);
    if (Array.isArray(value)) return value;
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    problem = error.message;
  }
  throw new TaskdError("usage", `Cannot read the resolutions: the file ${problem}`, { hint: HINT });
}

/**
 * {@linkcode parseDecisions} of a merge.
 *
 * @throws {TaskdError} `usage`.
 */
export function parseResolutions(text: string): Resolution[] {
  const parsed = v.safeParse(ResolutionsSchema, parseDecisions(text));
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  throw new TaskdError("usage", `Cannot read the resolutions: ${v.getDotPath(issue) ?? "the file"}: ${issue.message}`, {
    hint: HINT,
  });
}

/**
 * Decisions by what they decide. Of two for one place neither counts: they may contradict each other.
 *
 * @throws {TaskdError} `invalid_request`, with the place that has two.
 */
export function byPlace<T extends Place>(
  decisions: readonly T[],
  textOf: (one: T) => string = placeOf,
): Map<string, T> {
  const found = new Map<string, T>();
  for (const one of decisions) {
    const place = textOf(one);
    if (found.has(place)) {
      throw new TaskdError("invalid_request", `Cannot decide: there are two decisions of ${place.slice(0, 200)}`, {
        hint: "Leave one of them",
      });
    }
    found.set(place, one);
  }
  return found;
}

/** Decides conflicts by what was said of them. */
export class Decisions {
  readonly #prefer: MergeSide | undefined;
  readonly #by_place: ReadonlyMap<string, Resolution>;
  readonly #unused: Set<string>;

  /** @throws {TaskdError} `invalid_request` for two decisions of one place. */
  constructor(
    options: {
      prefer?: MergeSide | undefined;
      resolutions?: readonly Resolution[] | undefined;
    },
  ) {
    this.#prefer = options.prefer;
    this.#by_place = byPlace(options.resolutions ?? []);
    this.#unused = new Set(this.#by_place.keys());
  }

  /** The side that stays; undefined where that is not decided. */
  of(conflict: MergeConflict): MergeSide | undefined {
    if (!isDecidable(conflict)) return undefined;
    const { table, key = {}, column } = conflict;
    // What was said of a whole row is said of its cells, too.
    const places = [placeOf({ table, key, ...column === undefined ? {} : { column } }), placeOf({ table, key })];
    for (const place of places) {
      const found = this.#by_place.get(place);
      if (found === undefined) continue;
      this.#unused.delete(place);
      if (found.ours !== undefined && canonicalJson(found.ours) !== canonicalJson(conflict.ours ?? null)) {
        return undefined;
      }
      return found.take;
    }
    return this.#prefer;
  }

  /** Decisions of conflicts that there are not: made of another state. */
  get unused(): string[] {
    return [...this.#unused];
  }
}

type Place = Pick<Resolution, "table" | "key" | "column">;

/** One text for one place, whatever the order of a key's columns. */
export function placeOf({ table, key = {}, column }: Place): string {
  const columns = Object.entries(key).sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
  return JSON.stringify([table, columns, column ?? null]);
}
