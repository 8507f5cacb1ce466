import { assertEquals } from "@std/assert";
import { cutLine, textList, textTable } from "./text_table.ts";

Deno.test("textTable() aligns columns by what a terminal shows, numbers to the right", async () => {
  const rows = [["shop@main", "12"], ["数据", "7"], ["é", "100"]];
  assertEquals(
    await textTable(rows, { head: ["BRANCH", "TXID"], right: [1] }),
    ["BRANCH     TXID", "shop@main    12", "数据          7", "é           100"].join("\n"),
  );
});

Deno.test("textTable() keeps cells on one line and free of escapes", async () => {
  assertEquals(await textTable([["a\nb\x1b[31m", "c"]]), "a\\nb\\x1b[31m  c");
});

const HEAD = ["BRANCH", "STATE", "CHECKPOINTS", "TOUCHED", ""];
const BRANCHES = [
  ["shop@main", "idle", "0", "2026-01-31 12:00:00Z", ""],
  ["shop@try-another-index", "active", "12", "2026-01-31 12:00:00Z", "protected"],
];
const branches = (columns?: number) => textTable(BRANCHES, { head: HEAD, right: [2], names: [0], columns });

Deno.test("textTable() shortens nothing without a terminal, or with room enough", async () => {
  const whole = [
    "BRANCH                  STATE   CHECKPOINTS  TOUCHED",
    "shop@main               idle              0  2026-01-31 12:00:00Z",
    "shop@try-another-index  active           12  2026-01-31 12:00:00Z  protected",
  ].join("\n");
  assertEquals(await branches(), whole);
  assertEquals(await branches(76), whole);
});

Deno.test("textTable() shortens heads over narrow cells first, and keeps names whole", async () => {
  assertEquals(
    await branches(70),
    [
      "BRANCH                  STATE   CHEC…  TOUCHED",
      "shop@main               idle        0  2026-01-31 12:00:00Z",
      "shop@try-another-index  active     12  2026-01-31 12:00:00Z  protected",
    ].join("\n"),
  );
  assertEquals(
    await branches(60),
    [
      "BRANCH                  STATE   CHECK…  TOUCHED",
      "shop@main               idle         0  2026-01-31 12:00:00Z",
      "shop@try-another-index  active      12  2026-01-31 12:00:00Z",
      "  protected",
    ].join("\n"),
  );
  assertEquals((await branches(20)).split("\n").filter((line) => line.includes("@")), [
    "shop@main",
    "shop@try-a…her-index",
  ]);
});

Deno.test("textTable() moves the last columns to lines of their own before it shortens text", async () => {
  assertEquals(
    await branches(50),
    [
      "BRANCH                  STATE   CHECKPOINTS",
      "  TOUCHED",
      "shop@main               idle              0",
      "  2026-01-31 12:00:00Z",
      "shop@try-another-index  active           12",
      "  2026-01-31 12:00:00Z  protected",
    ].join("\n"),
  );
  for (let columns = 24; columns <= 80; columns++) {
    const shown = await branches(columns);
    for (const line of shown.split("\n")) assertEquals(line.length <= columns, true, `${columns}: ${line}`);
    for (const word of ["shop@try-another-index", "active", "12", "2026-01-31 12:00:00Z", "protected", "TOUCHED"]) {
      assertEquals(shown.includes(word), true, `${columns}: ${shown}`);
    }
  }
});

Deno.test("textTable() cuts text at its end, and a lone word at the terminal's edge", async () => {
  const rows = [["a1b2", "a long remark with many words"], ["c3d4", "数据数据数据数据数据数据数据"]];
  assertEquals(await textTable(rows, { texts: [1], columns: 20 }), "a1b2  a long remark…\nc3d4  数据数据数据…");
  assertEquals(await textTable(rows, { texts: [1], columns: 10 }), "a1b2\n  a long …\nc3d4\n  数据数…");
  assertEquals(await textTable([["2026-01-31"]], { columns: 5 }), "2026…");
});

Deno.test("textTable() lays out more rows than a call takes arguments", async () => {
  const rows = Array.from({ length: 200_000 }, (_, index) => [String(index)]);
  assertEquals((await textTable(rows, { columns: 80 })).split("\n").length, 200_000);
});

Deno.test("cutLine() counts wide characters as two columns", async () => {
  assertEquals(await cutLine("数据数据", 8), "数据数据");
  assertEquals(await cutLine("数据数据", 7), "数据数…");
  assertEquals(await cutLine("数据数据", 6), "数据…");
});

Deno.test("textList() leaves out what has no value", async () => {
  assertEquals(await textList([["a", "1"], ["bcd", undefined], ["ef", "2"]]), "a   1\nef  2");
});
