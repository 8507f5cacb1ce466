import { assert, assertEquals } from "@std/assert";
import type { Row } from "../task/rows.ts";
import type { Task } from "../task/task.ts";
import { TaskStore } from "../task/task_store.ts";
import { Transcript } from "./transcript.ts";

/** The rows of a task whose output is what `print` takes. */
async function rowsOf(print: (transcript: Transcript, task: Task) => void | Promise<void>): Promise<Row[]> {
  const root = await Deno.makeTempDir();
  try {
    const tasks = await TaskStore.open(root);
    const task = await tasks.create({ repo: "/srv/app", instruction: "x", agent: "agent_d" });
    const transcript = new Transcript(task);
    await print(transcript, task);
    await transcript.close();
    const rows: Row[] = [];
    for await (const row of tasks.follow(task.id, { signal: new AbortController().signal })) {
      rows.push(row);
      if (row.seq === task.record.seq) break;
    }
    await tasks.close();
    return rows;
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const outputs = (rows: Row[]) =>
  rows.flatMap((row) => row.type === "output" ? [{ channel: row.channel, text: row.text }] : []);

Deno.test("attack: a million empty lines are kept in few rows: the broker has other things to do", async () => {
  const rows = await rowsOf(async (transcript) => {
    for (let turn = 0; turn < 16; turn++) {
      for (let line = 0; line < 65_536; line++) transcript.take("stdout", "");
      await new Promise((resolve) => setTimeout(resolve));
    }
  });
  const texts = outputs(rows).map(({ text }) => text);
  assert(rows.length < 200, `${rows.length} rows`);
  assertEquals(texts.reduce((lines, text) => lines + text.split("\n").length, 0), 16 * 65_536);
});

Deno.test("output keeps order and channels, and a line too long for a row is marked as cut", async () => {
  const rows = await rowsOf((transcript) => {
    transcript.take("stdout", "one");
    transcript.take("stdout", '{"total_cost_usd": 0.25}');
    transcript.take("stderr", "two");
    transcript.take("stdout", "x".repeat(20_000));
    transcript.take("stdout", "three");
  });
  assertEquals(outputs(rows), [
    { channel: "stdout", text: 'one\n{"total_cost_usd": 0.25}' },
    { channel: "stderr", text: "two" },
    { channel: "stdout", text: "x".repeat(16_384) },
    { channel: "stdout", text: "three" },
  ]);
  assertEquals(rows.at(-1)?.type, "claimed");
});

Deno.test("output faster than the disk is bounded in memory, and its loss is reported", async () => {
  const rows = await rowsOf((transcript) => {
    for (let line = 0; line < 1_000; line++) transcript.take("stdout", "x".repeat(8_000));
  });
  const kept = outputs(rows).reduce((lines, { text }) => lines + text.split("\n").length, 0);
  assert(kept > 400 && kept < 600, `${kept} lines`);
  assertEquals(rows.flatMap((row) => row.type === "note" ? [row.text] : []), [
    `${1_000 - kept} lines of output could not be kept`,
  ]);
});
