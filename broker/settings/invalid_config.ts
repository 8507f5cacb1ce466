/**
 * The error for configuration that cannot be used: where it stands, what it is and the rule it breaks.
 */

import { TaskdError } from "../../lib/errors.ts";
import { escapeJson, sanitizeLine } from "../../lib/text/sanitize.ts";

export type ConfigPlace =
  /** A file; both numbers count from 1. */
  | { file: string; line: number; column: number }
  | { env: string }
  | { built_in: true };

export interface InvalidConfigOptions {
  hint?: string | undefined;
  /** What is shown of the value; absent when the value may be a secret. */
  shown?: string | undefined;
}

export class InvalidConfig extends TaskdError {
  override name = "InvalidConfig";
  /** Dotted path of the setting, with the keys and indices below it. */
  readonly setting: string;
  readonly place: ConfigPlace;
  /** The rule, beginning with "must". */
  readonly rule: string;

  constructor(setting: string, place: ConfigPlace, rule: string, options: InvalidConfigOptions = {}) {
    const name = cut(sanitizeLine(setting), 200);
    const what = options.shown === undefined ? name : `${name} is ${options.shown}, and`;
    super("invalid_config", `Cannot use ${describePlace(place)}: ${what} ${rule}`, {
      hint: options.hint ?? fallbackHint(place),
    });
    this.setting = setting;
    this.place = place;
    this.rule = rule;
  }
}

/** A place for people: `/home/me/.taskd/config.yaml:3:12`, or the variable's name. */
export function describePlace(place: ConfigPlace): string {
  if ("file" in place) return `${place.file}:${place.line}:${place.column}`;
  return "env" in place ? `the environment variable ${place.env}` : "the built-in default";
}

function fallbackHint(place: ConfigPlace): string {
  return "env" in place
    ? `Change or unset ${place.env}, then start again`
    : "Edit the file, then start again; `taskd init` writes one that explains every setting where there is none";
}

/** At most 100 characters of `text`, quoted and safe to print on a terminal. */
export function quoteText(text: string): string {
  return escapeJson(JSON.stringify(cut(text, 100).toWellFormed()));
}

/**
 * What a message shows of a value: undefined for text that may hold a secret, such as a URL with credentials.
 *
 * @param source The value as it is written, for a number or a boolean.
 */
export function describeValue(value: unknown, source = String(value)): string | undefined {
  if (value === null) return "empty";
  if (typeof value === "object") return Array.isArray(value) ? "a list" : "a map";
  if (typeof value !== "string") return quoteText(source).slice(1, -1);
  return value.includes("@") || /:\/\/.*[?#]/.test(value) ? undefined : quoteText(value);
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
