/**
 * Holds a parsed request against the table of its route, once, from top to bottom: what the table does not know is
 * refused by its name, with the setting that would let it pass. What is free by the table is not entered.
 */

import { asObject, type JsonObject } from "../metering/usage.ts";
import { Refusal } from "../refusal.ts";
import type { GatedShape, ObjectShape, Shape, TaggedShape } from "./shapes.ts";

export interface CheckOptions {
  /** Names of vendor's tools and paths of fields that the operator allows. */
  allowed: ReadonlySet<string>;
  /** The setting that holds paths of fields. */
  fields_setting: string;
  path_model: string | undefined;
}

export interface Checked {
  /** The model that is asked; undefined when the body names none. */
  model: string | undefined;
  /** Bytes of what stands in the request in base64, and how many such files there are. */
  inline_bytes: number;
  inline_files: number;
}

type Key = string | number;

/** Throws a refusal that names the field. */
export function checkShape(shape: Shape, value: unknown, options: CheckOptions): Checked {
  const check = new Check(options);
  check.value(shape, value);
  return check.found;
}

/** No known field is longer. Folding a key can make it 18 times as long, so one beyond this is unknown as it stands. */
const MAX_KEY_CHARS = 128;

class Check {
  readonly #options: CheckOptions;
  readonly #path: Key[] = [];
  readonly found: Checked = { model: undefined, inline_bytes: 0, inline_files: 0 };

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  value(shape: Shape, value: unknown): void {
    switch (shape.kind) {
      case "data":
        return;
      case "text":
        if (typeof value !== "string") this.#malformed("it must be a string");
        if (value.length > shape.max) this.#malformed(`it must be at most ${shape.max} characters long`);
        return;
      case "object":
        return this.#object(shape, this.#asObject(value));
      case "tagged":
        return this.#tagged(shape, this.#asObject(value));
      case "list":
        return this.#list(shape.of, shape.max, value);
      case "either":
        return this.#either(shape, value);
      case "label":
        if (typeof value === "string" && LABEL.test(value)) return;
        return this.#malformed("it must be one word, at most 128 of A-Z a-z 0-9 . _ : / @ + -");
      case "number":
        if (typeof value !== "number" || value < shape.min || value > shape.max) {
          this.#malformed(`it must be a number from ${shape.min} to ${shape.max}`);
        }
        if (shape.whole && !Number.isInteger(value)) this.#malformed("it must be a whole number");
        return;
      case "flag":
        if (typeof value !== "boolean") this.#malformed("it must be true or false");
        return;
      case "inline":
        return this.#inline(shape.url_safe, value);
      case "data_url":
        return this.#dataUrl(value);
      case "model":
        return this.#model(value);
      case "path_model":
        if (value === this.#options.path_model || value === `models/${this.#options.path_model}`) return;
        return this.#malformed("it names another model than the path");
      case "map":
        for (const [key, member] of Object.entries(this.#asObject(value))) this.#member(shape.of, key, member);
        return;
      case "gated":
        return this.#gated(shape, value);
      case "priced":
        if (typeof value === "string" && shape.words.has(value.toLowerCase())) return;
        throw this.#refusal("tier_refused", shape.what);
    }
  }

  /** Null is the same as nothing, where a field may be left out. */
  #member(shape: Shape, key: Key, value: unknown): void {
    if (value === null && typeof key === "string") return;
    this.#path.push(key);
    this.value(shape, value);
    this.#path.pop();
  }

  #object(shape: ObjectShape, object: JsonObject): void {
    for (const key of Object.keys(object)) {
      const known = shape.fields.get(key);
      if (known !== undefined) {
        this.#member(known, key, object[key]);
        continue;
      }
      // One spelling or the other: what is read by its name later is looked for under these two.
      const may_be_humped = shape.humps && key.length <= MAX_KEY_CHARS && !/[A-Z]/.test(key);
      const humped = may_be_humped ? withHumps(key) : key;
      const spelled = humped === key ? undefined : shape.fields.get(humped);
      if (spelled === undefined) this.#other(shape, key, object[key]);
      else if (Object.hasOwn(object, humped)) this.#at(key, () => this.#malformed(`${humped} stands here too`));
      else this.#member(spelled, key, object[key]);
    }
  }

  /** A key that the table does not have. */
  #other(shape: ObjectShape, key: string, value: unknown): void {
    this.#path.push(key);
    // Another parser could take it for the field that is checked.
    const meant = key.length <= MAX_KEY_CHARS ? foldedNames(shape).get(fold(key)) : undefined;
    if (meant !== undefined) this.#malformed(`write it "${meant}"`);
    if (shape.others === "tool") {
      if (value !== null) {
        this.#allowFeature([withHumps(key.slice(0, MAX_KEY_CHARS)).slice(0, 64)], "the vendor would run this tool");
      }
    } else {
      this.#unknown(value);
    }
    this.#path.pop();
  }

  /** A field that is not known passes if the operator names it: with `.*` all that is in it, else each part by itself. */
  #unknown(value: unknown): void {
    const { allowed, fields_setting } = this.#options;
    const names = this.#path.filter((key) => typeof key === "string").map((key) => printable(key));
    const path = names.join(".");
    if (names.some((_, index) => allowed.has(`${names.slice(0, index + 1).join(".")}.*`))) return;
    if (!allowed.has(path)) {
      throw this.#refusal(
        "field_refused",
        `this field is not known, nor what it would do. To allow it, add "${path}" to ${fields_setting} in config.yaml`,
      );
    }
    for (const item of Array.isArray(value) ? value : [value]) {
      for (const [key, member] of Object.entries(asObject(item) ?? {})) this.#at(key, () => this.#unknown(member));
    }
  }

  #tagged(shape: TaggedShape, object: JsonObject): void {
    const tag = object[shape.tag] ?? undefined;
    if (tag === undefined) {
      if (shape.untagged === undefined) this.#at(shape.tag, () => this.#malformed("it is needed here"));
      return this.value(shape.untagged!, object);
    }
    if (typeof tag !== "string") return this.#at(shape.tag, () => this.#malformed("it must be a string"));
    const undated = tag.replace(/[-_](?:20\d{6}|20\d\d[-_]\d\d[-_]\d\d)$/, "");
    const known = shape.variants.get(shape.dated ? undated : tag);
    if (known !== undefined) return this.value(known, object);
    this.#at(shape.tag, () => this.#allowFeature([undated.slice(0, 64), tag], shape.what(printable(tag))));
  }

  #list(of: Shape, max: number, value: unknown): void {
    if (!Array.isArray(value)) return this.#malformed("it must be a list");
    if (value.length > max) this.#malformed(`it must have at most ${max} items`);
    for (let index = 0; index < value.length; index++) this.#member(of, index, value[index]);
  }

  #either(shape: Shape & { kind: "either" }, value: unknown): void {
    const inner = typeof value === "string" ? shape.text : Array.isArray(value) ? shape.list : shape.object;
    if (inner !== undefined) return this.value(inner, value);
    const kinds = Object.keys(shape).filter((key) => key !== "kind").map((key) => key === "text" ? "string" : key);
    this.#malformed(`it must be of the kind ${kinds.join(" or ")}`);
  }

  #gated(shape: GatedShape, value: unknown): void {
    if (value === false) return;
    if (shape.unless !== undefined) {
      if (shape.unless(asObject(value) ?? {})) return this.value(shape.inner!, value);
    }
    const refuse = () => this.#allowFeature(shape.features, shape.what);
    if (shape.at === undefined) refuse();
    else this.#at(shape.at, refuse);
  }

  #inline(url_safe: boolean, value: unknown): void {
    if (typeof value !== "string") return this.#malformed("it must be a string");
    // The alphabet of base64 has neither the colon nor the dot of an address.
    if (!DATA_URL.test(value) && !isBase64(value) && !(url_safe && isUrlSafeBase64(value))) {
      this.#allowFeature(["url_source"], "it is no base64, and the vendor could fetch what it names");
    }
    this.#count(value);
  }

  #dataUrl(value: unknown): void {
    if (typeof value === "string" && DATA_URL.test(value)) return this.#count(value);
    this.#allowFeature(["url_source"], "the vendor would fetch a URL");
  }

  #count(inline: string): void {
    this.found.inline_bytes += inline.length;
    this.found.inline_files++;
  }

  #model(value: unknown): void {
    if (typeof value !== "string" || !MODEL_NAME.test(value)) {
      this.#malformed("the name of a model is needed, at most 200 of A-Z a-z 0-9 . _ : / @ + -");
    }
    const name = String(value);
    for (const [pattern, feature, what] of ACTING_MODELS) {
      if (pattern.test(name.toLowerCase())) this.#allowFeature([feature], what);
    }
    this.found.model = name;
  }

  #allowFeature(features: readonly string[], what: string): void {
    if (features.some((feature) => this.#options.allowed.has(feature))) return;
    const [feature] = features;
    if (feature === undefined) throw this.#refusal("tier_refused", what);
    throw this.#refusal(
      "vendor_tool_refused",
      `${what}, past the egress list. To allow it, add "${printable(feature)}" to allow_vendor_tools in config.yaml`,
    );
  }

  #asObject(value: unknown): JsonObject {
    return asObject(value) ?? this.#malformed("it must be an object");
  }

  #at(key: Key, run: () => void): void {
    this.#path.push(key);
    run();
    this.#path.pop();
  }

  #malformed(what: string): never {
    throw this.#refusal("bad_request", what);
  }

  #refusal(code: "bad_request" | "field_refused" | "vendor_tool_refused" | "tier_refused", what: string): Refusal {
    const field =
      this.#path.map((key, index) =>
        typeof key === "number" ? `[${key}]` : `${index === 0 ? "" : "."}${printable(key)}`
      ).join("").slice(0, 200) || "body";
    return new Refusal(code, `${field}: ${what}`, field);
  }
}

const LABEL = /^[A-Za-z0-9._:/@+-]{1,128}$/;
const DATA_URL = /^data:/i;
/** Model names as vendors and endpoints write them; no more than this reaches logs and prices. */
const MODEL_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/;

const SEARCHES = "the vendor would search the web for this model";
/** Models that do more than answer, by names in lower case. */
const ACTING_MODELS: readonly (readonly [RegExp, string, string])[] = [
  [
    /deep-?(?:re)?search|search-preview|search-api|[:-]online\b|-search(?:$|[-:])|all-?tools\b|(?:^|\/)kagi\//,
    "search_model",
    SEARCHES,
  ],
  [/(?:^|[/:-])sonar\b|(?:^|[/:])(?:compound|fastgpt|exa(?:$|[/:-]))/, "search_model", SEARCHES],
  [
    /(?:^|[/:])auto(?:$|[-:])|@preset\b|(?:^|[/:])openrouter[/:](?:fusion|free)\b|(?:^|[/:-])router(?:$|[-:])/,
    "routed_model",
    "the endpoint would choose a model, or tools, by itself",
  ],
];

/** Looks for what does not belong there: a pattern for all that does would keep a place for each of millions. */
function isBase64(text: string): boolean {
  return text.length % 4 === 0 && isPadding(text, text.search(/[^A-Za-z0-9+/]/));
}

/** Padding may be left out here. */
function isUrlSafeBase64(text: string): boolean {
  return text.length % 4 !== 1 && isPadding(text, text.search(/[^\w-]/));
}

function isPadding(text: string, at: number): boolean {
  return at < 0 || text.length - at < 3 && /^={1,2}$/.test(text.slice(at)) && text.length % 4 === 0;
}

/**
 * A key as the most lenient parser would read it: some endpoints ignore case, and the case folding of some languages
 * takes the long s and the Kelvin sign for letters.
 */
export function fold(key: string): string {
  return key.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
}

const folded_names = new WeakMap<ObjectShape, Map<string, string>>();

/** The fields of a shape by their folded names. */
function foldedNames(shape: ObjectShape): Map<string, string> {
  let names = folded_names.get(shape);
  if (names === undefined) {
    // The first of two that fold alike.
    names = new Map([...shape.fields.keys()].toReversed().map((name) => [fold(name), name]));
    folded_names.set(shape, names);
  }
  return names;
}

function withHumps(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function printable(text: string): string {
  return text.slice(0, 64).replace(/[^\x20-\x7e]/g, "?");
}
