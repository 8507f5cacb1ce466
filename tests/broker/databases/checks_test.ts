import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { runChecks } from "../../../broker/databases/inspector.ts";
import type { ProfileCheck } from "../../../broker/settings/settings.ts";
import { failedChecks, renderBrief } from "../../../broker/task/brief.ts";
import type { BriefCheck } from "../../../broker/task/database_schema.ts";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import { type Clock, systemClock } from "../../../lib/clock.ts";
import { canonicalJson } from "../../../lib/text/canonical_json.ts";
import { sha256Hex } from "../../../lib/sha256.ts";
import { agentDoes, DataBench, RAISE, SHOP, sqlite } from "./_bench.ts";
import { longTest } from "../../support/long.ts";

/** A task of a repository whose profile has `checks`, at its gate or at its end. */
async function withChecks(
  checks: Omit<ProfileCheck, "database">[],
  work: (bench: DataBench, task: TaskRecord) => Promise<void>,
) {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), serve: false });
  const own = checks.map((check) => ({ database: "shop", ...check }));
  const repos = { [`file://${bench.broker.git.origin}`]: { checks: [...own, { ...own[0]!, database: "other" }] } };
  bench.broker.configure(
    `branch_store:\n  socket: ${bench.place.socket}\nprofiles: ${JSON.stringify({ repos })}\n`,
  );
  await bench.broker.serve();
  await work(bench, await bench.toGate());
}

Deno.test("checks of a profile stand in the brief with both answers, under the digest of the gate", async () => {
  await withChecks([
    { name: "totals", sql: "SELECT count(*) AS n, sum(price) FROM items;" },
    { name: "names", sql: "SELECT name FROM items WHERE id < 4 ORDER BY id DESC", expect: "same" },
    { name: "orphans", sql: "WITH none AS (SELECT 1 WHERE 0) SELECT * FROM none -- a comment", expect: "empty" },
  ], async (bench, waiting) => {
    assertEquals(waiting.stage, "awaiting_approval", waiting.reason);
    const brief = await bench.brief(waiting);
    const { checks = [] } = brief.databases![0]!;
    const totals = checks[0]! as BriefCheck & { before: { rows: unknown } };
    assertEquals([totals.name, totals.holds], ["totals", undefined]);
    assertEquals([totals.before, totals.after].map((answer) => "rows" in answer && [answer.columns, answer.rows]), [
      [["n", "sum(price)"], [[3, 1150]]],
      [["n", "sum(price)"], [[4, 1550]]],
    ]);
    assertEquals(checks.slice(1).map(({ holds }) => holds), [true, true]);
    const text = renderBrief(brief);
    assertStringIncludes(text, "database shop@main, checks before -> after:\n  totals: 3, 1150 -> 4, 1550\n");
    assertStringIncludes(text, '  names (same: holds): "cocoa"; "coffee"; "tea" -> "cocoa"; "coffee"; "tea"\n');
    assertStringIncludes(text, "  orphans (empty: holds): no rows -> no rows\n");
    assertEquals(waiting.gate?.binding?.brief_sha256, sha256Hex(canonicalJson(brief)));
  });
});

longTest("a check that has to hold and does not ends the task as the diff policy does", async () => {
  await withChecks([
    { name: "prices", sql: "SELECT sum(price) FROM items", expect: "same" },
    { name: "cheap", sql: "SELECT id FROM items WHERE price < 350", expect: "empty" },
    { name: "typo", sql: "SELECT cost FROM items", expect: "same" },
  ], async (bench, done) => {
    assertEquals(done.outcome, "policy_blocked");
    assertStringIncludes(done.reason!, "the check prices of shop@main does not hold (same): 1150 -> 1550");
    assertStringIncludes(done.reason!, "the check cheap of shop@main does not hold (empty): 1 -> 1");
    assertStringIncludes(
      done.reason!,
      "does not hold (same): Error: no such column: cost -> Error: no such column: cost",
    );
    assertStringIncludes(renderBrief(await bench.brief(done)), "prices (same: DOES NOT HOLD): 1150 -> 1550");
    assertEquals((await bench.rows()).length, 3);
  });
});

Deno.test("a check that the merge with a moved base would break lands nothing, until it holds again", async () => {
  const dear = "SELECT sum(price) FROM items HAVING sum(price) > 1600";
  await withChecks([
    { name: "dear", sql: dear, expect: "empty" },
    { name: "names", sql: "SELECT name FROM items WHERE id < 4", expect: "same" },
  ], async (bench, waiting) => {
    assertEquals(waiting.stage, "awaiting_approval", waiting.reason);
    await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
    const refused = await bench.approve(waiting, "push_failed");
    assertEquals(refused.stage, "push_failed");
    assertStringIncludes(refused.reason!, "Nothing has landed, neither code nor data: the check dear of shop@main");
    assertStringIncludes(refused.reason!, "does not hold (empty): no rows -> 1650");
    assert(!(await bench.broker.branches()).has(`agent/${waiting.id}`));
    assertEquals((await bench.rows()).at(-1), [9, "milk", 100]);
    const branches = async () =>
      (await bench.store((client) => client.call("branches", { db: "shop" }))).branches.map(({ branch }) => branch);
    assertEquals((await branches()).filter((name) => name.startsWith("check-")), []);
    await bench.write("UPDATE items SET price = 40 WHERE id = 9");
    await bench.broker.engine.push(waiting.id);
    const done = await bench.broker.reaches(waiting.id);
    assertEquals(done.outcome, "pushed", done.reason);
    assertEquals((await bench.rows()).map((row) => (row as unknown[])[2]), [300, 500, 400, 350, 40]);
  });
});

/** Ends what has no end after a second. */
const hasty: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 1_000), signal) };

/** The answers on two databases. */
async function checked(
  base: string,
  result: string,
  checks: Omit<ProfileCheck, "name" | "database">[],
  clock = systemClock,
) {
  const work_dir = Deno.realPathSync(Deno.makeTempDirSync());
  try {
    sqlite(`${work_dir}/base.db`, base);
    sqlite(`${work_dir}/result.db`, result);
    const was = await Deno.readFile(`${work_dir}/result.db`);
    const deno_cache_dir = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
    const options = { deno_path: Deno.execPath(), deno_cache_dir, clock };
    const named = checks.map((check, at) => ({ name: `${at}`, database: "shop", ...check }));
    const found = await runChecks(options, { work_dir, signal: new AbortController().signal }, named);
    assertEquals(await Deno.readFile(`${work_dir}/result.db`), was, "a check writes nothing");
    return found;
  } finally {
    Deno.removeSync(work_dir, { recursive: true });
  }
}

const errorsOf = (checks: BriefCheck[]) => checks.map(({ after }) => "error" in after ? after.error : "");

Deno.test("attack: what stands for a table, or ends a query early, is an error and never holds", async () => {
  const sql = "SELECT abs(price) AS price FROM items WHERE price < 0";
  for (
    const [hostile, words] of [
      ["CREATE VIEW items AS SELECT 1 AS price WHERE 0", "not authorized"],
      ["CREATE VIEW Items AS WITH c AS (SELECT 1 AS price) SELECT * FROM c WHERE 0", "not authorized"],
      ["CREATE VIEW items AS WITH RECURSIVE c(price) AS (SELECT 1 UNION ALL SELECT price FROM c) SELECT * FROM c", ""],
      ["CREATE TABLE other(price)", "no such table: items"],
      [`${SHOP}; INSERT INTO items VALUES (-1, 'tea', -9223372036854775808), (7, 'tea', -1)`, "integer overflow"],
    ] as const
  ) {
    const found = await checked(SHOP, hostile, [{ sql, expect: "empty" }, { sql, expect: "same" }]);
    assertEquals(found.map(({ holds }) => holds), [false, false], hostile);
    for (const error of errorsOf(found)) assert(error !== "" && error.includes(words), `${hostile}: ${error}`);
    const [database] = [{ db: "shop", base: "main", checks: found }];
    assertEquals(failedChecks([database as never]).length, 2);
  }
});

Deno.test("attack: a query without an end is ended, and what is no query is refused", async () => {
  const circle = "CREATE TABLE nodes(id, parent); INSERT INTO nodes VALUES (1, 2), (2, 1)";
  const up =
    "WITH RECURSIVE up(id) AS (SELECT 1 UNION ALL SELECT parent FROM nodes JOIN up USING (id)) SELECT count(*) FROM up";
  const [endless] = await checked("CREATE TABLE nodes(id, parent)", circle, [{ sql: up, expect: "same" }], hasty);
  assertEquals(endless!.holds, false);
  assertStringIncludes(errorsOf([endless!])[0]!, "no end after 30 s");
  const two = await checked(SHOP, SHOP, [
    { sql: "SELECT 1) SELECT 2; DELETE FROM items; --" },
    { sql: "WITH x AS (SELECT 1) DELETE FROM items RETURNING 1" },
    { sql: "SELECT load_extension('/tmp/x.so')" },
    { sql: "SELECT * FROM pragma_writable_schema(1)" },
  ]);
  assertEquals(errorsOf(two).filter((error) => error === ""), []);
});

Deno.test("answers of many rows are compared to the last byte, and the first rows are shown", async () => {
  const many = "CREATE TABLE t(x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) " +
    "INSERT INTO t SELECT 'row ' || i FROM n";
  const pairs = ["1", "1.0", "'1'", "x'31'", "0.0", "-0.0", "NULL", "CAST(x'ff' AS TEXT)", "CAST(x'fe' AS TEXT)"]
    .concat(["'a' || char(0) || 'b'", "'a' || char(0) || 'c'", "hex(zeroblob(5000))", "hex(zeroblob(5000)) || '1'"]);
  const values = pairs.map((value) => `SELECT ${value}`).join(" UNION ALL ");
  const [same, all] = await checked(many, `${many}; UPDATE t SET x = CAST(x AS BLOB) WHERE rowid = 9999`, [
    { sql: "SELECT x FROM t", expect: "same" },
    { sql: values, expect: "same" },
  ]);
  assert("rows" in same!.after && "rows" in all!.after);
  assertEquals([same!.holds, same!.after.count, same!.after.rows.length], [false, 9_999, 20]);
  assertEquals(all!.holds, true);
  assertEquals(new Set(all!.after.rows.map((row) => JSON.stringify(row))).size, pairs.length);
});
