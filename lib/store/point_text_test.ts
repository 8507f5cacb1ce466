import { assertEquals } from "@std/assert";
import { fails } from "../../tests/support/stores.ts";
import { parseAddress, parsePointName } from "./names.ts";
import { parsePoint, type PointText } from "./point_text.ts";

Deno.test("parsePoint() reads a transaction, a time and an age, with and without a prefix", () => {
  const time_ms = Date.UTC(2026, 10, 25, 15);
  const cases: [string, PointText | undefined][] = [
    ["41", { txid: 41 }],
    ["txid:41", { txid: 41 }],
    ["2026-11-25T15:00:00Z", { time_ms }],
    ["2026-11-25T15:00", { time_ms }],
    ["time:2026-11-25T17:00+02:00", { time_ms }],
    ["time:2026-11-25T15:00:00.250Z", { time_ms: time_ms + 250 }],
    ["2026-11-25", { time_ms: Date.UTC(2026, 10, 25) }],
    ["15m", { age_ms: 900_000 }],
    ["age:1h30m", { age_ms: 5_400_000 }],
    ["age:0", { age_ms: 0 }],
    ["txid:15m", undefined],
    ["txid:1e3", undefined],
    ["txid:9999999999999999", undefined],
    ["time:15m", undefined],
    ["time:2026-13-45T00:00Z", undefined],
    ["age:41", undefined],
    ["age:-1m", undefined],
    ["before-import", undefined],
    ["", undefined],
    ["txid:41\n", undefined],
  ];
  assertEquals(cases.map(([text]) => [text, parsePoint(text)]), cases);
});

Deno.test("an address names a checkpoint or another point, and nothing else", async () => {
  for (const text of ["v1", "15m", "txid:41", "time:2026-11-25T15:00:00+02:00"]) {
    assertEquals(parseAddress(`shop@main@${text}`).checkpoint, parsePointName(text));
  }
  const refused = (text: string) => fails("invalid_name", (async () => await parsePointName(text))());
  for (const text of ["", "A", "txid:", "age:soon", "../x", "txid:1/../2", `txid:${"0".repeat(200)}`]) {
    await refused(text);
  }
});
