/**
 * The command `taskd session status`.
 *
 * @module
 */

import type { SessionInfo } from "../../lib/protocol/messages.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textTable } from "../text/text_table.ts";
import { branchName } from "./_result_text.ts";

/** The open sessions. */
export interface SessionsResult {
  sessions: SessionInfo[];
}

/** Lists them. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<SessionsResult> {
  const { sessions } = await ops.call("status", args.optional("branch") === undefined ? {} : args.address("branch"));
  return { sessions };
}

/** A table. */
export async function render(result: SessionsResult, io: Io): Promise<string> {
  if (result.sessions.length === 0) return "No session is open";
  const rows = result.sessions.map((session) => [
    branchName(session),
    session.state,
    known(session.durable_txid, String),
    known(session.durable_age_seconds, (seconds) => formatDuration(seconds * 1_000)),
    known(session.capture_lag_bytes, formatBytes),
    known(session.wal_bytes, formatBytes),
    session.error?.message ?? session.checkout ?? "",
  ]);
  const head = ["BRANCH", "STATE", "TXID", "AGE", "LAG", "WAL", "CHECKOUT"];
  return await textTable(rows, { head, right: [2, 3, 4, 5], names: [0, 6], columns: io.columns });
}

function known(value: number | undefined, show: (value: number) => string): string {
  return value === undefined ? "-" : show(value);
}
