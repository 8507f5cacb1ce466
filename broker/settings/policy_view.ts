/**
 * The settings in force as they travel: what the broker answers to `/admin/policy`.
 */

import * as v from "valibot";
import type { ShownValue } from "./value_schemas.ts";

const SHOWN_VALUE: v.GenericSchema<ShownValue> = v.lazy(() =>
  v.union([v.string(), v.number(), v.boolean(), v.array(SHOWN_VALUE), v.record(v.string(), SHOWN_VALUE)])
);

const POLICY_FIELD = v.strictObject({ setting: v.string(), value: SHOWN_VALUE, source: v.string() });
/** A setting; another version of the program may have others. */
export type PolicyField = v.InferOutput<typeof POLICY_FIELD>;

/** Every setting. */
export const POLICY_VIEW = v.strictObject({
  fields: v.pipe(v.array(POLICY_FIELD), v.maxLength(10_000)),
  /** SHA-256 in hex over the compared fields. */
  hash: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
});
export type PolicyView = v.InferOutput<typeof POLICY_VIEW>;
