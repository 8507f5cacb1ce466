/**
 * What a vendor billed beside what the broker metered, day by day in UTC. A bill is the CSV file that a vendor's console
 * exports: its columns are found by name, since each vendor has its own, and can be named where they are others.
 */

import { parse } from "@std/csv/parse";
import { TaskdError } from "../../lib/errors.ts";
import { nextTurn } from "../../lib/clock.ts";
import { agentOf, type Lane } from "../agents.ts";
import { traceIds } from "./task_index.ts";
import { DamagedTrace, EMPTY_HEAD, scanTrace, tracePath } from "./trace.ts";

/** Names of the columns with the day or the moment, and with the cost in US dollars; the first that is there counts. */
const COLUMNS = {
  date: ["usage_date_utc", "date", "start_time_iso", "start_date", "start_time", "created_at", "timestamp", "day"],
  cost: ["cost_usd", "amount_value", "cost_total", "cost", "amount", "amount_usd", "usage", "total_cost"],
} as const;
const DAY_MS = 86_400_000;
/** Seconds since 1970 up to the year 5138, and milliseconds beyond it. */
const MAX_SECONDS = 1e11;

/** US dollars by day, `2026-01-31`. */
export type UsdByDay = ReadonlyMap<string, number>;

export interface BillColumns {
  date?: string | undefined;
  cost?: string | undefined;
}

/** @throws {TaskdError} `invalid_request` for what is no such file, with the row, or the columns that there are. */
export function readBill(csv: string, columns: BillColumns = {}): UsdByDay {
  let rows: string[][];
  try {
    rows = parse(csv);
  } catch (cause) {
    throw refused(`it is no CSV file: ${(cause as Error).message.slice(0, 200)}`);
  }
  const [head = [], ...lines] = rows;
  const names = head.map((name) => name.trim().toLowerCase());
  const [date, cost] = [columnOf(names, "date", columns.date), columnOf(names, "cost", columns.cost)];
  const days = new Map<string, number>();
  lines.forEach((line, index) => {
    if (line.every((cell) => cell.trim() === "")) return;
    const day = dayOf(line[date]?.trim() ?? "");
    const usd = amountOf(line[cost]?.trim() ?? "");
    if (day === undefined) throw refused(`row ${index + 2} has no date in ${JSON.stringify(head[date])}`);
    if (usd === undefined) throw refused(`row ${index + 2} has no amount in ${JSON.stringify(head[cost])}`);
    days.set(day, (days.get(day) ?? 0) + usd);
  });
  if (days.size === 0) throw refused("it has no rows");
  return days;
}

function columnOf(names: readonly string[], what: keyof typeof COLUMNS, named: string | undefined): number {
  const accepted = named === undefined ? COLUMNS[what] : [named.trim().toLowerCase()];
  const found = accepted.map((name) => names.indexOf(name)).find((index) => index >= 0);
  if (found !== undefined) return found;
  const known = named === undefined
    ? `none of ${COLUMNS[what].join(", ")}`
    : `no ${JSON.stringify(named.slice(0, 80))}`;
  throw refused(
    `of columns with the ${what} it has ${known}`,
    `Name it with --${what}-column; there are: ${names.join(", ").slice(0, 400)}`,
  );
}

function dayOf(text: string): string | undefined {
  const number = /^\d{9,13}(?:\.\d+)?$/.test(text) ? Number(text) : undefined;
  if (number !== undefined) return new Date(number < MAX_SECONDS ? number * 1_000 : number).toISOString().slice(0, 10);
  // Without a zone it is UTC here, as exports have it, and not this machine's time.
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(Z|UTC|[+-]\d{2}:?\d{2})?)?$/.exec(
    text,
  );
  if (match === null) return undefined;
  const [, day, time = "00:00", zone = "Z"] = match;
  const ms = Date.parse(`${day}T${time}${zone === "UTC" ? "Z" : zone.replace(/^(...)(\d\d)$/, "$1:$2")}`);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString().slice(0, 10);
}

function amountOf(text: string): number | undefined {
  const match = /^-?\$?-?(\d+(?:\.\d+)?(?:e-?\d+)?|\.\d+)$/i.exec(text.replaceAll(",", ""));
  if (match === null) return undefined;
  return text.includes("-") && !/e-\d+$/i.test(text) ? -Number(match[1]) : Number(match[1]);
}

function refused(why: string, hint?: string): TaskdError {
  return new TaskdError("invalid_request", `Cannot read the bill: ${why}`, { hint });
}

/** What the broker metered. */
export interface MeteredDays {
  days: Map<string, { usd: number; unmetered_requests: number }>;
  /** Tasks whose trace cannot be followed; what they spent is not in it, or not all of it. */
  damaged: number;
}

/**
 * Adds up what was metered on each day for the tasks of one vendor, or of all: a request counts for the day on which its
 * cost was written.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export async function meteredDays(audit_root: string, lane: Lane | undefined): Promise<MeteredDays> {
  const metered: MeteredDays = { days: new Map(), damaged: 0 };
  for (const id of traceIds(audit_root)) {
    await nextTurn();
    try {
      addTrace(metered.days, tracePath(audit_root, id), lane);
    } catch (error) {
      if (!(error instanceof DamagedTrace)) throw error;
      metered.damaged++;
    }
  }
  return metered;
}

function addTrace(days: MeteredDays["days"], path: string, lane: Lane | undefined): void {
  let [usd, unmetered] = [0, 0];
  for (const { row } of scanTrace(path, EMPTY_HEAD)) {
    if (row.type === "created" && lane !== undefined && agentOf(row.task.agent).lane !== lane) return;
    if (row.type !== "spend") continue;
    const day = row.ts.slice(0, 10);
    const figures = days.get(day) ?? { usd: 0, unmetered_requests: 0 };
    days.set(day, figures);
    figures.usd += row.spend.usd - usd;
    figures.unmetered_requests += row.spend.unmetered_requests - unmetered;
    [usd, unmetered] = [row.spend.usd, row.spend.unmetered_requests];
  }
}

export interface ReconciledDay {
  day: string;
  billed_usd: number;
  metered_usd: number;
  /** Requests of that day whose cost is not known: what was metered is then a lower bound. */
  unmetered_requests: number;
}

/** Each day from the bill's first to its last. */
export function reconciled(bill: UsdByDay, { days }: Pick<MeteredDays, "days">): ReconciledDay[] {
  const names = [...bill.keys()].sort();
  const all: ReconciledDay[] = [];
  for (let ms = Date.parse(names[0]!); ms <= Date.parse(names.at(-1)!); ms += DAY_MS) {
    const day = new Date(ms).toISOString().slice(0, 10);
    const { usd = 0, unmetered_requests = 0 } = days.get(day) ?? {};
    const billed_usd = bill.get(day) ?? 0;
    if (billed_usd === 0 && usd === 0 && unmetered_requests === 0) continue;
    all.push({ day, billed_usd, metered_usd: usd, unmetered_requests });
  }
  return all;
}
