/**
 * What is asked of the rows that a task changed, and a page of them.
 */

import * as v from "valibot";
import { ROW_CHANGE } from "./database_schema.ts";
import { COUNT, SHA256 } from "./value_schemas.ts";

const LIMIT = "must be from 1 to 1000";
const BYTES = "must be from 0 to 16777216";
const name = v.pipe(v.string(), v.maxLength(4_096, "must have at most 4096 characters"));
/** Parameters of `GET /tasks/<id>/database-diff`; the first two must be there. */
export const DATABASE_DIFF_QUERY = {
  database: name,
  table: name,
  /** Only rows of which this became. */
  kind: v.picklist(["added", "removed", "changed"], "must be added, removed or changed"),
  /** Only rows with this in a value of either side, whatever its case. */
  search: name,
  /** `next` of the page before. */
  cursor: name,
  limit: v.pipe(v.number(LIMIT), v.integer(LIMIT), v.minValue(1, LIMIT), v.maxValue(1_000, LIMIT)),
  /** Of a text or blob that are shown; 256 when absent. */
  value_bytes: v.pipe(v.number(BYTES), v.integer(BYTES), v.maxValue(16 << 20, BYTES)),
};
/** What is asked of a task's changed rows. */
export type DatabaseDiffQuery =
  & { database: string; table: string }
  & {
    [N in Exclude<keyof typeof DATABASE_DIFF_QUERY, "database" | "table">]?: v.InferOutput<
      (typeof DATABASE_DIFF_QUERY)[N]
    >;
  };

/** Answer of `GET /tasks/<id>/database-diff`. A filtered page may be short, or empty, and have a next one. */
export const DATABASE_ROWS = v.strictObject({
  rows: v.array(ROW_CHANGE),
  /** The value of `cursor` for the next page; absent on the last. */
  next: v.exactOptional(v.string()),
  /** That it belongs to the change that the gate binds; of a page of its rows alone, see `isProvable`. */
  proof: v.exactOptional(v.strictObject({ index: COUNT, path: v.array(SHA256) })),
});
export type DatabaseRows = v.InferOutput<typeof DATABASE_ROWS>;
/** The place of a page among the leaves of its changeset, and the hashes beside its way up. */
export type PageProof = NonNullable<DatabaseRows["proof"]>;
