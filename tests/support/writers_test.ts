import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { type Outcome, Writer, WRITER_KINDS } from "./writers.ts";
import { differingPages, dumpDigest, EXPECTED_MONEY, inspect, sqlite3Write } from "./writers/oracle.ts";
import { SeededRandom } from "./writers/random.ts";
import { initialSchema, workload } from "./writers/workload.ts";

async function newDatabase(directory: string): Promise<string> {
  const path = `${directory}/app.db`;
  await sqlite3Write(path, `PRAGMA journal_mode=WAL;\nBEGIN;\n${initialSchema().join(";\n")};\nCOMMIT;`);
  return path;
}

Deno.test("stock writers at once keep what they acknowledge, also when one is killed", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const path = await newDatabase(directory);
    const random = new SeededRandom(1);
    const acknowledged: number[][] = [];
    await Promise.all(WRITER_KINDS.map(async (kind, index) => {
      const writer = await Writer.start(kind, path);
      const jobs = workload(random.fork(), index, { maintenance: true, readers: kind !== "shell" });
      const outcomes: Promise<Outcome>[] = [];
      for (let count = 0; count < 60; count++) outcomes.push(writer.run(jobs.next().value!));
      if (kind === "python") {
        await outcomes[20];
        await writer.kill();
      }
      const settled = await Promise.all(outcomes);
      assertEquals(settled.filter((outcome) => outcome.result === "error"), []);
      if (kind !== "python") assertEquals(settled.filter((outcome) => outcome.result === "lost"), []);
      await writer.end();
      assertEquals(/malformed|corrupt/.test(writer.complaints), false);
      acknowledged[index] = writer.acknowledged;
    }));
    const findings = await inspect(path);
    assertEquals(findings.integrity, "ok");
    assertEquals(findings.money, EXPECTED_MONEY);
    for (const [index, list] of acknowledged.entries()) {
      assert(list.length > 10);
      assertEquals(list.filter((seq) => !findings.acknowledged.get(index)!.has(seq)), []);
    }
    await sqlite3Write(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    assertEquals(await differingPages(path, path, directory), []);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("the oracle detects a lost commit and a changed page", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const path = await newDatabase(directory);
    const copy = `${directory}/copy.db`;
    await sqlite3Write(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    await Deno.copyFile(path, copy);
    const before = await dumpDigest(copy);
    assertEquals(before, await dumpDigest(path));
    await sqlite3Write(path, "INSERT INTO ack VALUES(1, 1)");
    assertNotEquals(before, await dumpDigest(path));
    assert((await differingPages(path, copy, directory)).length > 0);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("the same seed makes the same jobs", () => {
  const take = (seed: number) => {
    const jobs = workload(new SeededRandom(seed), 1, { maintenance: true, readers: true });
    return Array.from({ length: 50 }, () => jobs.next().value);
  };
  assertEquals(take(7), take(7));
  assertNotEquals(take(7), take(8));
});
