/** `taskd stats --reconcile`: a vendor's bill beside what the broker metered. */

import { meteredDays, readBill, reconciled, type ReconciledDay } from "../../broker/task/bill.ts";
import type { Lane } from "../../broker/agents.ts";
import { readTextOf } from "../../lib/fs.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";

const MAX_BILL_BYTES = 64 << 20;

export interface Reconciliation {
  days: ReconciledDay[];
  billed_usd: number;
  metered_usd: number;
  /** Billed and not metered; negative where more was metered than billed. */
  difference_usd: number;
  unmetered_requests: number;
  /** Tasks whose records cannot be followed, of any vendor. */
  damaged: number;
}

/** @throws {TaskdError} `invalid_request` for a file that is no bill; `not_found`, `denied`, `too_large`. */
export async function reconcileBill(args: Args, file: string): Promise<Reconciliation> {
  const columns = { date: args.text("date-column"), cost: args.text("cost-column") };
  const bill = readBill(readTextOf(file, MAX_BILL_BYTES), columns);
  const metered = await meteredDays(args.settings.audit_root, args.choice<Lane>("vendor"));
  const days = reconciled(bill, metered);
  const sum = (of: (day: ReconciledDay) => number) => days.reduce((total, day) => total + of(day), 0);
  const [billed_usd, metered_usd] = [sum((day) => day.billed_usd), sum((day) => day.metered_usd)];
  return {
    days,
    billed_usd,
    metered_usd,
    difference_usd: billed_usd - metered_usd,
    unmetered_requests: sum((day) => day.unmetered_requests),
    damaged: metered.damaged,
  };
}

export async function reconciliationText(found: Reconciliation, { columns }: Pick<Io, "columns">): Promise<string> {
  const rows = found.days.map(({ day, billed_usd, metered_usd, unmetered_requests }) => [
    day,
    usd(billed_usd),
    usd(metered_usd),
    usd(billed_usd - metered_usd),
    unmetered_requests === 0 ? "-" : String(unmetered_requests),
  ]);
  rows.push(["total", usd(found.billed_usd), usd(found.metered_usd), usd(found.difference_usd), "-"]);
  if (found.unmetered_requests > 0) rows.at(-1)![4] = String(found.unmetered_requests);
  const head = ["DAY", "BILLED", "METERED", "DIFFERENCE", "UNMETERED"];
  const notes = [
    "Days are in UTC. A request that ran over midnight may count for the day before at the vendor.",
    ...(found.unmetered_requests > 0
      ? [`The cost of ${plural(found.unmetered_requests, "request")} is not known: they are in the bill alone.`]
      : []),
    ...(found.damaged > 0
      ? [`${plural(found.damaged, "task")} cannot be followed, and may be in the bill alone.`]
      : []),
  ];
  return `${await textTable(rows, { head, right: [1, 2, 3, 4], columns })}\n\n${notes.join("\n")}`;
}

function usd(amount: number): string {
  // An amount below half of the last digit has no sign.
  const text = Math.abs(amount).toFixed(4);
  return `${amount < 0 && Number(text) > 0 ? "-" : ""}$${text}`;
}
