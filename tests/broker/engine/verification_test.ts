import { assertEquals } from "@std/assert";
import { verifyApproval } from "../../../broker/engine/verification.ts";
import { encodeRow, NO_PREVIOUS, type Row, type TaskEvent } from "../../../broker/task/rows.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { fileOf } from "../task/lives.ts";
import { BrokerBench } from "./bench.ts";

/** The rows of a trace, changed and chained anew, as one who can write the file would forge them. */
function forged(trace: Uint8Array, change: (row: Row) => Partial<Row>): Uint8Array {
  const lines = new TextDecoder().decode(trace).trimEnd().split("\n");
  let [prev, seq] = [NO_PREVIOUS, 0];
  return fileOf(lines.map((line) => {
    const row = JSON.parse(line) as Row & { sum: unknown };
    const { v: _v, seq: _seq, ts, src: _src, prev: _prev, sum: _sum, ...event } = {
      ...row,
      ...change(row),
    } as typeof row;
    const encoded = encodeRow(event as TaskEvent, { seq: ++seq, now_ms: Date.parse(ts), prev });
    prev = encoded.sha256;
    return encoded;
  }));
}

Deno.test("what landed is verified from the record alone, and a forged record is found out", async () => {
  await using bench = await BrokerBench.start();
  const { id, outcome } = await bench.pushed({ sensitive: true });
  assertEquals(outcome, "pushed");
  const audit = `${bench.home}/.taskd/audit`;
  const { verified, checks } = await bench.engine.verification(id);
  assertEquals([verified, checks.map(({ what }) => what)], [
    true,
    ["trace", "digest", "brief", "diff", "approval", "commit"],
  ]);
  await bench.broker.stop();
  // Elsewhere, without its broker, its staged tree and its code host.
  const alone = `${bench.root}/alone`;
  const failing = async (kind: string, bytes: Uint8Array | undefined) => {
    await Deno.mkdir(alone, { mode: 0o700 });
    for (const each of [".jsonl", ".brief.json", ".diff"]) {
      await Deno.copyFile(audit + `/${id}${each}`, `${alone}/${id}${each}`);
    }
    if (bytes !== undefined) await Deno.writeFile(`${alone}/${id}${kind}`, bytes);
    const tasks = await TaskStore.open(alone);
    const found = await verifyApproval(tasks, id);
    await tasks.close();
    await Deno.remove(alone, { recursive: true });
    assertEquals(found.verified, found.checks.every(({ holds }) => holds));
    return found.checks.filter(({ holds }) => !holds).map(({ what }) => what);
  };
  const trace = await Deno.readFile(`${audit}/${id}.jsonl`);
  const forge = (change: (row: Row) => Partial<Row>) => failing(".jsonl", forged(trace, change));
  assertEquals(await failing(".jsonl", undefined), []);
  assertEquals(await forge(() => ({})), []);
  assertEquals(await failing(".jsonl", trace.with(100, trace[100]! ^ 1)), ["trace"]);
  for (const kind of ["brief.json", "diff"]) {
    const bytes = await Deno.readFile(`${audit}/${id}.${kind}`);
    assertEquals(await failing(`.${kind}`, bytes.with(9, bytes[9]! ^ 1)), [kind.replace(".json", "")]);
  }
  // Before the gate nothing can be written anew: the gate names the rows.
  assertEquals(
    await forge((row) => row.type === "created" ? { task: { ...row.task, instruction: "Say hallo" } } : {}),
    [
      "trace",
    ],
  );
  assertEquals(
    await forge((row) => row.type === "stage" && row.gate ? { gate: { ...row.gate, second_look: [] } } : {}),
    ["trace"],
  );
  const other_commit = "c".repeat(40);
  assertEquals(
    await forge((row) => row.type === "stage" && row.pushed ? { pushed: { ...row.pushed, commit: other_commit } } : {}),
    ["commit"],
  );
  assertEquals(
    await forge((row) =>
      row.type === "stage" && row.approval ? { approval: { ...row.approval, acknowledged: [] } } : {}
    ),
    ["approval"],
  );
  // The time of the approval is in the commit.
  assertEquals(
    await forge((row) => row.type === "stage" && row.approval ? { ts: "2001-01-01T00:00:00.000Z" } : {}),
    ["commit"],
  );
});
