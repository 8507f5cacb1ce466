/**
 * The traces in an audit directory as the ledger sees them: that one exists proves that a task was started, and its last
 * change when that was at the latest. What is in it is read for a task alone whose end the ledger does not have.
 */

import { lstatIfPresent, withFileError } from "../../lib/fs.ts";
import { readRecord, traceIds } from "../task/task_index.ts";
import { tracePath } from "../task/trace.ts";

export interface TraceFile {
  task_id: string;
  /** Its last change by the file system's account, in milliseconds since 1970. */
  changed_ms: number;
  /** What it says was spent, in USD; null when it cannot be followed. */
  spent_usd(): number | null;
}

/**
 * Every trace under an id that the broker may have minted.
 *
 * @throws {TaskdError} `denied` or `unavailable`; a directory that is not there has none.
 */
export function* traceFiles(audit_root: string): Generator<TraceFile> {
  for (const task_id of traceIds(audit_root)) {
    const path = tracePath(audit_root, task_id);
    const info = withFileError(`Cannot inspect ${path}`, () => lstatIfPresent(path));
    // Otherwise pruned meanwhile.
    if (info === undefined) continue;
    yield {
      task_id,
      changed_ms: info.mtime?.getTime() ?? Infinity,
      spent_usd: () => spentUsd(audit_root, task_id),
    };
  }
}

function spentUsd(audit_root: string, task_id: string): number | null {
  try {
    return readRecord(audit_root, task_id).record.spend?.usd ?? 0;
  } catch {
    // The broker reports a trace that it cannot follow.
    return null;
  }
}
