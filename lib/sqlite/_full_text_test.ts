import { assertEquals } from "@std/assert";
import { fullTextStorage } from "./_full_text.ts";

Deno.test("fullTextStorage() knows full-text tables by their definition, however the name is quoted", () => {
  const all = ["_data", "_idx", "_content", "_docsize"].map((suffix) => `f${suffix}`);
  for (const name of ["f", '"f"', "'f'", "`f`", "[f]", '"a "" using"']) {
    assertEquals(fullTextStorage("f", `CREATE VIRTUAL TABLE ${name} USING fts5(x, content)`), all, name);
  }
  assertEquals(fullTextStorage("f", "CREATE VIRTUAL TABLE f\n\tusing  FTS5 (x, tokenize='porter')"), all);
  for (
    const other of [
      "CREATE VIRTUAL TABLE f USING fts4(x)",
      "CREATE VIRTUAL TABLE f USING rtree(id, x0, x1)",
      'CREATE VIRTUAL TABLE "f USING fts5(" USING rtree(id, x0, x1)',
      "CREATE VIRTUAL TABLE f USING fts5vocab(g, row)",
      "CREATE TABLE f(x) -- USING fts5(x)",
      "",
    ]
  ) assertEquals(fullTextStorage("f", other), [], other);
});

Deno.test("fullTextStorage() claims no table that the definition leaves to the application", () => {
  const with_option = (option: string) => fullTextStorage("f", `CREATE VIRTUAL TABLE f USING fts5(x, ${option})`);
  for (const option of ["content=''", "content = 'f_content'", "CONTENT=f_content", "cont=''"]) {
    assertEquals(with_option(option), ["f_data", "f_idx", "f_docsize"], option);
  }
  for (const option of ["columnsize=0", "colu = 0"]) {
    assertEquals(with_option(option), ["f_data", "f_idx", "f_content"], option);
  }
  assertEquals(with_option("c=''"), ["f_data", "f_idx"]);
});
