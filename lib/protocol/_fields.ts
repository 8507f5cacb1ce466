/**
 * The kinds of values that requests and answers hold, each with its bound: checked by valibot, described as JSON schema
 * and, for people, in a word.
 */

import * as v from "../packages/valibot.ts";
import { formatAddress, parseAddress, parseName, parsePointName } from "../store/names.ts";
import { DEFAULT_LEVELS_TEXT, parseLevels } from "../store/retention.ts";

/** The longest file path a request may name, in UTF-16 units; Linux allows 4096 bytes with the final NUL. */
const MAX_PATH_LENGTH = 4095;
/** The longest text and name of a table, in UTF-16 units; operations have limits of their own below it. */
const MAX_TEXT_LENGTH = 4096;
/** The most rows of a table that a diff shows. */
const MAX_DIFF_ROWS = 10_000;
/** The most points of a branch that a part of its log has. */
const MAX_LOG_POINTS = 1000;
/** The most tables that a diff can be narrowed to. */
const MAX_DIFF_TABLES = 1000;
/** The most bytes of one value that a diff shows. */
const MAX_VALUE_BYTES = 16 << 20;
/** The longest text of how long points are kept. */
const MAX_LEVELS_LENGTH = 256;
/** The longest time to live: a hundred years, so that stamps stay within the range of dates. */
const MAX_TTL_MS = 100 * 366 * 86_400_000;

export interface Kind<T> {
  schema: v.GenericSchema<unknown, T>;
  /** JSON schema; the exact rules are those of `schema`. */
  json: object;
  /** Its type for people. */
  type: string;
  /** The fields of an object, or of each object of a list. */
  object?: AnyFields;
}

/** One field of a request, an answer or an object in an answer. */
export interface Field<T> extends Kind<T> {
  required: boolean;
  doc: string;
}

export type AnyFields = Readonly<Record<string, Field<unknown>>>;

/** The fields of an object `T`: none missing, none unknown, each of its type, and required where `T` requires it. */
export type Fields<T> = {
  readonly [K in keyof T]-?: Field<Exclude<T[K], undefined>> & {
    required: Record<never, never> extends Pick<T, K> ? false : true;
  };
};

export function required<T>(kind: Kind<T>, doc: string): Field<T> & { required: true } {
  return { ...kind, required: true, doc };
}

export function optional<T>(kind: Kind<T>, doc: string): Field<T> & { required: false } {
  return { ...kind, required: false, doc };
}

function areLevels(text: string): boolean {
  try {
    parseLevels(text);
    return true;
  } catch {
    return false;
  }
}

/** A string that one of the parsers of names.ts accepts; its error keeps its code and hint. */
function parsed(type: string, parse: (text: string) => string): Kind<string> {
  return { type, json: { type: "string" }, schema: v.pipe(v.string("must be a string"), v.transform(parse)) };
}

function integer(type: string, minimum: number, maximum: number): Kind<number> {
  const wrong = `must be an integer from ${minimum} to ${maximum}`;
  return {
    type,
    json: { type: "integer", minimum, maximum },
    schema: v.pipe(v.number(wrong), v.safeInteger(wrong), v.minValue(minimum, wrong), v.maxValue(maximum, wrong)),
  };
}

function text(type: string, maxLength: number, what = type): Kind<string> {
  return {
    type,
    json: { type: "string", maxLength },
    schema: v.pipe(
      v.string("must be a string"),
      v.maxLength(maxLength, `must have at most ${maxLength} characters`),
      v.check((value) => !value.includes("\0"), `must be ${what} without NUL characters`),
    ),
  };
}

export const DATABASE: Kind<string> = parsed("name", (name) => parseName(name, "database"));
export const BRANCH: Kind<string> = parsed("name", (name) => parseName(name, "branch"));
export const CHECKPOINT: Kind<string> = parsed("name", (name) => parseName(name, "checkpoint"));
export const POINT: Kind<string> = parsed("point", parsePointName);
export const ADDRESS: Kind<string> = parsed("address", (address) => formatAddress(parseAddress(address)));
export const NOTE: Kind<string> = text("string", MAX_TEXT_LENGTH, "text");
export const FLAG: Kind<boolean> = {
  type: "boolean",
  json: { type: "boolean" },
  schema: v.boolean("must be true or false"),
};
export const PATH: Kind<string> = {
  type: "absolute path",
  json: { type: "string", pattern: "^/", maxLength: MAX_PATH_LENGTH },
  schema: v.pipe(text("path", MAX_PATH_LENGTH, "a path").schema, v.startsWith("/", "must be an absolute path")),
};
/** Where a store is, in one spelling. */
export const LOCATION: Kind<string> = {
  type: "absolute path or s3://bucket/prefix",
  json: { type: "string", pattern: "^(/|s3://)", maxLength: MAX_PATH_LENGTH },
  schema: v.pipe(
    text("path", MAX_PATH_LENGTH, "a path").schema,
    v.regex(
      /^(?:\/|s3:\/\/[a-z0-9][a-z0-9.-]*(?:\/[A-Za-z0-9_.~@-]+)*$)/,
      "must be an absolute path or s3://bucket/prefix",
    ),
  ),
};
export const TTL: Kind<number> = integer("integer, ms", 1, MAX_TTL_MS);
export const GRACE: Kind<number> = integer("integer, ms or 0", 0, MAX_TTL_MS);
export const TTL_OR_NULL: Kind<number | null> = {
  type: "integer, ms, or null",
  json: { ...TTL.json, type: ["integer", "null"] },
  schema: v.union([v.null(), TTL.schema], `must be null or an integer from 1 to ${MAX_TTL_MS}`),
};
const NO_LEVELS = `must be none, or levels such as ${DEFAULT_LEVELS_TEXT}`;
export const LEVELS: Kind<string> = {
  type: "levels",
  json: { type: "string", maxLength: MAX_LEVELS_LENGTH },
  schema: v.pipe(v.string(NO_LEVELS), v.maxLength(MAX_LEVELS_LENGTH, NO_LEVELS), v.check(areLevels, NO_LEVELS)),
};
export const LEVELS_OR_NULL: Kind<string | null> = {
  type: "levels or null",
  json: { ...LEVELS.json, type: ["string", "null"] },
  schema: v.union([v.null(), LEVELS.schema], `${NO_LEVELS}, or null`),
};
export const LOG_LIMIT: Kind<number> = integer("integer", 1, MAX_LOG_POINTS);
export const DIFF_ROWS: Kind<number> = integer("integer", 0, MAX_DIFF_ROWS);
export const VALUE_BYTES: Kind<number> = integer("integer, bytes", 0, MAX_VALUE_BYTES);
export const TABLE: Kind<string> = text("string", MAX_TEXT_LENGTH, "a table name");
export const STAND: Kind<string> = text("string", 64, "where a branch stands");
export const MERGE: Kind<string> = text("string", 64, "the name of a merge");
export const PLACE: Kind<string> = text("string", 64, "the `next` of an answer");
export const TABLES: Kind<string[]> = {
  type: "array of strings",
  json: { type: "array", items: { type: "string" }, maxItems: MAX_DIFF_TABLES },
  schema: v.pipe(
    v.array(TABLE.schema, "must be an array of strings"),
    v.maxLength(MAX_DIFF_TABLES, `must have at most ${MAX_DIFF_TABLES} entries`),
  ),
};

export const STRING: Kind<string> = { type: "string", json: { type: "string" }, schema: v.string() };
export const STRINGS: Kind<string[]> = {
  type: "array of strings",
  json: { type: "array", items: STRING.json },
  schema: v.array(v.string()),
};
export const COUNT: Kind<number> = integer("integer", 0, Number.MAX_SAFE_INTEGER);
export const SECONDS: Kind<number> = {
  type: "number, s",
  json: { type: "number", minimum: 0 },
  schema: v.pipe(v.number(), v.minValue(0)),
};
export const STAMP: Kind<string> = {
  type: "ISO 8601 UTC",
  json: { type: "string", format: "date-time" },
  schema: v.pipe(v.string(), v.isoTimestamp()),
};
export function oneOf<const T extends string | boolean>(...values: readonly T[]): Kind<T> {
  return {
    type: values.map((value) => `\`${value}\``).join(", "),
    json: { enum: values },
    schema: v.union(values.map((value) => v.literal(value)), `must be one of ${values.join(", ")}`) as v.GenericSchema<
      unknown,
      T
    >,
  };
}

export function object<T extends object>(type: string, fields: NoInfer<Fields<T>>): Kind<T> {
  const entries = Object.entries<Field<unknown>>(fields);
  const schemas = entries.map(([name, { required, schema }]) => [name, required ? schema : v.exactOptional(schema)]);
  return {
    type,
    object: fields,
    json: objectSchema(fields),
    // The compiler has checked the fields one by one, but does not follow them through this.
    schema: v.strictObject(Object.fromEntries(schemas)) as v.GenericSchema<unknown, unknown> as Kind<T>["schema"],
  };
}

export function listOf<T>({ type, json, schema, object }: Kind<T>): Kind<T[]> {
  return {
    type: `array of ${type} objects`,
    json: { type: "array", items: json },
    schema: v.array(schema),
    ...(object === undefined ? {} : { object }),
  };
}

export function objectSchema(fields: AnyFields): { type: "object"; properties: object; required: string[] } {
  const entries = Object.entries(fields);
  return {
    type: "object",
    properties: Object.fromEntries(
      entries.map(([name, { json, doc, type }]) => [name, { ...json, description: `${doc} (${type})` }]),
    ),
    required: entries.filter(([, { required }]) => required).map(([name]) => name),
  };
}
