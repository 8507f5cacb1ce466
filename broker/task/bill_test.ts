import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { readBill, reconciled } from "./bill.ts";

const days = (csv: string, columns = {}) => Object.fromEntries(readBill(csv, columns));

Deno.test("readBill() adds up the days of exports whose columns have other names", () => {
  assertEquals(
    days("usage_date_utc,model,cost_usd\n2026-01-02,a,1.25\n2026-01-02,b,0.75\n2026-01-03,a,0.5\n"),
    { "2026-01-02": 2, "2026-01-03": 0.5 },
  );
  assertEquals(
    days('start_time,amount_value,amount_currency,line_item\n1767312000,"1,200.50",usd,"a, ""b"""\n'),
    { "2026-01-02": 1_200.5 },
  );
  assertEquals(
    days("generation_id,created_at,cost_total\ng1,2026-01-02 23:59:59.5,0.000012\ng2,2026-01-03T01:00:00+02:00,1e-3\n"),
    { "2026-01-02": 0.001012 },
  );
});

Deno.test("readBill() takes refunds, currency signs and empty rows, and columns that are named", () => {
  assertEquals(days("Tag,Preis\n2026-01-02,$3.5\n\n2026-01-02,-$1\n", { date: "tag", cost: "Preis" }), {
    "2026-01-02": 2.5,
  });
});

Deno.test("readBill() refuses what it cannot read, with the row or the columns", () => {
  for (
    const [csv, says] of [
      ["", "it has"],
      ["date,cost\n", "it has no rows"],
      ["a,b\n1,2\n", "with the date it has none of usage_date_utc"],
      ["date,b\n2026-01-02,2\n", "with the cost it has none of cost_usd"],
      ["date,cost\n02/01/2026,2\n", 'row 2 has no date in "date"'],
      ["date,cost\n2026-13-02,2\n", 'row 2 has no date in "date"'],
      ["date,cost\n2026-01-02,free\n", 'row 2 has no amount in "cost"'],
      ['date,cost\n"2026', "it is no CSV file"],
    ] as const
  ) assertThrows(() => readBill(csv), TaskdError, says, csv);
});

Deno.test("reconciled() has the days of the bill, those that only the broker metered too", () => {
  const bill = new Map([["2026-01-02", 2], ["2026-01-05", 1]]);
  const metered = new Map([
    ["2026-01-01", { usd: 9, unmetered_requests: 0 }],
    ["2026-01-02", { usd: 1.5, unmetered_requests: 2 }],
    ["2026-01-04", { usd: 0.25, unmetered_requests: 0 }],
  ]);
  assertEquals(reconciled(bill, { days: metered }), [
    { day: "2026-01-02", billed_usd: 2, metered_usd: 1.5, unmetered_requests: 2 },
    { day: "2026-01-04", billed_usd: 0, metered_usd: 0.25, unmetered_requests: 0 },
    { day: "2026-01-05", billed_usd: 1, metered_usd: 0, unmetered_requests: 0 },
  ]);
});
