/**
 * The kinds of values that settings have: how each is read from a file or a variable,
 * the bounds it must keep, and how it is shown.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/text/duration.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { InvalidConfig, quoteText, type RefusalOptions } from "./invalid.ts";
import { type ListNode, type MapNode, type Node, ROOT, type ScalarNode } from "./nodes.ts";

/** What a value looks like in JSON. */
export type Json = string | number | boolean | Json[] | { [key: string]: Json };

/** What the machine and its user give to the meaning of a value. */
export interface SettingsEnvironment {
  /** The user's home directory, absolute; what `~` stands for. */
  home: string;
  /** Where temporary files go, absolute; what `$TMPDIR` stands for. */
  temporary: string;
  /** The user's number; what `$UID` stands for. */
  uid: number;
}

/** A kind of value. */
export interface Kind<T> {
  /** Its name and bounds, for people. */
  type: string;
  /** Checks a node and takes its value; throws {@linkcode InvalidConfig}. */
  read(node: Node, around: SettingsEnvironment): T;
  /** The value as it is shown and compared. */
  show(value: T): Json;
}

/** Refuses `node`. The value is shown unless `secret` says that it may be one. */
export function refuse(node: Node, rule: string, options: { hint?: string; secret?: boolean } = {}): never {
  const shown: RefusalOptions = options.secret === true ? {} : { shown: describe(node) };
  const hint: RefusalOptions = options.hint === undefined ? {} : { hint: options.hint };
  throw new InvalidConfig(node.name, node.place, rule, { ...shown, ...hint });
}

function describe(node: Node): string {
  if (node.kind !== "scalar") return `a ${node.kind}`;
  if (node.value === null) return "empty";
  return typeof node.value === "string" ? quoteText(node.value) : quoteText(node.source).slice(1, -1);
}

/** The node as a list. */
export function asList(node: Node, rule: string, limit: number): ListNode["items"] {
  if (node.kind !== "list") refuse(node, rule);
  if (node.items.length > limit) refuse(node, `must have at most ${limit} entries`);
  return node.items;
}

/** The node as a map. */
export function asMap(node: Node, rule: string): MapNode["entries"] {
  if (node.kind !== "map") refuse(node, rule);
  return node.entries;
}

/** The fields of a map, each of `known` at most once; an unknown one is refused with a guess. */
export function fieldsOf<K extends string>(node: Node, known: readonly K[], rule: string): Partial<Record<K, Node>> {
  const fields: Partial<Record<K, Node>> = {};
  for (const { key, key_place, value } of asMap(node, rule)) {
    const found = known.find((name) => name === key);
    if (found === undefined) throw unknownKey(key, known, node.name, key_place);
    // An empty value is one that was not given.
    if (value.kind !== "scalar" || value.value !== null) fields[found] = value;
  }
  return fields;
}

/** The refusal of a key that does not exist. */
export function unknownKey(
  key: string,
  known: readonly string[],
  group: string,
  place: InvalidConfig["place"],
): InvalidConfig {
  const guess = nearest(key, known);
  // All of the top level would be a page.
  const all = known.length > 12 ? "docs/reference/settings.md lists every setting" : `Known here: ${known.join(", ")}`;
  const where = group === ROOT ? "" : ` in ${group}`;
  return new InvalidConfig(`the key ${quoteText(key)}${where}`, place, "must be a setting", {
    hint: secretHint(key) ?? (guess === undefined ? all : `Did you mean ${guess}? ${all}`),
  });
}

function secretHint(key: string): string | undefined {
  if (key === "vendor_c_auth") return "agent_c has no subscription mode: its key, VENDORC_API_KEY, is its only way in";
  if (!/(?:api_?key|secret|token|password)s?$/i.test(key)) return undefined;
  return "Keys are not kept in configuration: put them into ~/.taskd/api-keys.env (mode 0600) or the environment";
}

/** Options of {@linkcode text}. */
interface TextOptions {
  type: string;
  /** Beginning with "must". */
  rule: string;
  pattern: RegExp;
  hint?: string;
  /** Whether people paste secrets here by mistake. */
  secret?: boolean;
}

/** Text of a certain form. */
export function text(options: TextOptions): Kind<string> {
  const { type, rule, pattern } = options;
  return {
    type,
    read(node) {
      const value = asText(node, rule, options);
      if (!pattern.test(value)) refuse(node, rule, options);
      return value;
    },
    show: (value) => value,
  };
}

/** The node as text without control characters. */
export function asText(node: Node, rule: string, options: { hint?: string; secret?: boolean } = {}): string {
  if (node.kind !== "scalar" || node.value === null) refuse(node, rule, options);
  if (typeof node.value !== "string") refuse(node, `${rule}, in quotes`, options);
  // deno-lint-ignore no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(node.value) || !node.value.isWellFormed()) {
    refuse(node, "must have no control characters", options);
  }
  return node.value;
}

/** A name for a model, or empty. */
export const MODEL: Kind<string> = text({
  type: "text",
  rule: "must be a model's id: at most 200 of A-Z a-z 0-9 . _ : / @ + -",
  pattern: /^(?:[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199})?$/,
});

/** One of a few words. */
export function choice<T extends string>(words: readonly T[], aliases: Readonly<Record<string, T>> = {}): Kind<T> {
  const rule = `must be one of ${words.join(", ")}`;
  return {
    type: words.map((word) => `\`${word}\``).join(", "),
    read(node) {
      const value = asText(node, rule);
      const found = words.find((word) => word === value) ??
        (Object.hasOwn(aliases, value) ? aliases[value] : undefined);
      const guess = found ?? nearest(value, words);
      if (found === undefined) refuse(node, rule, guess === undefined ? {} : { hint: `Did you mean ${guess}?` });
      return found;
    },
    show: (value) => value,
  };
}

/** A number as a variable holds it; as little as possible, so that nobody has to know what `1_0` or `0x10` is. */
const NUMBER_TEXT = /^\d{1,15}(?:\.\d{1,15})?$/;

function readNumber(node: Node, rule: string): number {
  if (node.kind !== "scalar") refuse(node, rule);
  if (typeof node.value === "number") return node.value;
  if ("env" in node.place && NUMBER_TEXT.test(node.source)) return Number(node.source);
  refuse(node, rule);
}

/** A whole number. */
export function integer(minimum: number, maximum: number): Kind<number> {
  const rule = `must be a whole number from ${minimum} to ${maximum}`;
  return {
    type: `whole number, ${minimum}-${maximum}`,
    read(node) {
      const value = readNumber(node, rule);
      if (!Number.isSafeInteger(value) || value < minimum || value > maximum) refuse(node, rule);
      return value === 0 ? 0 : value;
    },
    show: (value) => value,
  };
}

/** A whole number from 0 that is brought down to `maximum` where it is larger. */
export function cappedInteger(maximum: number): Kind<number> {
  const rule = "must be a whole number, 0 or more";
  return {
    type: `whole number, capped at ${maximum}`,
    read(node) {
      const value = readNumber(node, rule);
      if (!Number.isInteger(value) || value < 0) refuse(node, rule);
      return value === 0 ? 0 : Math.min(maximum, value);
    },
    show: (value) => value,
  };
}

/** A number that may have decimals. */
export function decimal(unit: string, maximum: number): Kind<number> {
  const rule = `must be a number from 0 to ${maximum}`;
  return {
    type: `${unit}, 0-${maximum}`,
    read(node) {
      const value = readNumber(node, rule);
      if (!(value >= 0 && value <= maximum)) refuse(node, rule);
      return value === 0 ? 0 : value;
    },
    show: (value) => value,
  };
}

/** True or false; variables that stand for one have rules of their own. */
export const SWITCH: Kind<boolean> = {
  type: "`true`, `false`",
  read(node) {
    const rule = "must be true or false";
    if (node.kind !== "scalar" || typeof node.value !== "boolean") refuse(node, rule);
    return node.value;
  },
  show: (value) => value,
};

/** The longest wait: timers of the runtime count milliseconds in 31 bits and would fire at once beyond 24.8 days. */
export const MAX_WAIT = "24d";
/** The longest window, and the longest wait that is made in pieces: ten years. */
export const MAX_WINDOW = "3650d";

/** Options of {@linkcode duration}. */
interface DurationOptions {
  maximum: string;
  /** Smallest value other than zero. */
  minimum?: string;
  /** What zero stands for, where that is not zero. */
  zero_means?: string;
}

/** A duration; its value is in milliseconds. */
export function duration({ maximum, minimum, zero_means }: DurationOptions): Kind<number> {
  const least_ms = minimum === undefined ? 0 : parseDuration(minimum);
  const most_ms = parseDuration(maximum);
  const bounds = minimum === undefined ? `of at most ${maximum}` : `from ${minimum} to ${maximum}, or 0`;
  return {
    type: minimum === undefined ? `duration, at most ${maximum}` : `duration, ${minimum}-${maximum}, or 0`,
    read(node) {
      const rule = `must be a duration ${bounds}`;
      if (node.kind !== "scalar" || node.value === null || typeof node.value === "boolean") refuse(node, rule);
      const value_ms = millisecondsOf(node, String(node.value), rule);
      if (value_ms === 0) return zero_means === undefined ? 0 : parseDuration(zero_means);
      if (value_ms < least_ms || value_ms > most_ms) refuse(node, rule);
      return value_ms;
    },
    show: formatExact,
  };
}

function millisecondsOf(node: ScalarNode, source: string, rule: string): number {
  try {
    return parseDuration(source);
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    refuse(node, rule, error.hint === undefined ? {} : { hint: error.hint });
  }
}

/** A duration that reads back as the same number of milliseconds: `1h30m`, `0s`. */
export function formatExact(ms: number): string {
  let rest = ms;
  let shown = "";
  for (const [unit, size] of [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000], ["ms", 1]] as const) {
    // Whole days up to two are hours to people: 24h.
    if (unit === "d" && (rest < 2 * size || rest % size !== 0)) continue;
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) shown += `${count}${unit}`;
  }
  return shown === "" ? "0s" : shown;
}
