/**
 * The body of a request as a closed type: JSON in UTF-8 of a bounded size that can be read
 * in one way only, with known fields alone. What is wrong with it is named.
 */

import * as v from "valibot";
import type { Clock } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import { TaskdError } from "../../lib/errors.ts";
import { readBounded } from "../../lib/http/body.ts";
import { requireJsonType } from "../../lib/http/browser_guard.ts";
import type { RequestConnection } from "../../lib/http/node_messages.ts";
import { RequestRefused } from "../../lib/http/request_refused.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { InvalidJson, parseStrictJson } from "../../lib/text/strict_json.ts";
import { MAX_BODY_BYTES } from "../api/wire.ts";

export type BodySchema = v.StrictObjectSchema<v.ObjectEntries, undefined>;

export interface ReadOptions {
  connection: RequestConnection;
  clock: Clock;
  deadline_ms: number;
  /** No body at all is an empty object. */
  optional?: boolean;
}

/**
 * Reads the body that `schema` describes.
 *
 * @throws {TaskdError} `invalid_request`, `too_large` or `timed_out`, with the status 400, 408, 413 or 415.
 */
export async function readBody<S extends BodySchema>(
  request: Request,
  schema: S,
  options: ReadOptions,
): Promise<v.InferOutput<S>> {
  const bytes = await readBytes(request, options);
  if (bytes.length === 0 && options.optional === true) return parsed({}, schema);
  requireJsonType(request);
  return parsed(parseStrict(bytes), schema);
}

async function readBytes(request: Request, { connection, clock, deadline_ms }: ReadOptions): Promise<Uint8Array> {
  if (request.body === null) return new Uint8Array();
  let bytes: Uint8Array | undefined;
  try {
    bytes = await withDeadline(readBounded(request, MAX_BODY_BYTES), clock, deadline_ms);
  } catch (error) {
    connection.last();
    const late = error instanceof DOMException && error.name === "TimeoutError";
    const [status, code, problem] = late
      ? [408, "timed_out", "it does not arrive"] as const
      : [400, "invalid_request", "it broke off"] as const;
    throw new RequestRefused(status, code, `Cannot take the body: ${problem}`, { cause: error });
  }
  if (bytes !== undefined) return bytes;
  throw new TaskdError("too_large", `Cannot take the body: it has more than ${MAX_BODY_BYTES} bytes`);
}

function parseStrict(bytes: Uint8Array): unknown {
  try {
    return parseStrictJson(bytes);
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    throw new TaskdError("invalid_request", `The body ${error.message}`);
  }
}

function parsed<S extends BodySchema>(value: unknown, schema: S): v.InferOutput<S> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TaskdError("invalid_request", "Cannot take the body: it is not a JSON object");
  }
  const known = Object.keys(schema.entries);
  // First: a misspelled field is a missing one too, and saying that would not help.
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown !== undefined) throw unknownField(unknown, known);
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue) ?? "the body";
  const problem = issue.received === "undefined"
    ? "is missing"
    : `is wrong: ${sanitizeLine(issue.message.slice(0, 300))}`;
  throw new TaskdError("invalid_request", `Cannot take the body: ${JSON.stringify(path.slice(0, 200))} ${problem}`);
}

function unknownField(name: string, known: readonly string[]): TaskdError {
  const guess = nearest(name, known);
  const shown = JSON.stringify(name.slice(0, 200));
  return new TaskdError("invalid_request", `Cannot take the body: it has the unknown field ${shown}`, {
    hint: guess === undefined ? `Its fields are: ${known.join(", ")}` : `Did you mean ${JSON.stringify(guess)}?`,
  });
}
