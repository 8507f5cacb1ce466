/**
 * Schemas of single values that the records of tasks are made of, each bounded.
 */

import * as v from "valibot";

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The most characters of a text that is never cut: an instruction, a reason. */
const MAX_TEXT_CHARS = 131_072;

export const COUNT = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
/** USD. */
export const AMOUNT = v.pipe(v.number(), v.finite(), v.minValue(0));
/** A text of any length that a task may have. */
export const TEXT = v.pipe(v.string(), v.maxLength(MAX_TEXT_CHARS));
/** A name, a path, a URL. */
export const WORD = v.pipe(v.string(), v.maxLength(4_096));
export const WORDS = v.pipe(v.array(WORD), v.maxLength(1_024));
/** The id of an object of git. */
export const OID = v.pipe(v.string(), v.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/));
export const SHA256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
export const RANDOM_ID = v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/));
export const TIME = v.pipe(v.string(), v.isoTimestamp());
export const JSON_VALUE: v.GenericSchema<Json> = v.lazy(() =>
  v.union([v.null(), v.boolean(), v.number(), v.string(), v.array(JSON_VALUE), v.record(v.string(), JSON_VALUE)])
);
