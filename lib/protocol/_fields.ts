/**
 * The kinds of values that fields of requests hold, each with its bound.
 *
 * @module
 */

import * as v from "../packages/valibot.ts";
import { formatAddress, parseAddress, parseName } from "../store/names.ts";

/** The longest file path a request may name, in UTF-16 units; Linux allows 4096 bytes with the final NUL. */
const MAX_PATH_LENGTH = 4095;
/** The longest text and name of a table, in UTF-16 units; operations have limits of their own below it. */
const MAX_TEXT_LENGTH = 4096;
/** The most rows of a table that a diff shows. */
const MAX_DIFF_ROWS = 10_000;
/** The most tables that a diff can be narrowed to. */
const MAX_DIFF_TABLES = 1000;
/** The longest time to live: a hundred years, so that stamps stay within what dates can say. */
const MAX_TTL_MS = 100 * 366 * 86_400_000;

/** One field of a request. */
export interface Field<T> {
  schema: v.GenericSchema<unknown, T>;
  required: boolean;
  /** Its type for people. */
  type: string;
  doc: string;
}

/** What a field may hold. */
interface Kind<T> {
  schema: v.GenericSchema<unknown, T>;
  type: string;
}

/** A string that one of the parsers of names.ts accepts; its error keeps its code and hint. */
function parsed(type: string, parse: (text: string) => string): Kind<string> {
  return { type, schema: v.pipe(v.unknown(), v.string("must be a string"), v.transform(parse)) };
}

function integer(type: string, min: number, max: number): Kind<number> {
  const wrong = `must be an integer from ${min} to ${max}`;
  return {
    type,
    schema: v.pipe(
      v.unknown(),
      v.number(wrong),
      v.safeInteger(wrong),
      v.minValue(min, wrong),
      v.maxValue(max, wrong),
    ),
  };
}

function text(type: string, max_length: number): v.GenericSchema<unknown, string> {
  return v.pipe(
    v.unknown(),
    v.string("must be a string"),
    v.maxLength(max_length, `must have at most ${max_length} characters`),
    v.check((value) => !value.includes("\0"), `must be ${type} without NUL characters`),
  );
}

export const DATABASE: Kind<string> = parsed("name", (name) => parseName(name, "database"));
export const BRANCH: Kind<string> = parsed("name", (name) => parseName(name, "branch"));
export const CHECKPOINT: Kind<string> = parsed("name", (name) => parseName(name, "checkpoint"));
export const ADDRESS: Kind<string> = parsed("address", (address) => formatAddress(parseAddress(address)));
export const NOTE: Kind<string> = { type: "string", schema: text("text", MAX_TEXT_LENGTH) };
export const FLAG: Kind<boolean> = { type: "boolean", schema: v.pipe(v.unknown(), v.boolean("must be true or false")) };
export const PATH: Kind<string> = {
  type: "absolute path",
  schema: v.pipe(text("a path", MAX_PATH_LENGTH), v.startsWith("/", "must be an absolute path")),
};
export const TTL: Kind<number> = integer("integer, ms", 1, MAX_TTL_MS);
export const GRACE: Kind<number> = integer("integer, ms or 0", 0, MAX_TTL_MS);
export const TTL_OR_NULL: Kind<number | null> = {
  type: "integer, ms, or null",
  schema: v.pipe(v.unknown(), v.union([v.null(), TTL.schema], `must be null or an integer from 1 to ${MAX_TTL_MS}`)),
};
export const DIFF_ROWS: Kind<number> = integer("integer", 0, MAX_DIFF_ROWS);
export const TABLES: Kind<string[]> = {
  type: "array of strings",
  schema: v.pipe(
    v.unknown(),
    v.array(text("a table name", MAX_TEXT_LENGTH), "must be an array of strings"),
    v.maxLength(MAX_DIFF_TABLES, `must have at most ${MAX_DIFF_TABLES} entries`),
  ),
};

export function required<T>(kind: Kind<T>, doc: string): Field<T> {
  return { ...kind, required: true, doc };
}

export function optional<T>(kind: Kind<T>, doc: string): Field<T> {
  return { ...kind, required: false, doc };
}
