import { assert, assertEquals } from "@std/assert";
import type { ErrorCode } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { sqlite3, sqlite3Write } from "../support/writers/oracle.ts";
import { Writer } from "../support/writers.ts";
import { Bench, contentOf, type Operator } from "./_bench.ts";
import { longTest } from "../support/long.ts";

const main = parseAddress("app");

/** A store with an open session on `app@main`. */
async function live(rows = 200): Promise<{ bench: Bench; operator: Operator; checkout: string }> {
  const bench = await Bench.make();
  const operator = bench.operator();
  await operator.ok("create", "app", { from: await bench.database({ rows }) });
  const checkout = String(await operator.ok("session_open", main));
  return { bench, operator, checkout };
}

/** What the checkout holds, read by another process into a copy of its own. */
async function truth(bench: Bench, checkout: string): Promise<string> {
  const copy = bench.file("truth");
  await sqlite3Write(checkout, `VACUUM INTO '${copy}'`);
  return contentOf(copy);
}

async function branch(bench: Bench): Promise<string> {
  const operator = bench.operator();
  const content = await bench.read(operator, "app@main");
  await operator.end();
  return content;
}

Deno.test("VACUUM, growth, shrinking and schema changes under a session are captured", async (t) => {
  const { bench, operator, checkout } = await live();
  await using _ = bench;
  const steps: Record<string, string> = {
    "VACUUM": "DELETE FROM t WHERE id % 2; VACUUM",
    "growth": "INSERT INTO t(body) SELECT hex(zeroblob(500)) FROM t",
    "shrinking to one row": "DELETE FROM t WHERE id > 1; VACUUM",
    "growth after shrinking": "INSERT INTO t(body) VALUES(hex(zeroblob(100000)))",
    "allocated and freed in one transaction":
      "BEGIN; CREATE TABLE big(x); INSERT INTO big VALUES(zeroblob(300000)); DROP TABLE big; COMMIT",
    "a dropped table":
      "CREATE TABLE extra(a); INSERT INTO extra VALUES(zeroblob(50000)); DROP TABLE t; CREATE TABLE t(id, body)",
    "incremental vacuum": "PRAGMA auto_vacuum=INCREMENTAL; VACUUM; DROP TABLE extra; PRAGMA incremental_vacuum",
    "checkpoints of the application's own": "INSERT INTO t VALUES(1, 'x'); PRAGMA wal_checkpoint(PASSIVE)",
    "user_version": "PRAGMA user_version=5; PRAGMA application_id=77",
  };
  for (const [name, sql] of Object.entries(steps)) {
    await t.step(name, async () => {
      await sqlite3Write(checkout, sql);
      await operator.ok("session_flush");
      assertEquals(await branch(bench), await truth(bench, checkout));
    });
  }
  await operator.ok("session_close");
  assertEquals(await branch(bench), await truth(bench, checkout));
  await operator.end();
});

Deno.test("a journal mode or page size change is locked out while the session is open", async () => {
  const { bench, operator, checkout } = await live();
  await using _ = bench;
  const attempt = await new Deno.Command("sqlite3", {
    args: ["-batch", checkout],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const input = attempt.stdin.getWriter();
  await input.write(new TextEncoder().encode("PRAGMA journal_mode=DELETE;\nPRAGMA page_size=8192;\nVACUUM;\n"));
  await input.close();
  assert(new TextDecoder().decode((await attempt.output()).stderr).includes("locked"));
  assertEquals(await sqlite3(checkout, ["PRAGMA journal_mode; PRAGMA page_size"]), "wal\n4096\n");
  await operator.ok("session_flush");
  assertEquals(await branch(bench), await truth(bench, checkout));
  await operator.end();
});

Deno.test("a page size or journal mode changed between two sessions is taken over", async () => {
  const { bench, operator, checkout } = await live();
  await using _ = bench;
  await operator.ok("session_close");
  await sqlite3Write(
    checkout,
    "PRAGMA journal_mode=DELETE; PRAGMA page_size=16384; VACUUM; INSERT INTO t(body) VALUES('x')",
  );
  assertEquals(await sqlite3(checkout, ["PRAGMA page_size"]), "16384\n");
  await operator.ok("session_open", main);
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('y')");
  await operator.ok("session_flush");
  await operator.ok("session_close");
  assertEquals(await branch(bench), await truth(bench, checkout));
  await operator.end();
});

Deno.test("a long reader holds back neither flush nor close", async () => {
  const { bench, operator, checkout } = await live();
  await using _ = bench;
  const reader = await Writer.start("python", checkout);
  try {
    assertEquals((await reader.run({ seq: 1, kind: "reader", sql: [], reader: "begin" })).result, "ack");
    for (let round = 0; round < 3; round++) {
      await sqlite3Write(checkout, "INSERT INTO t(body) SELECT body FROM t LIMIT 100");
      await operator.ok("session_flush");
      assertEquals(await branch(bench), await truth(bench, checkout));
    }
    await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('last')");
    const expected = await truth(bench, checkout);
    await operator.ok("session_close");
    assertEquals(await branch(bench), expected);
    assertEquals((await reader.run({ seq: 2, kind: "reader", sql: [], reader: "end" })).result, "ack");
  } finally {
    await reader.end();
  }
  await operator.ok("session_open", main);
  await operator.ok("session_close");
  assertEquals(await branch(bench), await truth(bench, checkout));
  await operator.end();
});

/** What can be done to a checkout under an open session; none of it may become the branch's content. */
const SABOTAGE: Record<string, (checkout: string, bench: Bench) => Promise<unknown>> = {
  "removed": (checkout) => Deno.remove(checkout),
  "removed with its -wal and -shm": async (checkout) => {
    for (const suffix of ["", "-wal", "-shm"]) await Deno.remove(checkout + suffix);
  },
  "replaced by another database": async (checkout, bench) => Deno.rename(await bench.database({ rows: 3 }), checkout),
  "replaced by text": async (checkout, bench) => {
    const file = bench.file("text");
    await Deno.writeTextFile(file, "hello\n".repeat(500));
    await Deno.rename(file, checkout);
  },
  "replaced by an empty file": async (checkout, bench) => {
    const file = bench.file("empty");
    await Deno.writeFile(file, new Uint8Array(0));
    await Deno.rename(file, checkout);
  },
  "emptied": (checkout) => Deno.truncate(checkout, 0),
  "replaced by a directory": async (checkout) => {
    await Deno.remove(checkout);
    await Deno.mkdir(checkout);
  },
  "without its directory": (checkout) => Deno.remove(checkout.slice(0, checkout.lastIndexOf("/")), { recursive: true }),
  "its -wal removed": (checkout) => Deno.remove(`${checkout}-wal`),
  "its -wal emptied": (checkout) => Deno.truncate(`${checkout}-wal`, 0),
};

const LOST: ErrorCode[] = [
  "capture_failed",
  "session_failed",
  "not_found",
  "not_a_database",
  "corrupt",
  "denied",
  "busy",
];

longTest("a checkout removed or replaced under a session is an error, never other content", async (t) => {
  for (const [name, sabotage] of Object.entries(SABOTAGE)) {
    await t.step(name, async () => {
      const { bench, operator, checkout } = await live();
      await using _ = bench;
      await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('durable')");
      await operator.ok("session_flush");
      const durable = await truth(bench, checkout);
      await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('late')");
      const late = await truth(bench, checkout);
      await sabotage(checkout, bench);
      // What was committed before may still be saved; what came in its place may not.
      const flushed = await operator.run("session_flush");
      assert(flushed !== undefined, "flush hung or died");
      if (!flushed.ok) assert((LOST as string[]).includes(flushed.code), `${flushed.code}: ${flushed.message}`);
      const again = await operator.run("session_flush");
      assert(again !== undefined, "flush hung or died");
      const closed = await operator.run("session_close");
      assert(closed !== undefined, "close hung or died");
      if (!closed.ok) assert((LOST as string[]).includes(closed.code), `${closed.code}: ${closed.message}`);
      await operator.end();
      const content = await branch(bench);
      assert(content === durable || content === late, "the branch has another content");
      if (content === durable) {
        assert([flushed, again, closed].some((answer) => !answer.ok), "commits were lost without an error");
      }

      // Afterwards the branch can be had again as it is.
      const next = bench.operator();
      await Deno.remove(checkout, { recursive: true }).catch(() => {});
      for (const suffix of ["-wal", "-shm"]) await Deno.remove(checkout + suffix).catch(() => {});
      await next.ok("checkout", main, { force: true });
      assertEquals(contentOf(checkout), content);
      await next.ok("session_open", main);
      await next.ok("session_close");
      assertEquals(await branch(bench), content);
      await next.end();
    });
  }
});

Deno.test("a second session on the branch is refused and the first is not disturbed", async () => {
  const { bench, operator, checkout } = await live();
  await using _ = bench;
  const second = bench.operator();
  await second.fails("lease_held", "session_open", main);
  for (const op of ["compact", "destroy"]) await second.fails("lease_held", op, main);
  await second.fails("lease_held", "checkpoint", main, "cp");
  await second.fails(["lease_held", "not_found"], "rollback", { ...main, checkpoint: "cp" });
  await second.end();
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('x')");
  await operator.ok("session_flush");
  assertEquals(await branch(bench), await truth(bench, checkout));
  await operator.ok("session_close");
  await operator.end();
});

Deno.test("a session that is killed leaves the branch open to the next one at once, with every commit", async () => {
  const { bench, operator, checkout } = await live();
  await using _ = bench;
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('flushed')");
  await operator.ok("session_flush");
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('not flushed')");
  await operator.kill();
  await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('unwatched')");
  const expected = await truth(bench, checkout);
  const next = bench.operator();
  await next.ok("session_open", main);
  await next.ok("session_flush");
  assertEquals(await branch(bench), expected);
  await next.ok("session_close");
  await next.end();
});
