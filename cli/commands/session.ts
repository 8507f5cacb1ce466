/**
 * The commands of live sessions: session open, flush, status, close.
 */

import { formatBytes } from "../../lib/text/bytes.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { storeCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { branchName } from "./_result_text.ts";

/** Opens a session; prints the path of its file alone, so that a script can use it. */
export const open = storeCommand({
  async run(args, _io, ops) {
    return await ops.call("open", args.address("branch"));
  },
  render: ({ checkout }) => checkout,
});

export const flush = storeCommand({
  async run(args, _io, ops) {
    return await ops.call("flush", args.address("branch"));
  },
  render(result, _io, args) {
    const what = result.kind === "none"
      ? "nothing new"
      : `${result.kind} of ${plural(result.pages, "page")}, ${formatBytes(result.bytes)}`;
    return `Flushed ${args.positional("branch")} (txid ${result.txid}, ${what})`;
  },
});

export const status = storeCommand({
  async run(args, _io, ops) {
    const { sessions } = await ops.call("status", args.optional("branch") === undefined ? {} : args.address("branch"));
    return { sessions };
  },
  async render({ sessions }, io) {
    if (sessions.length === 0) return "No session is open";
    const rows = sessions.map((session) => [
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
  },
});

function known(value: number | undefined, show: (value: number) => string): string {
  return value === undefined ? "-" : show(value);
}

/** Flushes and closes a session; says why it had failed if it had. */
export const close = storeCommand({
  async run(args, _io, ops) {
    return await ops.call("close", args.address("branch"));
  },
  render(result) {
    if (result.error === undefined) return `Closed ${branchName(result)} (txid ${result.txid})`;
    return `Closed ${branchName(result)}, which had failed: ${sanitizeLine(result.error.message)}`;
  },
});
