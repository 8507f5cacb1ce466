/**
 * What is wrong with configuration: where it stands, what it is and the rule it breaks.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import { escapeJson, sanitizeLine } from "../../lib/text/sanitize.ts";

/** Where a value comes from. */
export type Place =
  /** A file; both numbers count from 1. */
  | { file: string; line: number; column: number }
  /** A variable of the environment. */
  | { env: string }
  /** The table of settings itself. */
  | { built_in: true };

/** What goes with a refusal. */
export interface RefusalOptions {
  /** What to do about it. */
  hint?: string;
  /** What is shown of the value; absent when the value may be a secret. */
  shown?: string;
}

/** Configuration that cannot be used: code `invalid_config`. */
export class InvalidConfig extends TaskdError {
  /** Its name in stack traces. */
  override name = "InvalidConfig";
  /** Dotted path of the setting, with the keys and indices below it. */
  readonly setting: string;
  /** Where it stands. */
  readonly place: Place;
  /** The rule, beginning with "must". */
  readonly rule: string;

  /** Says that what stands at `place` for `setting` breaks `rule`. */
  constructor(setting: string, place: Place, rule: string, options: RefusalOptions = {}) {
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
export function describePlace(place: Place): string {
  if ("file" in place) return `${place.file}:${place.line}:${place.column}`;
  return "env" in place ? `the environment variable ${place.env}` : "the built-in default";
}

function fallbackHint(place: Place): string {
  return "env" in place
    ? `Change or unset ${place.env}, then start again`
    : "Edit the file, then start again; docs/reference/settings.md lists every setting";
}

/** At most 100 characters of what somebody wrote, quoted and harmless on a terminal. */
export function quoteText(text: string): string {
  return escapeJson(JSON.stringify(cut(text, 100).toWellFormed()));
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
