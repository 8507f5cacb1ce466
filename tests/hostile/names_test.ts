import { assertEquals } from "@std/assert";
import { parseAddress } from "../../lib/store/names.ts";
import { sqlite3Write } from "../support/writers/oracle.ts";
import { Bench, contentOf, type Operator } from "./_bench.ts";
import { longTest } from "../support/long.ts";

/** Does everything once with the given names. */
async function everything(bench: Bench, operator: Operator, db: string, branch: string, checkpoint: string) {
  const main = { db, branch: "main" };
  const fork = { db, branch };
  await operator.ok("create", db, { from: await bench.database({ rows: 5 }) });
  await operator.ok("fork", main, branch);
  const { path } = await operator.ok("checkout", fork);
  await sqlite3Write(String(path), "INSERT INTO t(body) VALUES('x')");
  await operator.ok("checkpoint", fork, checkpoint);
  const before = contentOf(String(path));
  const readOnly = await operator.ok("checkout", { ...fork, checkpoint });
  assertEquals(contentOf(String(readOnly.path)), before);
  assertEquals((await operator.ok("checkout", { ...fork, checkpoint })).source, "cached");
  const checkout = String(await operator.ok("session_open", fork));
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('y')");
  await operator.ok("session_flush");
  await operator.ok("session_close");
  await operator.ok("rollback", { ...fork, checkpoint });
  await operator.ok("promote", fork, main);
  await operator.ok("diff", fork, main);
  await operator.ok("verify", { ...fork, checkpoint });
  await operator.ok("status", fork);
  await operator.ok("compact", fork);
  assertEquals(await bench.read(operator, `${db}@${branch}`), before);
  assertEquals(await bench.read(operator, `${db}@main`), before);
  await operator.ok("destroy", fork);
  await operator.fails("not_found", "status", fork);
}

Deno.test("the longest names, and names that mean something to JavaScript, work like others", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  const long = "n".repeat(128);
  for (
    const [db, branch, checkpoint] of [
      [long, long, long],
      ["__proto__", "constructor", "__proto__"],
      ["hasownproperty", "__proto__", "tostring"],
      ["0", "1", "2"],
      ["a.db", "b.db-wal", "c.json"],
      ["a.db.sum", "b.shadow", "c.last-used"],
    ] as const
  ) {
    await everything(bench, operator, db, branch, checkpoint);
  }
  await operator.end();
});

Deno.test("names outside the rules are refused by every operation before anything is touched", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  await operator.ok("create", "app");
  const main = parseAddress("app");
  for (
    const name of [
      "",
      ".",
      "..",
      "a..b",
      "-a",
      ".a",
      "~by-chain",
      "A",
      "a/b",
      "a@b",
      "a b",
      "a\0b",
      "ä",
      "n".repeat(129),
    ]
  ) {
    await operator.fails("invalid_name", "create", name);
    await operator.fails("invalid_name", "fork", main, name);
    await operator.fails("invalid_name", "checkpoint", main, name);
  }
  await bench.audit(["app@main"]);
});

longTest("a store works under any path, also one that means something to URIs or shells", async (t) => {
  for (
    const name of [
      "we?ird=1&mode=ro",
      "a#b",
      "100%41",
      "two  spaces",
      'it\'s "quoted"',
      "zeile\numbruch",
      "ünï→",
      "-rf",
    ]
  ) {
    await t.step(JSON.stringify(name), async () => {
      await using outer = await Bench.make();
      await using bench = await Bench.make(`${outer.directory}/${name}/store`);
      const operator = bench.operator();
      await everything(bench, operator, "app", "try", "one");
      await operator.end();
    });
  }
});
