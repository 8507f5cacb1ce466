/**
 * Writes to an S3 server that are decided exactly once. A server may answer 412 to a
 * repetition that it, or a proxy, made itself; 409 while two writers meet; or nothing at all.
 * So every write carries a random mark, and before a write counts as lost the object is
 * inspected: if it carries our mark the write succeeded, whatever the answer was.
 *
 * A write is repeated with the same condition and the same mark, so a first attempt that
 * arrives late cannot undo anything: whichever attempt comes second fails its condition.
 */

import { BackendError } from "./backend.ts";
import { codeOf, failureError, S3Failure } from "./_s3_failure.ts";
import type { Condition, S3Head, S3Objects } from "./_s3_objects.ts";

/**
 * From this age on a placeholder may be overwritten: no request to delete it
 * is under way any more. Far above every deadline of such a request.
 */
const GONE_AFTER_MS = 15 * 60_000;

export interface Write {
  key: string;
  /** Metadata of the object that it makes, and of no other. */
  mark: string;
  /** Without one, the write replaces what is there. */
  condition?: Condition;
}

/** MinIO also denies a write while a deletion removes the directory that it keeps the object in: that is temporary. */
const DENIED_REPEATS = 3;

/**
 * Makes a write with `attempt`, repeated while that is safe and may help.
 *
 * @returns The object's etag.
 * @throws {BackendError} `precondition_failed` only when no attempt of this call can have had an effect.
 */
export async function decide(
  objects: S3Objects,
  write: Write,
  attempt: (condition: Condition | undefined) => Promise<string>,
): Promise<string> {
  const { key, mark } = write;
  let { condition } = write;
  let unsure = false;
  for (let count = 1;; count++) {
    let failure: S3Failure;
    try {
      return await attempt(condition);
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error;
      failure = error;
    }
    unsure ||= failure.unsure;
    if (failure.unsure || isRefusal(failure)) {
      const found = await inspect(objects, key, failure);
      if (found?.mark === mark) return found.etag;
      if (condition === "new" && found?.gone) {
        condition = overGone(key, found, found.gone);
        continue;
      }
      if (failure.status === 412 || failure.status === 404) throw refused(failure, write, unsure);
    }
    const passing = failure.passing || (failure.reason === "AccessDenied" && count <= DENIED_REPEATS);
    if (!passing || !objects.calls.mayRepeat(count)) {
      throw failureError(failure, key, "write", unsure || failure.status === 409 ? "ambiguous" : codeOf(failure));
    }
    await objects.calls.pause(count);
  }
}

/** Whether the server answers that a condition does not hold, or that the upload to complete is gone. */
function isRefusal({ status, reason }: S3Failure): boolean {
  return status === 412 || status === 409 || (status === 404 && reason !== "NoSuchBucket");
}

async function inspect(objects: S3Objects, key: string, failure: S3Failure): Promise<S3Head | undefined> {
  try {
    return await objects.calls.repeated(() => objects.inspect(key));
  } catch (error) {
    if (!(error instanceof S3Failure)) throw error;
    const message = `Cannot write ${key}: ${failure.message}; and its result cannot be read: ${error.message}`;
    throw new BackendError("ambiguous", key, message, error);
  }
}

/** The error for the server's refusal; some refuse to replace a missing object with 404. */
function refused(failure: S3Failure, { key, condition }: Write, unsure: boolean): BackendError {
  if (unsure) return failureError(failure, key, "write", "ambiguous");
  if (condition === undefined) return failureError(failure, key, "write", "unavailable");
  return failureError(failure, key, "write", "precondition_failed");
}

/** The condition under which a placeholder may be overwritten. */
function overGone(key: string, found: S3Head, gone: { since_ms: number; now_ms: number }): Condition {
  if (gone.now_ms - gone.since_ms > GONE_AFTER_MS) return { if_match: found.etag };
  throw new BackendError("unavailable", key, `Cannot write ${key}: it is being deleted; try again later`);
}

/**
 * Deletes an object if its etag is that of the condition, also on a server that ignores the condition of a delete, or looks
 * and then deletes: a placeholder first replaces the object under the condition. From then on readers see nothing and
 * writers wait, so that deleting without a condition is safe. If the delete fails, the placeholder stays until the next
 * create overwrites it.
 */
export async function removeIfMatch(objects: S3Objects, write: Write & { condition: { if_match: string } }) {
  const { key, mark, condition } = write;
  const found = await objects.calls.repeated(() => objects.inspect(key));
  if (found === undefined || found.gone) throw missing(key);
  if (found.etag !== condition.if_match) throw new BackendError("precondition_failed", key, `${key} has another etag`);
  // The mark as its body, so that no two placeholders share an etag.
  const bytes = new TextEncoder().encode(mark);
  await decide(objects, write, (under) => objects.write(key, bytes, { condition: under!, mark, gone: true }));
  try {
    await objects.calls.repeated(() => objects.remove(key));
  } catch (error) {
    if (!(error instanceof S3Failure)) throw error;
  }
}

export function missing(key: string): BackendError {
  return new BackendError("not_found", key, `There is no object ${key}`);
}
