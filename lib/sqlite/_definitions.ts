/**
 * Differences of definitions and of the file's settings.
 */

import type { DefinitionDiff, SettingDiff } from "./diff_result.ts";
import { sameValue, showValue, type Value } from "./row_values.ts";
import type { Entry, Side } from "./side.ts";

/** Bytes of a definition that are shown. */
const SQL_BYTES = 256 << 10;

/** The entries of `sqlite_schema` that differ, byte for byte, where their trees begin aside. */
export function definitionDiffs(a: Side, b: Side): DefinitionDiff[] {
  const [before, after] = [named(a.entries), named(b.entries)];
  const diffs: DefinitionDiff[] = [];
  for (const key of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const [old, now] = [before.get(key), after.get(key)];
    if (old && now && old.values.every((value, i) => sameValue(value, now.values[i]!))) continue;
    const { type, name, table } = (now ?? old)!;
    const sql = (entry: Entry, other: Entry | undefined): Value[] => [entry.values[3]!, other?.values[3] ?? null];
    const show = ([value, other]: Value[]) => showValue(value!, { most: SQL_BYTES, other });
    diffs.push({
      type,
      name,
      table,
      ...(old && now && old.table !== now.table ? { table_before: old.table } : {}),
      change: old === undefined ? "added" : now === undefined ? "removed" : "changed",
      ...(old ? { before: show(sql(old, now)) } : {}),
      ...(now ? { after: show(sql(now, old)) } : {}),
    });
  }
  return diffs;
}

/** By what they define; a schema that was edited by hand may define it twice. */
function named(entries: readonly Entry[]): Map<string, Entry> {
  const found = new Map<string, Entry>();
  for (const entry of entries) {
    let key = `${entry.type}\0${entry.name}`;
    while (found.has(key)) key += "\0";
    found.set(key, entry);
  }
  return found;
}

/** Where the header has what; https://sqlite.org/fileformat2.html#the_database_header. What is left out follows from other parts. */
const SETTINGS: Readonly<Record<string, (header: DataView) => string | number>> = {
  page_size: (header) => header.getUint16(16) === 1 ? 65536 : header.getUint16(16),
  write_version: (header) => header.getUint8(18),
  read_version: (header) => header.getUint8(19),
  reserved_bytes: (header) => header.getUint8(20),
  schema_version: (header) => header.getUint32(40),
  schema_format: (header) => header.getUint32(44),
  default_cache_size: (header) => header.getInt32(48),
  auto_vacuum: (header) => header.getUint32(52) === 0 ? "none" : header.getUint32(64) === 0 ? "full" : "incremental",
  encoding: (header) => ["UTF-8", "UTF-8", "UTF-16le", "UTF-16be"][header.getUint32(56)] ?? header.getUint32(56),
  user_version: (header) => header.getInt32(60),
  application_id: (header) => header.getInt32(68),
  expansion: (header) => new Uint8Array(header.buffer, header.byteOffset + 72, 20).toHex(),
};

/** The settings that differ, and the order of triggers that both have, in which SQLite runs them. */
export function settingDiffs(a: Side, b: Side): SettingDiff[] {
  const diffs: SettingDiff[] = [];
  const add = (setting: string, before: string | number, after: string | number) => {
    if (before !== after) diffs.push({ setting, before: String(before), after: String(after) });
  };
  for (const [setting, read] of Object.entries(SETTINGS)) add(setting, read(a.file.header), read(b.file.header));
  const triggers = ({ entries }: Side, other: Side) => {
    const there = new Set(other.entries.filter(({ type }) => type === "trigger").map(({ name }) => name));
    return entries.filter(({ type, name }) => type === "trigger" && there.has(name)).map(({ name }) => name).join(", ");
  };
  add("trigger_order", triggers(a, b), triggers(b, a));
  return diffs;
}
