/**
 * Changed rows of databases at the gate, in a real browser.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import axe from "axe-core";
import type { Page } from "playwright-core";
import type { DatabaseDiffQuery, DatabaseRows } from "../../../broker/task/row_pages.ts";
import { boundTo } from "../../../broker/engine/bind.ts";
import { conflictsDigest } from "../../../broker/task/binding.ts";
import type { BriefDatabase, DatabaseConflicts, RowChange } from "../../../broker/task/database_schema.ts";
import { leafBytes, pageLeaf } from "../../../broker/task/page_proof.ts";
import { sha256Hex } from "../../../lib/sha256.ts";
import { ORDINARY } from "./_diffs.ts";
import { closeBrowser, longPageTest, type Pages, pageTest, picture, tick } from "./_pages.ts";
import { longTest } from "../../support/long.ts";

Deno.test.afterAll(closeBrowser);

function shop(tables: BriefDatabase["tables"], more: Partial<BriefDatabase> = {}): BriefDatabase {
  const none = { more_tables: 0, schema: [], more_schema: 0, other_changes: false };
  return { db: "shop", base: "main", changed: true, tables, ...none, ...more };
}

function table(name: string, changed: number, more: object = {}): BriefDatabase["tables"][number] {
  return { table: name, change: "changed", rows_added: 0, rows_removed: 0, rows_changed: changed, ...more };
}

/** A changed row like any other. */
function row(id: number): RowChange {
  return {
    change: "changed",
    key: { id },
    before: { price: 300 + id % 7, note: `ordinary tea, harvest of 2024, lot ${id}` },
    after: { price: 310 + id % 7, note: `ordinary tea, harvest of 2025, lot ${id}` },
    same: { id, name: "tea", sku: `T-${id}`, place: id % 40, stock: null },
  };
}

/** Pages of `count` rows, as the broker makes them. */
function pagesOf(count: number, make: (id: number) => RowChange = row): (query: DatabaseDiffQuery) => DatabaseRows {
  return ({ cursor = "0", limit = 100, kind }) => {
    const from = Number(cursor);
    const to = Math.min(count, from + limit);
    const rows = Array.from({ length: to - from }, (_, at) => make(from + at + 1));
    return {
      rows: rows.filter(({ change }) => kind === undefined || change === kind),
      ...(to < count && { next: `${to}` }),
    };
  };
}

const CATEGORIES = ["rows:60:shop@main:orders", "rows:31:shop@main:items"];

async function gate(
  pages: Pages,
  databases: BriefDatabase[],
  options = {},
  categories: string[] = [],
): Promise<{ id: string; page: Page }> {
  const id = await pages.engine.gate({ diff: ORDINARY, second_look: ["database", ...categories], databases });
  const page = await pages.visit(`/ui/tasks/${id}`, options);
  await page.getByRole("heading", { name: "Data" }).waitFor();
  return { id, page };
}

pageTest("values of rows act on nothing, and what differs in them is marked", async (pages) => {
  const evil = "<img src=x onerror=\"document.title='taken'\">\u202e";
  pages.engine.rows = () => ({
    rows: [
      {
        change: "changed",
        key: { id: 2 },
        before: { name: "black coffee" },
        after: { name: "black tea" },
        same: { n: 1 },
      },
      { change: "changed", key: { id: 3 }, before: { name: null }, after: { name: evil } },
      { change: "removed", key: { id: 5 }, before: { id: 5, name: null } },
      { change: "added", key: { id: 4 }, after: { id: 4, name: { hex: "00ff", bytes: 2 } } },
    ],
  });
  const { page } = await gate(pages, [shop([table("items<b>", 2, { rows_added: 1, rows_removed: 1 })])]);
  const rows = page.locator(".rows tbody tr");
  await rows.nth(2).waitFor();
  assertEquals(await rows.nth(2).locator("td").allInnerTexts(), ["−", "5", "NULL"]);
  assertEquals(await rows.nth(0).locator(".word").allInnerTexts(), ["coffee", "tea"]);
  const text = await page.locator(".rows-of").innerText();
  for (
    const part of ["shop@main items<b>", "NULL", "<img src=x onerror=", "U+202E", "x'00ff'", "Show 1 unchanged column"]
  ) {
    assertStringIncludes(text, part);
  }
  assert(!text.includes("\u202e"), "a direction character was shown as itself");
  assertEquals(await page.locator(".rows-of img, .rows-of b").count(), 0);
  assert((await page.title()) !== "taken");
  await page.getByRole("button", { name: "Show 1 unchanged column" }).click();
  assertEquals(await rows.nth(0).locator("td").allInnerTexts().then((cells) => cells.at(-1)), "1");
});

pageTest("a million rows are read as the reader goes, with few nodes in the document", async (pages) => {
  pages.engine.rows = pagesOf(1_000_000);
  const { page } = await gate(pages, [shop([table("orders", 1_000_000), table("items", 31)])]);
  await page.locator(".rows tbody tr").nth(10).waitFor();
  const nodes = () => page.evaluate("document.getElementsByTagName('*').length") as Promise<number>;
  const status = page.locator(".rows-of .hint").first();
  let most = await nodes();
  for (let i = 0; i < 25; i++) {
    await page.locator(".below").first().scrollIntoViewIfNeeded();
    await page.waitForTimeout(20);
    most = Math.max(most, await nodes());
  }
  const text = await status.innerText();
  const [, from, to] = /^Rows ([\d,]+) to ([\d,]+) of 1,000,000$/.exec(text) ?? [];
  assert(Number(from?.replaceAll(",", "")) > 1, `rows above are out of the document: ${text}`);
  assert(Number(to?.replaceAll(",", "")) > 300, text);
  assert(most <= 5_000, `${most} elements`);
  const open = await page.locator(".still-open").innerText();
  assert(/9\d\d,\d{3} rows of orders not read/.test(open), open);
  assertStringIncludes(open, "31 rows of items not read");
  // Back at the top the first rows are there again.
  await page.evaluate("scrollTo({ top: 0 })");
  await page.getByText(/^Rows 1 to /).waitFor();
}, { define: longTest });

pageTest("rows that were read to the end count as read, the others are acknowledged by hand", async (pages) => {
  pages.engine.rows = (query) => pagesOf(query.table === "orders" ? 60 : 31)(query);
  const { id, page } = await gate(pages, [shop([table("orders", 60), table("items", 31)])], {}, CATEGORIES);
  assertEquals(await page.locator(".look").count(), 1, "a table is acknowledged where it stands");
  const orders = page.locator("#table-0");
  while (!await orders.locator(".read input").isChecked()) {
    await page.locator("#table-0 .below").scrollIntoViewIfNeeded();
  }
  assert(!(await page.locator(".still-open").innerText()).includes("of orders"));
  for (const box of await page.locator(".read input").all()) await box.evaluate(tick);
  await page.locator(".look input").check();
  await page.getByRole("button", { name: "Approve and push" }).click();
  await page.getByText("pushing").first().waitFor();
  const seen = pages.engine.tasks.read(id).approval?.seen?.filter(({ part }) => part === "rows");
  assertEquals(pages.engine.tasks.read(id).approval?.acknowledged, ["database", ...CATEGORIES]);
  assertEquals(seen?.[0], { part: "rows", name: "shop@main orders", from: 1, to: 60, of: 60 });
  assertEquals(seen?.filter(({ name }) => name === "shop@main items"), []);
});

pageTest(
  "rows are shown by kind and searched; what a search found is not read",
  async (pages) => {
    const kinds = ["changed", "removed", "added"] as const;
    const all = Array.from({ length: 36 }, (_, at): RowChange => {
      const [id, change] = [at + 1, kinds[at % 3]!];
      const { before = {}, after = {} } = row(id);
      if (change === "changed") return { change, key: { id }, before, after };
      return { change, key: { id }, ...(change === "added" ? { after } : { before }) };
    });
    const asked: DatabaseDiffQuery[] = [];
    pages.engine.rows = (query) => {
      asked.push(query);
      const { kind, search = "", cursor = "0", limit = 100 } = query;
      const found = all.filter((each) =>
        (kind === undefined || each.change === kind) && JSON.stringify(each).includes(search)
      );
      const to = Number(cursor) + limit;
      return { rows: found.slice(Number(cursor), to), ...(to < found.length && { next: `${to}` }) };
    };
    const { page } = await gate(pages, [shop([table("orders", 12, { rows_removed: 12, rows_added: 12 })])]);
    const view = page.locator("#table-0");
    const rows = view.locator(".rows tbody tr");
    const status = view.getByRole("status");
    const read = view.locator(".read input");
    const search = view.getByRole("searchbox", { name: "Search the rows of shop@main orders" });
    await status.getByText(/^Rows 1 to \d+ of 36/).waitFor();
    await search.fill('lot 7"');
    await search.press("Enter");
    await status.getByText("Rows 1 to 1 found").waitFor();
    assertEquals(await rows.count(), 1);
    assertStringIncludes(await rows.first().innerText(), "lot 7");
    await view.getByRole("button", { name: "added 12" }).click();
    await status.getByText("No rows").waitFor();
    assertEquals(asked.at(-1)?.kind, "added");
    assertEquals(asked.at(-1)?.search, 'lot 7"');
    // Found are all, and still the reader did not see that no other is there.
    await view.getByRole("button", { name: "all 36" }).click();
    await search.fill("lot");
    await search.press("Enter");
    const found = status.getByText(/^Rows \d+ to 36 found/);
    while (!await found.isVisible()) await view.locator(".below").scrollIntoViewIfNeeded();
    await view.locator(".below").scrollIntoViewIfNeeded();
    assertEquals(await read.isChecked(), false, "a search is not reading");
    await view.getByRole("button", { name: "added 12" }).click();
    await search.fill("");
    await search.press("Enter");
    const signs = { added: "+", removed: "−", changed: "~" };
    for (const kind of ["added", "removed", "changed"] as const) {
      const button = view.getByRole("button", { name: `${kind} 12` });
      assertEquals(await read.isChecked(), false, `before the ${kind} ones`);
      await button.click();
      assertEquals(await button.getAttribute("aria-pressed"), "true");
      const end = status.getByText(/^Rows \d+ to 12 of 12/);
      while (!await end.isVisible()) await view.locator(".below").scrollIntoViewIfNeeded();
      const shown = await rows.locator("td:first-child").allInnerTexts();
      assertEquals([...new Set(shown)], [signs[kind]]);
      await view.locator(".below").scrollIntoViewIfNeeded();
    }
    await view.locator(".read input:checked").waitFor();
    assertEquals(await view.getByRole("button", { pressed: true }).allInnerTexts(), ["changed 12"]);
  },
);

for (
  const [name, options] of [
    ["wide", {}],
    ["phone", { viewport: { width: 390, height: 844 }, hasTouch: true }],
    ["dark", { colorScheme: "dark" }],
  ] as const
) {
  pageTest(`tables, rows and definitions fit the ${name} page`, async (pages) => {
    const kinds = ["changed", "changed", "added", "removed"] as const;
    pages.engine.rows = pagesOf(60, (id) => {
      const change = kinds[id % 4]!;
      const { before, after, same } = row(id);
      if (change === "changed") return row(id);
      const all = { id, ...(change === "added" ? after : before), ...same };
      return { change, key: { id }, ...(change === "added" ? { after: all } : { before: all }) };
    });
    const sql = "CREATE TABLE items (\n  id INTEGER PRIMARY KEY,\n  price INTEGER NOT NULL,\n  note TEXT\n)";
    const { page } = await gate(pages, [
      shop([
        table("orders", 30, { rows_added: 15, rows_removed: 15 }),
        table("refunds", 0, { change: "added", rows_added: 4 }),
      ], {
        schema: [{
          type: "table",
          name: "orders",
          change: "changed",
          before: sql,
          after: sql.replace("INTEGER NOT NULL", "REAL"),
        }],
        settings: [{ setting: "user_version", before: "3", after: "4" }],
      }),
    ], options);
    await page.locator(".rows tbody tr").nth(3).waitFor();
    await page.locator(".data").first().scrollIntoViewIfNeeded();
    await picture(page, `rows_${name}`);
    assertEquals(
      await page.evaluate("document.documentElement.scrollWidth <= innerWidth"),
      true,
      "nothing is cut at the side",
    );
    const display = await page.evaluate("getComputedStyle(document.querySelector('.rows tbody tr')).display");
    assertEquals(display, name === "phone" ? "block" : "table-row");
  }, { define: name === "phone" ? Deno.test : longTest });
}

pageTest("checks stand side by side, and an error or a broken one is seen as such", async (pages) => {
  const answer = (...rows: number[][]) => ({ columns: ["n"], rows, count: rows.length, sha256: "0".repeat(64) });
  const sql = "SELECT count(*) FROM orders";
  const { page } = await gate(pages, [shop([table("orders", 1)], {
    checks: [
      { name: "totals", sql, before: answer([300, 1155]), after: { ...answer([301, 1165]), count: 22 } },
      { name: "orphans", sql, expect: "empty", holds: true, before: answer(), after: answer() },
      {
        name: "<b>sum</b>",
        sql,
        expect: "same",
        holds: false,
        before: answer([1]),
        after: { error: "no such table: <i>" },
      },
    ],
  })]);
  const rows = page.locator(".checks tbody tr");
  assertEquals(await rows.locator("td").allInnerTexts(), [
    ...["totals", "300, 1155", "301, 1165\n\n21 more", ""],
    ...["orphans", "no rows", "no rows", "empty: holds"],
    ...["<b>sum</b>", "1", "Error: no such table: <i>", "same: does not hold"],
  ]);
  await picture(page, "checks");
});

longPageTest("where many rows fall is bars with numbers, in the document while open, on a phone too", async (pages) => {
  const text = "<b>late</b>\u202e";
  const spread = [
    { column: "day<i>", bins: [{ from: "2024-03-01", to: "2024-03-31", rows: 31_000 }], other: 0 },
    { column: "status", bins: [{ from: text, rows: 15_500 }, { from: null, rows: 10 }], other: 15_490, at_least: true },
    {
      column: "note",
      bins: [{ from: "x".repeat(64), to: { integer: "9223372036854775807" }, rows: 31_000 }],
      other: 0,
    },
  ] as const;
  const many = Array.from({ length: 99 }, (_, i) => table(`orders ${i}`, 31_000, { spread }));
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true };
  const { page } = await gate(pages, [shop([...many, table("few", 1)])], phone);
  const parts = page.locator(".spread");
  assertEquals([await parts.count(), await page.locator("meter").count()], [99, 0]);
  const [first, summary] = [parts.first(), parts.first().locator("summary")];
  assertEquals(await summary.innerText(), "Where the 31,000 rows of orders 0 fall");
  await summary.click();
  await page.locator("meter").first().waitFor();
  assertEquals(await first.locator("th:first-child").allInnerTexts(), ["day<i>", "status", "note"]);
  assertEquals(await first.locator(".n").allInnerTexts(), ["31,000", "at least 15,500", "10", "15,490", "31,000"]);
  const values = await first.locator("td:first-child").allInnerTexts();
  assertEquals([values[2], values[3]], ["NULL", "other values"]);
  assertStringIncludes(values[1]!, "<b>late</b>");
  assertEquals(await first.locator("b, i").count(), 0);
  assert(!(await first.innerText()).includes("\u202e"));
  assertEquals(await first.locator("meter").nth(1).getAttribute("aria-label"), "50.0%");
  await page.evaluate(axe.source);
  const run = "axe.run('.spread').then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html]))";
  assertEquals(await page.evaluate(run), []);
  assertEquals(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
  await summary.click();
  await page.locator("meter").first().waitFor({ state: "detached" });
});

pageTest("rows that do not belong to the change at the gate are not shown, nor counted as read", async (pages) => {
  const [mine, forged] = [[row(1), row(2)], [row(1), row(3)]];
  const root = sha256Hex(leafBytes(pageLeaf({ table: "orders", rows: mine })));
  const result = { lineage: "a", txid: 2, image_sha256: root, changeset: { root, leaves: 1 } };
  const bound = [{ db: "shop", base: "main", base_lineage: "a", base_txid: 1, result }];
  const proof = { index: 0, path: [] };
  for (const [rows, shown] of [[mine, true], [forged, false], [mine.slice(0, 1), false]] as const) {
    pages.engine.rows = () => ({ rows: [...rows], proof });
    const id = await pages.engine.gate({ diff: ORDINARY, bound, databases: [shop([table("orders", 2)])] });
    const page = await pages.visit(`/ui/tasks/${id}`);
    if (shown) await page.locator(".rows tbody tr").nth(1).waitFor();
    else await page.getByText("These rows are not those at the gate.").waitFor();
    assertEquals(await page.locator(".rows tbody tr").count(), shown ? 2 : 0);
    assertEquals(await page.locator(".rows-of .read input").isChecked(), shown);
  }
}, { define: longTest });

pageTest("conflicts are decided value by value at the gate, and Approve waits for that", async (pages) => {
  const id = await pages.engine.gate({ diff: ORDINARY, databases: [shop([table("items", 1)])] });
  const { diff_sha256 = "", gate: asked } = pages.engine.tasks.read(id);
  await pages.engine.approve(id, { diff_sha256, acknowledge: asked!.second_look });
  const task = pages.engine.tasks.live(id)!;
  const price = { kind: "changed_twice", table: "items<b>", key: { id: 2 }, column: "price" } as const;
  const conflicts = [{
    db: "shop",
    base: "main",
    txid: 44,
    total: 3,
    conflicts: [
      { ...price, base: { price: 450 }, ours: { price: 460 }, theirs: { price: 500 } },
      { kind: "deleted_and_changed", table: "items", key: { id: 3 }, base: { id: 3 }, theirs: { id: 3, name: "tea" } },
      { kind: "constraint", table: "items", key: { id: 4 }, detail: "UNIQUE constraint failed: items.name" },
    ],
  }] satisfies DatabaseConflicts[];
  const binding = { ...asked!.binding!, conflicts_sha256: conflictsDigest(conflicts) };
  const gate = boundTo({ ...asked!, conflicts, binding }, task.head);
  await task.move({ from: "pushing", to: "awaiting_approval", gate, reason: "shop@main has moved" });
  const page = await pages.visit(`/ui/tasks/${id}`);
  const rows = page.locator(".conflicts tbody tr");
  await rows.nth(2).waitFor();
  const cells = await rows.nth(0).locator("td").allInnerTexts();
  assertEquals(cells.slice(1).map((text) => text.trim()), ["id=2", "price", "450", "460", "500"]);
  assertStringIncludes(cells[0]!, "items<b>");
  assertStringIncludes(await rows.nth(2).innerText(), "UNIQUE constraint failed: items.name");
  const open = page.locator("#still-open");
  assertStringIncludes(await open.innerText(), "2 conflicts not decided");
  for (const box of await page.locator(".read input").all()) await box.evaluate(tick);
  for (const box of await page.locator(".look input").all()) await box.check();
  await page.getByRole("button", { name: "Take all as the task has them" }).click();
  await rows.nth(0).getByRole("radio").first().check();
  const approve = page.getByRole("button", { name: "Approve and push" });
  await approve.click();
  await page.getByRole("heading", { name: "Pushing" }).waitFor();
  const { approval } = pages.engine.tasks.read(id);
  assertEquals(approval?.decisions, [
    { db: "shop", table: "items<b>", key: { id: 2 }, column: "price", take: "ours", ours: { price: 460 } },
    { db: "shop", table: "items", key: { id: 3 }, take: "theirs", ours: null },
  ]);
});

pageTest(
  "conflicts of data that waits are decided on its page, each for the value that stands there",
  async (pages) => {
    const id = await pages.engine.gate({ diff: ORDINARY, databases: [shop([table("items", 1)])] });
    const { diff_sha256 = "", gate: asked } = pages.engine.tasks.read(id);
    await pages.engine.approve(id, { diff_sha256, acknowledge: asked!.second_look });
    const task = pages.engine.tasks.live(id)!;
    const note = { kind: "changed_twice", table: "items", column: "note" } as const;
    const folded = (letter: string) => ({ note: { text: "alike", bytes: 9_000, sha256: letter.repeat(64) } });
    const conflicts = (ours: string): DatabaseConflicts => ({
      db: "shop",
      base: "main",
      txid: 44,
      total: 203,
      conflicts: [
        { ...note, key: { id: 0 }, base: { note: "" }, ours: folded("a"), theirs: folded("b") },
        { kind: "constraint", table: "items", key: { id: 4 }, detail: "UNIQUE constraint failed: items.name" },
        ...Array.from({ length: 201 }, (_, at) => {
          return { ...note, key: { id: at + 5 }, base: { note: "" }, ours: { note: ours }, theirs: { note: "task" } };
        }),
      ],
    });
    const pushed = { branch: `agent/${id}`, commit: "c".repeat(40) };
    const waits = async (ours: string) => {
      const results = [{ db: "shop", base: "main", branch: `task-${id}`, result: "kept", conflicts: conflicts(ours) }];
      await task.append({ type: "evidence", name: "database_results", value: JSON.parse(JSON.stringify(results)) });
      await task.move({ from: "pushing", to: "data_waits", reason: "shop@main has moved", pushed });
    };
    await waits("mine");
    const page = await pages.visit(`/ui/tasks/${id}`);
    await page.getByRole("heading", { name: "Pushed, data waits" }).waitFor();
    const rows = page.locator(".conflicts tbody tr");
    await rows.nth(199).waitFor();
    assertEquals(await rows.count(), 200);
    const cells = await rows.nth(0).locator("td").allInnerTexts();
    assertStringIncludes(cells[4]!, `of 9,000 bytes, SHA-256 ${"a".repeat(16)}`);
    assertStringIncludes(cells[5]!, `of 9,000 bytes, SHA-256 ${"b".repeat(16)}`);
    // Nothing is chosen for a person.
    assertEquals(await page.locator(".conflicts input:checked").count(), 0);
    await page.getByRole("button", { name: "Take all as the task has them" }).click();
    await rows.nth(0).getByRole("radio").first().check();
    await page.getByRole("button", { name: "Push again" }).click();
    await page.getByRole("heading", { name: "Pushing" }).waitFor();
    const { decisions = [] } = pages.engine.tasks.read(id);
    assertEquals(decisions.length, 202);
    assertEquals(decisions[0], {
      db: "shop",
      table: "items",
      key: { id: 0 },
      column: "note",
      take: "ours",
      ours: folded("a"),
    });
    assertEquals(decisions.slice(1).every(({ take, ours }) => take === "theirs" && ours?.note === "mine"), true);

    // Another value comes while the page still shows the one before: what was chosen for that decides nothing.
    await waits("mine");
    await page.getByRole("heading", { name: "Pushed, data waits" }).waitFor();
    await rows.nth(199).waitFor();
    await page.getByRole("button", { name: "Take all as the task has them" }).click();
    const results = [{ db: "shop", base: "main", branch: `task-${id}`, result: "kept", conflicts: conflicts("other") }];
    await task.append({ type: "evidence", name: "database_results", value: JSON.parse(JSON.stringify(results)) });
    await page.getByRole("button", { name: "Push again" }).click();
    await page.getByText("the database has another value by now").waitFor();
    assertEquals(pages.engine.tasks.read(id).stage, "data_waits");
  },
  { expected: /409/ },
);
