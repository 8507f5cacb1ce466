/**
 * Resolves the broker's configuration, once and whole: for each setting the environment
 * before config.yaml before the built-in default. What comes out is checked and closed;
 * what breaks a rule is refused with its place.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { TaskdError } from "../../lib/errors.ts";
import type { EgressList } from "../egress/rules.ts";
import { checkTogether } from "./_cross_checks.ts";
import { parseEgress } from "./egress_file.ts";
import { InvalidConfig, type Place } from "./invalid.ts";
import { asMap, type Json, type SettingsEnvironment, unknownKey } from "./kinds.ts";
import { builtInNode, envNode, type MapEntry, type Node, parseNodes, ROOT } from "./nodes.ts";
import { PATH } from "./places.ts";
import { type ReadFile, readPrivateFile } from "./private_file.ts";
import { GROUPS, SETTING_PATHS, type SettingPath, type SettingRow, SETTINGS, type Settings } from "./settings.ts";

/** Where a setting's value comes from. */
export type Source = "default" | "config.yaml" | `env:${string}`;

/** A row of the explanation that stands for no single setting: where the egress list is, and what it allows. */
const EGRESS_FIELD = "egress_config";

/** The variable that names another egress list. */
export const EGRESS_VARIABLE = "EGRESS_CONFIG";

/** What a setting came to. */
export interface Field {
  setting: SettingPath | typeof EGRESS_FIELD;
  /** As it would be written: durations as text. Never a secret. */
  value: Json;
  source: Source;
}

/** What loading needs. */
export interface LoadOptions {
  /** The user's home directory, absolute. */
  home: string;
  /** A variable of the environment; an empty one counts as not set. */
  env: (name: string) => string | undefined;
  /** The user's number; by default the process's. */
  uid?: number;
  /** Reads a file; by default from the disk, with its checks. */
  read?: ReadFile;
}

/** Configuration as it holds from now on. */
export interface ResolvedSettings {
  settings: Settings;
  egress: EgressList;
  sources: ReadonlyMap<Field["setting"], Source>;
  /** Every setting in the order of the table, and the egress list. */
  fields(): Field[];
  /** SHA-256 in hex of what must be equal for two resolutions to be in sync. */
  hash: string;
}

/** The user's directory of the product. */
export function taskdHome(home: string): string {
  return `${home}/.taskd`;
}

/**
 * Resolves everything.
 *
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
  const temporary = env("TMPDIR");
  const around: SettingsEnvironment = {
    home: home.replace(/(?<=.)\/+$/, ""),
    temporary: temporary?.startsWith("/") ? temporary.replace(/\/+$/, "") : "/tmp",
    uid: options.uid ?? Deno.uid() ?? 0,
  };
  const file = `${taskdHome(around.home)}/config.yaml`;
  const given = readGiven(parseNodes(file, await read(file, "own") ?? ""));
  const sources = new Map<Field["setting"], Source>();
  const places = new Map<SettingPath, Place>();
  const values = new Map<SettingPath, unknown>();
  for (const path of SETTING_PATHS) {
    const { value, place, source } = resolve(path, SETTINGS[path] as SettingRow<unknown>, { given, env, around });
    values.set(path, value);
    places.set(path, place);
    sources.set(path, source);
  }
  const settings = assemble(values);
  checkTogether(settings, (path) => places.get(path)!);
  const list = await loadEgress(env, around, read);
  sources.set(EGRESS_FIELD, list.source);
  const fields = () => [...SETTING_PATHS.map((path) => fieldOf(path, values.get(path), sources)), list.field];
  return { settings, egress: list.egress, sources, fields, hash: hashFields(fields()) };
}

/** What the file gives, by path; keys that no setting has are refused. */
function readGiven(root: Node): Map<string, Node> {
  const given = new Map<string, Node>();
  const take = (entries: readonly MapEntry[], group: string) => {
    const prefix = group === ROOT ? "" : `${group}.`;
    const names = SETTING_PATHS.filter((path) => path.startsWith(prefix)).map((path) =>
      path.slice(prefix.length).split(".")[0]!
    );
    for (const { key, key_place, value } of entries) {
      if (!names.includes(key)) throw unknownKey(key, [...new Set(names)], group, key_place);
      // An empty value is one that was not given.
      if (value.kind === "scalar" && value.value === null) continue;
      const isGroup = group === ROOT && GROUPS.some((name) => name === key);
      if (isGroup) take(asMap(value, "must be a map of settings"), key);
      else given.set(prefix + key, value);
    }
  };
  take(asMap(root, "must be a map of settings"), ROOT);
  return given;
}

interface Inputs {
  given: ReadonlyMap<string, Node>;
  env: (name: string) => string | undefined;
  around: SettingsEnvironment;
}

function resolve<T>(path: SettingPath, row: SettingRow<T>, { given, env, around }: Inputs) {
  const text = row.env === undefined ? undefined : env(row.env);
  const fromFile = given.get(path);
  // Also when a variable overrides it: what is wrong in the file is told on the day it is written.
  const inFile = fromFile && { value: row.kind.read(fromFile, around), place: fromFile.place };
  if (row.env !== undefined && text !== undefined && text !== "") {
    const place: Place = { env: row.env };
    const value = row.fromEnv ? row.fromEnv(text) : row.kind.read(envNode(path, row.env, text), around);
    if (value !== undefined) return { value, place, source: `env:${row.env}` as const };
  }
  if (inFile) return { ...inFile, source: "config.yaml" as const };
  const node = builtInNode(path, row.built_in);
  return { value: row.kind.read(node, around), place: node.place, source: "default" as const };
}

/** The nested form; the table's type makes sure that every path has a value of its own type. */
function assemble(values: ReadonlyMap<SettingPath, unknown>): Settings {
  const settings: Record<string, unknown> = {};
  for (const group of GROUPS) settings[group] = {};
  for (const [path, value] of values) {
    const [group, name] = path.split(".");
    if (name === undefined) settings[path] = value;
    else (settings[group!] as Record<string, unknown>)[name] = value;
  }
  return settings as unknown as Settings;
}

function fieldOf(path: SettingPath, value: unknown, sources: ReadonlyMap<string, Source>): Field {
  const { kind } = SETTINGS[path] as SettingRow<unknown>;
  return { setting: path, value: kind.show(value), source: sources.get(path)! };
}

async function loadEgress(env: Inputs["env"], around: SettingsEnvironment, read: ReadFile) {
  const variable = env(EGRESS_VARIABLE) || undefined;
  const path = variable === undefined
    ? `${taskdHome(around.home)}/egress.yaml`
    : PATH.read(envNode(EGRESS_FIELD, EGRESS_VARIABLE, variable), around);
  const text = await read(path, "own");
  if (text === undefined && variable !== undefined) {
    // A path that somebody chose and that leads nowhere is a mistake, not an empty list.
    throw new InvalidConfig(EGRESS_FIELD, { env: EGRESS_VARIABLE }, `must name a file: ${path} does not exist`);
  }
  const egress = parseEgress(path, text ?? "");
  const allow = egress.entries.map(({ host, ports }) => `${host}:${ports.join(",")}`);
  const source: Source = variable === undefined ? "default" : `env:${EGRESS_VARIABLE}`;
  return { egress, source, field: { setting: EGRESS_FIELD, value: { path, allow }, source } satisfies Field };
}

/** Whether two resolutions that differ in a field diverge. */
export function isCompared(setting: string): boolean {
  return !Object.hasOwn(SETTINGS, setting) || SETTINGS[setting as SettingPath].compared !== false;
}

/** SHA-256 in hex over the compared fields, whatever their order; where a value comes from does not count. */
function hashFields(fields: readonly Field[]): string {
  const compared = fields.filter(({ setting }) => isCompared(setting));
  return createHash("sha256").update(
    canonicalJson(Object.fromEntries(compared.map(({ setting, value }) => [setting, value]))),
  ).digest("hex");
}

/** JSON with the keys of every object sorted: equal values have equal texts. */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key]!)}`);
  return `{${members.join(",")}}`;
}
