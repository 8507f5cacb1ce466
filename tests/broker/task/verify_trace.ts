/** Whether a trace on the disk is what was written, without a store around it. */

import { readRecord } from "../../../broker/task/task_index.ts";
import { DamagedTrace, type TraceHead, type Verdict } from "../../../broker/task/trace.ts";

/** `known` is a head that was noted elsewhere. */
export function verifyTrace(audit_root: string, id: string, known?: TraceHead): Verdict {
  try {
    return { intact: true, head: readRecord(audit_root, id, { known }).head };
  } catch (error) {
    if (error instanceof DamagedTrace) return { intact: false, fault: error.fault };
    throw error;
  }
}
