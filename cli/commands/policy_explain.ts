/** The command `taskd policy explain`. */

import { compareWithLive, type Comparison, explainTable, verdictLine } from "../../broker/settings/explain.ts";
import { loadSettings } from "../../broker/settings/load.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";
import { environment, livePolicy } from "./_environment.ts";

/** Resolves as `start` does, and asks the broker that runs what it works with. */
export async function run(args: Args, io: Io): Promise<Comparison | undefined> {
  const { home, socket } = args.broker;
  const local = await loadSettings({ home, env: environment(args) });
  const live = args.text("socket") ?? args.broker.host?.live_socket ?? socket;
  const comparison = compareWithLive(local, await livePolicy(live, io.signal));
  if (!io.json) return comparison;
  // The contract's own form, without the member that other commands add.
  io.outJson(comparison);
  return undefined;
}

/** The table, and the verdict as its last line; a long value is shortened to the terminal's width. */
export async function render(comparison: Comparison, { columns }: Pick<Io, "columns">): Promise<string> {
  const rows = explainTable(comparison.local.fields);
  const table = await textTable(rows, { head: ["SETTING", "VALUE", "SOURCE"], texts: [1], columns });
  return `${table}\n${verdictLine(comparison)}`;
}
