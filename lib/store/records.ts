/**
 * The small records of a store: JSON with a checksum (see `sealed_json.ts`), and tables of the versions that can be read.
 *
 * What was read is checked before it is believed, and read again when it is damaged: a bit may flip in the read. A record
 * without a checksum, as version 0.1.0 wrote them, counts once two reads agree. So nothing wrong is ever written back by
 * the compare-and-swap that follows.
 */

import * as v from "../packages/valibot.ts";
import type { Backend, ObjectBody } from "../backend/backend.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { correctSealed, sealJson, unsealJson } from "../sealed_json.ts";
import { parseStoredJson } from "./_json.ts";

/** Reads of a damaged record before it counts as damaged where it lies. */
const MAX_READS = 4;
const REPAIR_HINT = "`taskd repair` restores what can be proved";

type Schema<T> = v.GenericSchema<unknown, T>;

/** So many hex digits. */
export function hex(digits: number): Schema<string> {
  return v.pipe(v.string(), v.regex(new RegExp(`^[0-9a-f]{${digits}}$`)));
}

export const count: Schema<number> = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
/** ISO 8601 UTC. */
export const instant: Schema<string> = v.pipe(v.string(), v.isoTimestamp());

/** How a kind of record is read: by the version that its field `schema` names, or by one schema where it has none. */
export type RecordReader<T> = Schema<T> | { versions: Readonly<Record<number, Schema<T>>> };

export interface ParsedRecord<T> {
  value: T;
  /** Whether a checksum proves it. */
  sealed: boolean;
}

export function encodeRecord(value: object): Uint8Array {
  return new TextEncoder().encode(sealJson(JSON.stringify(value)));
}

/** `corrupt`, about the record `name`. */
export function damagedRecord(name: string, problem: string, cause?: unknown, hint = REPAIR_HINT): TaskdError {
  return new TaskdError("corrupt", `Cannot read ${name}: ${problem}`, { cause, hint });
}

/** Parses the record `name`; throws `corrupt`, or `unsupported_format` when a newer program wrote it. */
export function parseRecord<T>(bytes: Uint8Array, name: string, reader: RecordReader<T>): ParsedRecord<T> {
  let json: unknown;
  let sealed: boolean;
  try {
    const unsealed = unsealJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (unsealed === undefined) throw damagedRecord(name, "its checksum does not match");
    sealed = unsealed.sealed;
    json = parseStoredJson(unsealed.json);
  } catch (cause) {
    throw hasCode(cause, "corrupt") ? cause : damagedRecord(name, "it is not JSON", cause);
  }
  const schema = "versions" in reader ? schemaOf(reader.versions, json, name) : reader;
  const result = v.safeParse(schema, json);
  if (!result.success) {
    const issue = result.issues[0];
    throw damagedRecord(name, `${v.getDotPath(issue) ?? "it"}: ${issue.message}`);
  }
  const foreign = sealed ? undefined : Object.keys(json as object).find((key) => !(key in fieldsOf(schema)));
  if (foreign !== undefined) throw damagedRecord(name, "it has an unknown field, and no checksum");
  return { value: result.output, sealed };
}

function schemaOf<T>(versions: Readonly<Record<number, Schema<T>>>, json: unknown, name: string): Schema<T> {
  const version = typeof json === "object" && json !== null && "schema" in json ? json.schema : undefined;
  const known = Object.keys(versions).map(Number);
  if (typeof version === "number" && version > Math.max(...known)) {
    throw new TaskdError("unsupported_format", `Cannot read ${name}: its schema is ${version}`, {
      hint: "Use the newer program that wrote it",
    });
  }
  return versions[version as number] ?? versions[Math.max(...known)]!;
}

function fieldsOf(schema: v.GenericSchema): object {
  return "entries" in schema ? schema.entries as object : {};
}

/** Names where {@linkcode correctRecord} has a record from. */
export const OWN_BYTES = "its own bytes and checksum";

/** The record that damaged bytes were, where its checksum shows the one that differs. */
export function correctRecord<T>(damaged: Uint8Array, parse: (bytes: Uint8Array) => T): T | undefined {
  const bytes = correctSealed(damaged);
  try {
    return bytes && parse(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Reads a record of a store.
 *
 * @param parse As {@linkcode parseRecord}.
 * @throws {TaskdError} What `parse` throws, once it throws it for every read; a backend's errors as they are.
 */
export async function readRecord<T>(
  backend: Pick<Backend, "get">,
  key: string,
  parse: (bytes: Uint8Array) => ParsedRecord<T>,
): Promise<{ value: T; etag: string }> {
  let before: ObjectBody | undefined;
  let failure: unknown;
  for (let read = 0; read < MAX_READS; read++) {
    const body = await backend.get(key);
    try {
      const { value, sealed } = parse(body.bytes);
      if (sealed || before?.etag === body.etag && isEqual(before.bytes, body.bytes)) return { value, etag: body.etag };
      before = body;
    } catch (error) {
      if (!(error instanceof TaskdError)) throw error;
      failure = error;
    }
  }
  throw failure ?? damagedRecord(key, "each read gives something else");
}

export function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
