/** The commands of live sessions: session open, flush, status, close. */

import { formatBytes } from "../../lib/text/bytes.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Recovery } from "../../lib/store/results.ts";
import { storeCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { branchName } from "./_result_text.ts";

/** Opens a session; prints the path of its file alone to stdout, so that a script can use it. */
export const open = storeCommand({
  run: (args, _io, ops) => ops.call("open", args.address("branch")),
  render({ checkout, recovery, ...name }, io) {
    if (recovery) io.note(recoveryText(branchName(name), recovery));
    return checkout;
  },
});

/** What became of a checkout that was not known to be the head. */
function recoveryText(branch: string, { outcome, safety_branch = "", set_aside }: Recovery): string {
  const found = /-found(-\d+)?$/.test(safety_branch);
  const texts: Record<Recovery["outcome"], string> = {
    resumed: `${branch} goes on where a former session ended`,
    rebuilt: `The file of ${branch} is made anew from its head and the log`,
    adopted: `Edits made to ${branch} without a session are taken up`,
    restored: `The file of ${branch} is its head again`,
    kept_both: found
      ? `The file of ${branch} was behind its head, which is restored; what it held is the branch ${safety_branch}`
      : `Edits of the file of ${branch} are taken up; the head that it had is the branch ${safety_branch}`,
  };
  const files = set_aside === undefined ? "" : `; the files as they were: ${sanitizeLine(set_aside)}`;
  return texts[outcome] + files;
}

export const flush = storeCommand({
  run: (args, _io, ops) => ops.call("flush", args.address("branch")),
  render(result, _io, args) {
    const what = result.kind === "none"
      ? "nothing new"
      : `${result.kind} of ${plural(result.pages, "page")}, ${formatBytes(result.bytes)}`;
    return `Flushed ${args.positional("branch")} (txid ${result.txid}, ${what})`;
  },
});

export const status = storeCommand({
  run: (args, _io, ops) => ops.call("status", args.optional("branch") === undefined ? {} : args.address("branch")),
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

export const close = storeCommand({
  run: (args, _io, ops) => ops.call("close", args.address("branch")),
  render(result, io) {
    if (result.open_in !== undefined) {
      io.note(
        `${sanitizeLine(result.open_in.join(", "))} still has the file open: what it commits now is not captured. ` +
          `taskd session open ${branchName(result)} takes it up`,
      );
    }
    if (result.error === undefined) return `Closed ${branchName(result)} (txid ${result.txid})`;
    return `Closed ${branchName(result)}, which had failed: ${sanitizeLine(result.error.message)}`;
  },
});
