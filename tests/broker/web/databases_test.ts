/**
 * Changed rows of databases at the gate, in a real browser.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ORDINARY } from "./_diffs.ts";
import { closeBrowser, pageTest } from "./_pages.ts";

Deno.test.afterAll(closeBrowser);

pageTest("the gate shows the rows that change, and their values act on nothing", async (pages) => {
  const id = await pages.engine.gate({
    diff: ORDINARY,
    second_look: ["database"],
    databases: [{
      db: "shop",
      base: "main",
      changed: true,
      tables: [{
        table: "items<b>",
        change: "changed",
        rows_added: 0,
        rows_removed: 0,
        rows_changed: 3,
        rows: [{
          change: "changed",
          key: { id: 2 },
          before: { name: "coffee" },
          after: { name: "<img src=x onerror=\"document.title='taken'\">\u202e" },
        }],
      }],
      more_tables: 0,
      schema: [],
      more_schema: 0,
      other_changes: false,
    }],
  });
  const page = await pages.visit(`/ui/tasks/${id}`);
  const rows = page.locator("section", { has: page.getByRole("heading", { name: "Rows that change" }) }).last();
  await rows.waitFor();
  const text = await rows.innerText();
  assertStringIncludes(text, "shop@main items<b>");
  assertStringIncludes(text, '{"name":"coffee"}');
  assertStringIncludes(text, "<img src=x onerror=");
  assertStringIncludes(text, "2 rows more");
  assert(!text.includes("\u202e"), "a direction character was shown as itself");
  assertEquals([await rows.locator("img").count(), await rows.locator("b").count()], [0, 0]);
  assert((await page.title()) !== "taken");
});
