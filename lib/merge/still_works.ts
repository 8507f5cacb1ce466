/**
 * What worked before a merge works after it. Of a target whose definitions a merge changes: foreign keys find the table
 * and the key that they refer to, without which SQLite refuses every change of either table.
 */

import { isSameName, nameKey, quoteName } from "../sqlite/image.ts";
import type { MergeConflict } from "./conflicts.ts";
import { type ForeignKey, Target } from "./target.ts";

/** Foreign keys of one database. */
interface References {
  all: ReadonlyMap<string, ForeignKey>;
  /** Those whose parent is no table. */
  lost: ReadonlySet<string>;
  /** Tables with one whose parent has no such key, and what SQLite says of that. */
  mismatched: ReadonlyMap<string, { child: string; detail: string }>;
}

/** How a target was before its definitions changed. */
export class StillWorks {
  readonly #target: Target;
  readonly #references: References;

  constructor(target: Target) {
    this.#target = target;
    this.#references = referencesOf(target);
  }

  /**
   * What does not work any more.
   *
   * @param source_path An image of the source: what it brings worked there, or need not here.
   */
  *broken(source_path: string): Generator<MergeConflict> {
    yield* this.#brokenReferences(source_path);
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
