/** The command `taskd log`. */

import { formatBytes } from "../../lib/text/bytes.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { storeCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { branchName, stamp } from "./_result_text.ts";

export const log = storeCommand({
  async run(args, _io, ops) {
    const after = args.text("after");
    return await ops.call("log", {
      ...args.address("branch"),
      limit: args.numberOf("limit"),
      ...(after === undefined ? {} : { after }),
    });
  },
  async render(result, io) {
    const rows = result.points.map(({ txid, at, pages, bytes, op, checkpoints = [], merge }) => [
      String(txid),
      at === undefined ? "" : stamp(at),
      String(pages),
      formatBytes(bytes),
      sanitizeLine([op, ...checkpoints, ...merge === undefined ? [] : [merge]].join(" ")),
    ]);
    const head = ["TXID", "SINCE", "PAGES", "STORED", "WHAT"];
    const table = await textTable(rows, { head, right: [0, 2, 3], names: [4], columns: io.columns });
    return result.next === undefined
      ? table
      : `${table}\nFurther back: taskd log ${branchName(result)} --after ${result.next}`;
  },
});
