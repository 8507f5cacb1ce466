import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { renderBrief } from "../../../broker/task/brief.ts";
import { canonicalJson } from "../../../lib/text/canonical_json.ts";
import { sha256Hex } from "../../../lib/sha256.ts";
import { agentDoes, DataBench } from "./_bench.ts";
import { longTest } from "../../support/long.ts";

const MANY = `WITH RECURSIVE n(i) AS (VALUES (10) UNION ALL SELECT i + 1 FROM n WHERE i < 409)
  INSERT INTO items SELECT i, CASE WHEN i < 310 THEN 'cancelled' ELSE char(27) || '[2J' || char(8238) END, 7 FROM n`;

longTest("where many rows fall stands in the brief with bars, under the digest of the gate", async () => {
  await using bench = await DataBench.start({
    script: agentDoes([MANY, "CREATE TABLE few (a)", "INSERT INTO few VALUES (1)"]),
  });
  const waiting = await bench.toGate();
  const brief = await bench.brief(waiting);
  const [items, few] = brief.databases![0]!.tables;
  assertEquals(few!.spread, undefined);
  const found = Object.fromEntries(items!.spread!.map((spread) => [spread.column, spread]));
  assertEquals(Object.keys(found), ["id", "name", "price"]);
  assertEquals([found.id!.bins[0]!.from, found.id!.bins.at(-1)!.to, found.id!.other], [10, 409, 0]);
  assertEquals(found.name!.bins.map(({ rows }) => rows), [300, 100]);
  assertEquals(found.price!.bins, [{ from: 7, rows: 400 }]);
  const text = renderBrief(brief);
  assertStringIncludes(text, "database shop@main, table items, where its 400 rows fall by name:\n");
  assertStringIncludes(text, `\n  ${"#".repeat(15)}      300  "cancelled"\n  ${"#".repeat(5).padEnd(20)} 100  `);
  assertStringIncludes(text, `fall by price:\n  ${"#".repeat(20)} 400  7\n`);
  assert(!text.includes("\x1b") && !text.includes("\u202e"), text);
  assertEquals(waiting.gate?.binding?.brief_sha256, sha256Hex(canonicalJson(brief)));
});
