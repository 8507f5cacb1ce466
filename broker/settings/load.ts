/**
 * Resolves the broker's configuration once, as a whole: for each setting the environment before config.yaml before the
 * built-in default. The result is checked; a value that breaks a rule is refused with its place.
 */

import * as v from "valibot";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { requireTrusted } from "../../lib/trusted_path.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import type { EgressList } from "../egress/egress_rules.ts";
import { parseEgress } from "./egress_file.ts";
import { type ConfigPlace, describeValue, InvalidConfig } from "./invalid_config.ts";
import { PATH } from "./path_and_url_schemas.ts";
import { type ReadFile, readPrivateFile } from "./private_file.ts";
import { checkPairs } from "./setting_pairs.ts";
import { GROUPS, SETTING_PATHS, type SettingPath, SETTINGS, type Settings } from "./settings.ts";
import { fields, type ShownValue, traitsOf } from "./value_schemas.ts";
import { YamlFile } from "./yaml_file.ts";

export type SettingSource = "default" | "config.yaml" | `env:${string}`;

/** The row of `policy explain` for the egress list: its path, and what it allows. */
export const EGRESS_FIELD = "egress_config";

export const EGRESS_VARIABLE = "EGRESS_CONFIG";
export const RUNTIME_DIR_VARIABLE = "XDG_RUNTIME_DIR";

export interface ResolvedSetting {
  setting: SettingPath | typeof EGRESS_FIELD;
  /** As it would be written: durations as text. Never a secret. */
  value: ShownValue;
  source: SettingSource;
}

export interface LoadOptions {
  /** The user's home directory, absolute. */
  home: string;
  /** A variable of the environment; an empty one counts as not set. */
  env: (name: string) => string | undefined;
  uid?: number;
  /** Reads a file; by default from the disk, with its checks. */
  read?: ReadFile;
}

export interface ResolvedSettings {
  settings: Settings;
  egress: EgressList;
  sources: ReadonlyMap<ResolvedSetting["setting"], SettingSource>;
  /** Every setting in the order of the table, and the egress list. */
  fields(): ResolvedSetting[];
  /** SHA-256 in hex of what must be equal for two resolutions to be in sync. */
  hash: string;
}

export function taskdHome(home: string): string {
  return `${home}/.taskd`;
}

/**
 * @throws {InvalidConfig} with file, line and column, or the variable; {@linkcode TaskdError} `denied` or `unavailable`
 * when a file cannot be read.
 */
export async function loadSettings(options: LoadOptions): Promise<ResolvedSettings> {
  const { home, env, read = readPrivateFile } = options;
  if (!home.startsWith("/")) {
    throw new TaskdError("invalid_config", "Cannot load the settings: there is no home directory", {
      hint: "Set HOME to an absolute path",
    });
  }
  const directory = home.replace(/(?<=.)\/+$/, "");
  const expand = pathExpander(directory, options);
  const path = `${taskdHome(directory)}/config.yaml`;
  const given = readGiven(new YamlFile(path, await read(path, "own") ?? ""), expand);
  const resolved = new Map(SETTING_PATHS.map((path) => [path, resolve(path, { given, env, expand })]));
  // Each value was checked by its own row, of which `Settings` is made: the compiler does not follow the paths.
  const settings = nest([...resolved].map(([path, { value }]) => [path, value])) as unknown as Settings;
  checkPairs(settings, (path) => resolved.get(path)!.place);
  const list = await loadEgress(env, { directory, expand, read });
  const rows: ResolvedSetting[] = [...resolved].map(([setting, { value, source }]) => {
    const { show } = traitsOf(SETTINGS[setting].value);
    return { setting, value: show ? show(value as never) : value as ShownValue, source };
  });
  rows.push(list.row);
  const sources = new Map(rows.map(({ setting, source }) => [setting, source]));
  const compared = rows.filter(({ setting }) => isCompared(setting)).map(({ setting, value }) => [setting, value]);
  const hash = sha256Hex(canonicalJson(Object.fromEntries(compared)));
  return { settings, egress: list.egress, sources, fields: () => rows, hash };
}

/** Replaces `~/`, `$TMPDIR/` and `$UID`. */
type Expand = (path: string) => string;

function pathExpander(directory: string, { env, uid = Deno.uid() ?? 0 }: LoadOptions): Expand {
  const variable = env("TMPDIR");
  const temporary = variable?.startsWith("/") ? variable.replace(/\/+$/, "") : "/tmp";
  return (path) =>
    path.replace(/^~(?=\/)/, () => directory).replace(/^\$TMPDIR(?=\/)/, () => temporary)
      .replaceAll("$UID", String(uid));
}

interface GivenSetting {
  value: unknown;
  place: ConfigPlace;
}

function readGiven(file: YamlFile, expand: Expand): Map<SettingPath, GivenSetting> {
  const rule = "must be a map of settings";
  // An empty value counts as not given.
  const schemas = nest(
    SETTING_PATHS.map((path) => [path, v.nullish(expanding(SETTINGS[path].value, expand))] as const),
  );
  for (const group of GROUPS) schemas[group] = v.nullish(fields(schemas[group] as v.ObjectEntries, rule));
  const secret = SETTING_PATHS.filter((path) => SETTINGS[path].secret);
  const values: Record<string, unknown> = file.check(fields(schemas as v.ObjectEntries, rule), secret);
  const given = new Map<SettingPath, GivenSetting>();
  for (const path of SETTING_PATHS) {
    const steps = path.split(".");
    const value = steps.reduce<unknown>((group, name) => (group as Record<string, unknown> | null)?.[name], values);
    if (value !== undefined && value !== null) given.set(path, { value, place: file.placeOf(steps) });
  }
  return given;
}

function expanding(schema: v.GenericSchema, expand: Expand): v.GenericSchema {
  if (!traitsOf(schema).is_path) return schema;
  const expanded = (value: unknown) => typeof value === "string" ? expand(value) : value;
  const all = (value: unknown) => Array.isArray(value) ? value.map(expanded) : expanded(value);
  return v.pipe(v.unknown(), v.transform(all), schema);
}

/** One object of values by dotted path: `a.b` becomes `{ a: { b } }`. */
function nest<T>(values: readonly (readonly [string, T])[]): Record<string, T | Record<string, T>> {
  const nested: Record<string, T | Record<string, T>> = {};
  for (const [path, value] of values) {
    const [group = "", name] = path.split(".");
    nested[group] = name === undefined ? value : { ...nested[group], [name]: value };
  }
  return nested;
}

interface ResolveInputs {
  given: ReadonlyMap<SettingPath, GivenSetting>;
  env: LoadOptions["env"];
  expand: Expand;
}

function resolve(path: SettingPath, { given, env, expand }: ResolveInputs): GivenSetting & { source: SettingSource } {
  const row = SETTINGS[path];
  const schema = expanding(row.value, expand);
  const text = row.env === undefined ? "" : env(row.env) ?? "";
  if (row.env !== undefined && text !== "") {
    const place = { env: row.env };
    const isNumber = typeof row.built_in === "number" && NUMBER_TEXT.test(text);
    const value = row.fromEnv ? row.fromEnv(text) : checkValue(schema, isNumber ? Number(text) : text, { path, place });
    if (value !== undefined) return { value, place, source: `env:${row.env}` };
  }
  const in_file = given.get(path);
  if (in_file) return { ...in_file, source: "config.yaml" };
  const place = { built_in: true } as const;
  const runtime_dir = row.in_runtime_dir === undefined ? undefined : ownRuntimeDir(env);
  const built_in = runtime_dir === undefined ? row.built_in : `${runtime_dir}/${row.in_runtime_dir}`;
  return { value: checkValue(schema, built_in, { path, place }), place, source: "default" };
}

/** XDG_RUNTIME_DIR where it is what its specification asks for, this user's alone. */
function ownRuntimeDir(env: LoadOptions["env"]): string | undefined {
  const path = env(RUNTIME_DIR_VARIABLE)?.replace(/(?<=.)\/+$/, "");
  if (!path?.startsWith("/")) return undefined;
  try {
    return requireTrusted(path, "socket_directory") && path;
  } catch (error) {
    if (hasCode(error, "denied")) return undefined;
    throw error;
  }
}

/** A number as a variable holds it; other notations, such as `1_0` or `0x10`, are refused. */
const NUMBER_TEXT = /^\d{1,15}(?:\.\d{1,15})?$/;

/** The value as `schema` makes it, where it does not come from a file. */
function checkValue<T>(
  schema: v.GenericSchema<unknown, T>,
  value: unknown,
  at: { path: string; place: ConfigPlace },
): T {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const [rule = "", hint] = result.issues[0].message.split("\n", 2);
  const shown = describeValue(typeof value === "number" ? String(value) : value);
  throw new InvalidConfig(at.path, at.place, rule, { hint, shown });
}

interface EgressOptions {
  directory: string;
  expand: Expand;
  read: ReadFile;
}

async function loadEgress(env: LoadOptions["env"], { directory, expand, read }: EgressOptions) {
  const variable = env(EGRESS_VARIABLE) || undefined;
  const place = { env: EGRESS_VARIABLE };
  const path = variable === undefined
    ? `${taskdHome(directory)}/egress.yaml`
    : checkValue(expanding(PATH, expand), variable, { path: EGRESS_FIELD, place }) as string;
  const text = await read(path, "own");
  if (text === undefined && variable !== undefined) {
    // A chosen path without a file is a mistake, not an empty list.
    throw new InvalidConfig(EGRESS_FIELD, place, `must name a file: ${path} does not exist`);
  }
  const egress = parseEgress(path, text ?? "");
  const allow = egress.entries.map(({ host, ports }) => `${host}:${ports.join(",")}`);
  const source: SettingSource = variable === undefined ? "default" : `env:${EGRESS_VARIABLE}`;
  return { egress, row: { setting: EGRESS_FIELD, value: { path, allow }, source } satisfies ResolvedSetting };
}

/** Whether two resolutions that differ in a setting diverge. */
export function isCompared(setting: string): boolean {
  return !Object.hasOwn(SETTINGS, setting) || SETTINGS[setting as SettingPath].compared !== false;
}
