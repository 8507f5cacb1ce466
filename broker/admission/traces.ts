/**
 * The traces in an audit directory as mere files: that one exists proves that a task was started, and its last change
 * when that was at the latest. What is in it is not read.
 */

import { fileError, lstatIfPresent } from "../../lib/fs.ts";
import { traceIds } from "../task/task_index.ts";
import { tracePath } from "../task/trace.ts";

export interface TraceFile {
  task_id: string;
  /** Its last change by the file system's account, in milliseconds since 1970. */
  changed_ms: number;
}

/**
 * Every trace under an id that the broker may have minted.
 *
 * @throws {TaskdError} `denied` or `unavailable`; a directory that is not there has none.
 */
export function* traceFiles(audit_root: string): Generator<TraceFile> {
  for (const task_id of traceIds(audit_root)) {
    const path = tracePath(audit_root, task_id);
    let info: Deno.FileInfo | undefined;
    try {
      info = lstatIfPresent(path);
    } catch (error) {
      throw fileError(error, `Cannot inspect ${path}`);
    }
    // Otherwise pruned meanwhile.
    if (info !== undefined) yield { task_id, changed_ms: info.mtime?.getTime() ?? Infinity };
  }
}
