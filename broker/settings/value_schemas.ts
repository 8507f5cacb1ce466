/**
 * valibot schemas of the values that settings have: numbers, durations, words, lists and maps.
 *
 * Conventions: an issue's message is the rule, beginning with "must"; a second line of it, where there is one, is a
 * hint. A schema's metadata are its {@linkcode ValueTraits}.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/text/duration.ts";
import { nearest } from "../../lib/text/nearest.ts";

/** A setting's value as it is shown and compared. */
export type ShownValue = string | number | boolean | ShownValue[] | { [key: string]: ShownValue };

/** What a setting's schema holds in addition to its types. */
export interface ValueTraits {
  type: string;
  /** The value as it is shown and compared; by default as it is. */
  show?: (value: never) => ShownValue;
  /** Whether `~/`, `$TMPDIR/` and `$UID` are expanded; the schema checks the expanded text. */
  is_path?: true;
}

export function traitsOf(schema: v.GenericSchema): ValueTraits {
  return v.getMetadata(schema) as unknown as ValueTraits;
}

export interface SettingRow {
  /** What a value of config.yaml must be, and what it becomes; its metadata are {@linkcode ValueTraits}. */
  value: v.GenericSchema;
  /** The default, as the file would have it. */
  built_in: string | number | boolean | readonly never[] | Readonly<Record<string, never>>;
  env?: string;
  /** The default where XDG_RUNTIME_DIR is this user's alone: a path below it. */
  in_runtime_dir?: string;
  /** The value of the variable's text, where it is not read like the file's; undefined: it does not count. */
  fromEnv?: (text: string) => boolean | undefined;
  /** Whether two resolutions that differ in it diverge; true except where the broker listens. */
  compared?: false;
  /** Whether no message shows the value, because people paste secrets here by mistake. */
  secret?: true;
  /** One or two sentences, without backquotes. */
  doc: string;
  /** Lines of YAML that show its use, for the seeded file. */
  example?: readonly string[];
}

/** A check whose message depends on the value; `fault` returns undefined for a value that is allowed. */
export function check<T>(fault: (value: T) => string | undefined): v.RawCheckAction<T> {
  return v.rawCheck(({ dataset, addIssue }) => {
    const message = dataset.typed ? fault(dataset.value) : undefined;
    if (message !== undefined) addIssue({ message });
  });
}

/** The error that `parse` throws for a value it refuses; undefined when it accepts. */
export function faultOf(parse: () => unknown): TaskdError | undefined {
  try {
    parse();
  } catch (error) {
    if (error instanceof TaskdError) return error;
    throw error;
  }
  return undefined;
}

export function withHint(rule: string, hint: string | undefined): string {
  return hint === undefined ? rule : `${rule}\n${hint}`;
}

export function text(rule: string, hint?: string) {
  return v.pipe(
    v.string(({ input }) => withHint(["number", "boolean"].includes(typeof input) ? `${rule}, in quotes` : rule, hint)),
    v.check(
      // deno-lint-ignore no-control-regex
      (value) => !/[\u0000-\u001f\u007f]/.test(value) && value.isWellFormed(),
      "must have no control characters",
    ),
  );
}

export function textLike(pattern: RegExp, { type, rule, hint }: { type: string; rule: string; hint?: string }) {
  return v.pipe(text(rule, hint), v.regex(pattern, withHint(rule, hint)), v.metadata({ type }));
}

export const MODEL = textLike(/^(?:[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199})?$/, {
  type: "text",
  rule: "must be a model's id: at most 200 of A-Z a-z 0-9 . _ : / @ + -",
});

export function choice<T extends string>(words: readonly T[], aliases: ReadonlyMap<string, T> = new Map()) {
  const rule = `must be one of ${words.join(", ")}`;
  return v.pipe(
    text(rule),
    v.transform((word) => aliases.get(word) ?? word),
    v.picklist(words, ({ input }) => {
      const guess = nearest(String(input), words);
      return withHint(rule, guess && `Did you mean ${guess}?`);
    }),
    v.metadata({ type: words.map((word) => `\`${word}\``).join(", ") }),
  );
}

export function integer(
  minimum: number,
  maximum: number,
  rule = `must be a whole number from ${minimum} to ${maximum}`,
) {
  return v.pipe(
    v.number(rule),
    v.safeInteger(rule),
    v.minValue(minimum, rule),
    v.maxValue(maximum, rule),
    v.metadata({ type: `whole number, ${minimum}-${maximum}` }),
  );
}

/** A whole number from 0; one above `maximum` counts as `maximum`. */
export function cappedInteger(maximum: number) {
  const rule = "must be a whole number, 0 or more";
  return v.pipe(
    v.number(rule),
    v.integer(rule),
    v.minValue(0, rule),
    v.transform((value) => Math.min(maximum, value)),
    v.metadata({ type: `whole number, capped at ${maximum}` }),
  );
}

export function decimal(unit: string, maximum: number, rule = `must be a number from 0 to ${maximum}`) {
  return v.pipe(
    v.number(rule),
    v.minValue(0, rule),
    v.maxValue(maximum, rule),
    v.metadata({ type: `${unit}, 0-${maximum}` }),
  );
}

export const SWITCH = v.pipe(v.boolean("must be true or false"), v.metadata({ type: "`true`, `false`" }));

/** The longest wait: timers of the runtime count milliseconds in 31 bits and would fire at once beyond 24.8 days. */
export const MAX_WAIT = "24d";
/** The longest window, and the longest wait that is made in pieces: ten years. */
export const MAX_WINDOW = "3650d";

interface DurationOptions {
  maximum: string;
  minimum?: string;
  /** The value of zero, where that is not zero. */
  zero_means?: string;
}

export function duration({ maximum, minimum, zero_means = "0" }: DurationOptions) {
  const bounds = minimum === undefined ? `of at most ${maximum}` : `from ${minimum} to ${maximum}, or 0`;
  const rule = `must be a duration ${bounds}`;
  const [least_ms, most_ms, zero_ms] = [minimum ?? "0", maximum, zero_means].map(parseDuration) as [
    number,
    number,
    number,
  ];
  return v.pipe(
    v.union([v.string(), v.number()], rule),
    v.transform(String),
    check((text) => {
      const fault = faultOf(() => parseDuration(text));
      if (fault) return withHint(rule, fault.hint);
      const value_ms = parseDuration(text);
      return value_ms !== 0 && (value_ms < least_ms || value_ms > most_ms) ? rule : undefined;
    }),
    v.transform((text) => parseDuration(text) || zero_ms),
    v.metadata({
      type: minimum === undefined ? `duration, at most ${maximum}` : `duration, ${minimum}-${maximum}, or 0`,
      show: formatExact,
    }),
  );
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

export function list<T>(item: v.GenericSchema<unknown, T>, rule: string, limit: number) {
  return v.pipe(v.array(item, rule), v.maxLength(limit, `must have at most ${limit} entries`));
}

/** Text keys with values; `__proto__` and `constructor` are keys like any other. */
export function mapOf<T>(key: v.GenericSchema<unknown, string>, value: v.GenericSchema<unknown, T>, rule: string) {
  return v.pipe(
    v.custom<Record<string, unknown>>(isMap, rule),
    v.transform((map) => new Map<unknown, unknown>(Object.entries(map))),
    v.map(key, value),
    v.transform((map: Map<string, T>): Record<string, T> =>
      Object.assign(Object.create(null), Object.fromEntries(map))
    ),
  );
}

/** Fields with names of their own; an unknown one is refused with a guess. */
export function fields<E extends v.ObjectEntries>(entries: E, rule: string) {
  const known = Object.keys(entries);
  return v.pipe(
    v.custom<Record<string, unknown>>(isMap, rule),
    v.strictObject(entries, ({ expected, input }) => {
      if (expected !== "never") return rule;
      return withHint("must be a setting", secretHint(String(input)) ?? nameHint(String(input), known));
    }),
  );
}

function isMap(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function nameHint(key: string, known: readonly string[]): string {
  const guess = nearest(key, known);
  // All of the top level would fill a page.
  const all = known.length > 12
    ? "the file that `taskd init` writes lists every setting"
    : `Known here: ${known.join(", ")}`;
  return guess === undefined ? all : `Did you mean ${guess}? ${all}`;
}

function secretHint(key: string): string | undefined {
  if (key === "vendor_c_auth") return "agent_c has no subscription mode: only its key, VENDORC_API_KEY, pays for it";
  if (!/(?:api_?key|secret|token|password)s?$/i.test(key)) return undefined;
  return "Keys are not kept in configuration: put them into ~/.taskd/api-keys.env (mode 0600) or the environment";
}
