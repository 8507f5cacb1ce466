import { assertEquals } from "@std/assert";
import { verifyApproval } from "../../../broker/engine/verification.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { scaled, scaledTest } from "../../support/long.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { agentDoes, DataBench, RAISE } from "./_bench.ts";

Deno.test("two tables whose long names begin alike are two things to acknowledge", async () => {
  const name = "t".repeat(200);
  const make = (table: string) =>
    `CREATE TABLE "${table}"(id INTEGER PRIMARY KEY); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n ` +
    `WHERE i < 31) INSERT INTO "${table}" SELECT i FROM n`;
  await using bench = await DataBench.start({ script: agentDoes([make(`${name}harmless`), make(`${name}evil`)]) });
  const { gate } = await bench.toGate();
  const tables = gate!.second_look.filter((category) => category.includes("ttt"));
  assertEquals([tables.length, new Set(tables).size], [2, 2]);
  assertEquals(tables.every((category) => category.length < 300), true);
});

/** What can happen to a file of a record; each returns other bytes. */
const DAMAGES: Record<string, (bytes: Uint8Array, random: SeededRandom) => Uint8Array> = {
  "one bit": (bytes, random) => {
    const at = random.between(0, bytes.length - 1);
    return bytes.with(at, bytes[at]! ^ 1 << random.between(0, 7));
  },
  "a cut": (bytes, random) => bytes.slice(0, random.between(0, bytes.length - 1)),
  "a piece less": (bytes, random) => {
    const at = random.between(0, bytes.length - 1);
    return Uint8Array.from([...bytes.slice(0, at), ...bytes.slice(at + random.between(1, 40))]);
  },
  "a line twice": (bytes, random) => {
    const lines = new TextDecoder().decode(bytes).split("\n");
    const at = random.between(0, lines.length - 2);
    return new TextEncoder().encode([...lines.slice(0, at + 1), ...lines.slice(at)].join("\n"));
  },
};

scaledTest("no file of a record can be changed in any way without being found", async () => {
  const random = new SeededRandom(1);
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { id } = await bench.approve(await bench.toGate());
  const audit = `${bench.broker.home}/.taskd/audit`;
  await bench.broker.broker.stop();
  for (const kind of ["jsonl", "brief.json", "diff", "trees/shop"]) {
    const path = `${audit}/${id}.${kind}`;
    const bytes = await Deno.readFile(path);
    for (const [name, damage] of Object.entries(DAMAGES)) {
      if (name === "a line twice" && kind === "trees/shop") continue;
      for (let round = 0; round < scaled({ short: 12, long: 200, longest: 2_000 }); round++) {
        const damaged = damage(bytes, random);
        if (damaged.length === bytes.length && damaged.every((byte, at) => byte === bytes[at])) continue;
        await Deno.writeFile(path, damaged);
        const found = await verified(audit, id);
        assertEquals(found, false, `${kind}: ${name}, round ${round}`);
      }
    }
    await Deno.writeFile(path, bytes);
    assertEquals(await verified(audit, id), true);
  }
});

/** A record that cannot be read is found out as well. */
async function verified(audit: string, id: string): Promise<boolean> {
  try {
    const tasks = await TaskStore.open(audit);
    try {
      return (await verifyApproval(tasks, id)).verified;
    } finally {
      await tasks.close();
    }
  } catch (error) {
    if (error instanceof TaskdError) return false;
    throw error;
  }
}
