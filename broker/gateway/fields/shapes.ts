/**
 * How a table of fields is written: what one place of a request may hold. A table is data; check.ts reads it. What a
 * table does not know is refused, so a place is described by what passes, and free text and free JSON are said to be so.
 */

import { words } from "../../../lib/text/words.ts";
import type { JsonObject } from "../metering/usage.ts";

/** Where a list of fields was taken from, so that it can be compared with a later version. */
export type Source = string;

export type Shape =
  /** Any text: what people, models and programs write. */
  | { readonly kind: "text"; readonly max: number }
  /** A short word of the vendor's, such as a level of effort; which ones there are is the vendor's affair. */
  | { readonly kind: "label" }
  | { readonly kind: "number"; readonly min: number; readonly max: number; readonly whole: boolean }
  | { readonly kind: "flag" }
  /** Any JSON: schemas, arguments and results are data of the model and its program, and no switches. */
  | { readonly kind: "data" }
  /** Bytes in base64 that stand in the request itself, for some vendors in the alphabet of URLs too. */
  | { readonly kind: "inline"; readonly url_safe: boolean }
  /** A URL that holds what it names: `data:`. Any other is a feature. */
  | { readonly kind: "data_url" }
  /** The name of a model. */
  | { readonly kind: "model" }
  /** The model that the path names, if anything. */
  | { readonly kind: "path_model" }
  | { readonly kind: "list"; readonly of: Shape; readonly max: number }
  /** An object whose keys are free, and whose values are not. */
  | { readonly kind: "map"; readonly of: Shape }
  | ObjectShape
  | TaggedShape
  /** One of several, by the kind of JSON. */
  | { readonly kind: "either"; readonly text?: Shape; readonly list?: Shape; readonly object?: Shape }
  | GatedShape
  /** A word that decides the price: others than these cannot be metered. */
  | { readonly kind: "priced"; readonly words: ReadonlySet<string>; readonly what: string };

export interface ObjectShape {
  readonly kind: "object";
  readonly fields: ReadonlyMap<string, Shape>;
  readonly sources: ReadonlyMap<string, Source>;
  /** Keys may also be written with underscores, as the parser of protocol buffers reads them. */
  readonly humps: boolean;
  /** What any other key stands for: a field that is not known, or a tool of the vendor's with that name. */
  readonly others: "field" | "tool";
}

export interface TaggedShape {
  readonly kind: "tagged";
  readonly tag: string;
  readonly variants: ReadonlyMap<string, Shape>;
  /** For an object without a tag; undefined refuses it. */
  readonly untagged: Shape | undefined;
  /** Says what a tag that is not known is, in a refusal. */
  readonly what: (tag: string) => string;
  /** A date behind a tag is its version and changes nothing: `bash_20250124`. */
  readonly dated: boolean;
}

export interface GatedShape {
  readonly kind: "gated";
  /** The names in `allow_vendor_tools` that let it pass, with all that is in it; none if nothing can. */
  readonly features: readonly string[];
  readonly what: string;
  /** The part of the value that the refusal names. */
  readonly at: string | undefined;
  /** Passes without being allowed, in the shape of `inner`. */
  readonly unless: ((value: JsonObject) => boolean) | undefined;
  readonly inner: Shape | undefined;
}

const MAX_ITEMS = 100_000;

export const text: Shape = { kind: "text", max: Infinity };
/** Names and ids. */
export const id: Shape = { kind: "text", max: 1024 };
export const label: Shape = { kind: "label" };
export const flag: Shape = { kind: "flag" };
export const data: Shape = { kind: "data" };
export const inline: Shape = { kind: "inline", url_safe: false };
/** Bytes of a protocol buffer. */
export const proto_inline: Shape = { kind: "inline", url_safe: true };
export const data_url: Shape = { kind: "data_url" };
export const model: Shape = { kind: "model" };
export const path_model: Shape = { kind: "path_model" };
export const number: Shape = { kind: "number", min: -1e9, max: 1e9, whole: false };
export const count: Shape = { kind: "number", min: -1, max: 100_000_000, whole: true };

export const list = (of: Shape, max = MAX_ITEMS): Shape => ({ kind: "list", of, max });
export const map = (of: Shape): Shape => ({ kind: "map", of });
export const either = (by: { text?: Shape; list?: Shape; object?: Shape }): Shape => ({ kind: "either", ...by });

export type FieldShapes = Readonly<Record<string, Shape>>;

/** Fields of one shape, by their names. */
export function each(shape: Shape, names: string): FieldShapes {
  return Object.fromEntries(words(names).map((name) => [name, shape]));
}

/** Fields of one source. */
export interface Sourced {
  readonly source: Source;
  readonly fields: FieldShapes;
}

export const from = (source: Source, fields: FieldShapes): Sourced => ({ source, fields });

/** An object of exactly these fields; those of a nested one have the source of the one around it. */
export function object(...groups: (FieldShapes | Sourced)[]): ObjectShape {
  const fields = new Map<string, Shape>();
  const sources = new Map<string, Source>();
  for (const group of groups) {
    const { source, fields: own } = isSourced(group) ? group : { source: undefined, fields: group };
    for (const [name, shape] of Object.entries(own)) {
      fields.set(name, shape);
      if (source !== undefined) sources.set(name, source);
    }
  }
  return { kind: "object", fields, sources, humps: false, others: "field" };
}

function isSourced(group: FieldShapes | Sourced): group is Sourced {
  return typeof group.source === "string";
}

/** An object of a protocol buffer. */
export const proto = (...groups: (FieldShapes | Sourced)[]): ObjectShape => ({ ...object(...groups), humps: true });

/** An object with a tool under each key. */
export const toolbox = (fields: FieldShapes): ObjectShape => ({ ...proto(fields), others: "tool" });

export function tagged(
  variants: FieldShapes,
  options: { tag?: string; untagged?: Shape; what: (tag: string) => string; dated?: boolean },
): TaggedShape {
  const { tag = "type", untagged, what, dated = false } = options;
  return { kind: "tagged", tag, variants: new Map(Object.entries(variants)), untagged, what, dated };
}

/** What a tag of content is that a table does not have. */
export function unknownContent(tag: string): string {
  return `content of type "${tag}" is not known`;
}

export function gated(
  features: string,
  what: string,
  options: { at?: string; unless?: (value: JsonObject) => boolean; inner?: Shape } = {},
): GatedShape {
  const { at, unless, inner } = options;
  return { kind: "gated", features: words(features), what, at, unless, inner };
}

/** What no setting allows, since it cannot be metered. */
export const never = (what: string): GatedShape => ({
  kind: "gated",
  features: [],
  what,
  at: undefined,
  unless: undefined,
  inner: undefined,
});

export const priced = (names: string): Shape => {
  const allowed = words(names);
  return { kind: "priced", words: new Set(allowed), what: `only ${allowed.join(" and ")} can be metered` };
};

/** What one route of a lane takes. */
export interface Table {
  /** The versions of the vendor's interface that it was written for. What a newer one has not, the vendor refuses. */
  readonly versions: readonly string[];
  readonly source: Source;
  readonly body: ObjectShape;
  /** A flag that is refused when it is set, and that the vendor takes for set where a request does not name it. */
  readonly set_by_default?: string;
  /** What of a request bounds the tokens of its answers. */
  readonly max_output: (body: JsonObject) => OutputBound;
  /** Whether it says itself at which tier and where it runs, so that no default of a project's can cost more. */
  readonly at_list_price: (body: JsonObject) => boolean;
}

export interface OutputBound {
  /** The most tokens of one answer; undefined where the request sets no limit. */
  max_output: number | undefined;
  /** How many answers it asks for. */
  answers: number;
}

/** Endpoints read -1, and some 0, as no limit; of several limits the largest counts. */
export function outputBound(limits: readonly unknown[], answers?: unknown): OutputBound {
  const set = limits.filter((limit) => typeof limit === "number");
  const unlimited = set.length === 0 || set.some((limit) => limit <= 0);
  return {
    max_output: unlimited ? undefined : Math.max(...set),
    answers: typeof answers === "number" ? Math.max(1, answers) : 1,
  };
}
