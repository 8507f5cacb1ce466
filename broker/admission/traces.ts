/**
 * The traces in an audit directory as mere files: that one exists proves that a task was
 * started, and when it was last written, when that was at the latest. What is in it is
 * not read.
 */

import { fileError, fileErrorCode, lstatIfPresent } from "../../lib/fs.ts";
import { isTaskId } from "../task/ids.ts";

const SUFFIX = ".jsonl";

/** A trace, from outside. */
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
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync(audit_root)];
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return;
    throw fileError(error, `Cannot read ${audit_root}`);
  }
  for (const { name } of entries) {
    const task_id = name.slice(0, -SUFFIX.length);
    if (!name.endsWith(SUFFIX) || !isTaskId(task_id)) continue;
    const path = `${audit_root}/${name}`;
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
