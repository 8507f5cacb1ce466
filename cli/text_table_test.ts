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

Deno.test("textTable() cuts lines at the terminal's edge only when there is one", async () => {
  const rows = [["name", "a long remark"]];
  assertEquals(await textTable(rows), "name  a long remark");
  assertEquals(await textTable(rows, { columns: 10 }), "name  a l…");
});

Deno.test("cutLine() counts wide characters as two columns", async () => {
  assertEquals(await cutLine("数据数据", 8), "数据数据");
  assertEquals(await cutLine("数据数据", 7), "数据数…");
  assertEquals(await cutLine("数据数据", 6), "数据…");
});

Deno.test("textList() leaves out what has no value", async () => {
  assertEquals(await textList([["a", "1"], ["bcd", undefined], ["ef", "2"]]), "a   1\nef  2");
});
