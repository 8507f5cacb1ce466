/** What can be in conflict, and what of it a person can decide: a module of its own, for pages that run in a browser. */

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

const DECIDABLE: ReadonlySet<ConflictKind> = new Set([
  "changed_twice",
  "changed_and_deleted",
  "deleted_and_changed",
  "inserted_twice",
]);

/** Whether a side can be preferred: the rest has no two values to choose from. */
export function isDecidable({ kind }: { kind: ConflictKind }): boolean {
  return DECIDABLE.has(kind);
}
