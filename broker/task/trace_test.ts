import { unsealed } from "../../tests/support/unsealed.ts";
import { verifyTrace } from "../../tests/broker/task/verify_trace.ts";
import { assertEquals, assertThrows } from "@std/assert";
import { encodeAll, fileOf, plantTrace, someOrder, staged, TO_THE_GATE } from "../../tests/broker/task/lives.ts";
import { TaskdError } from "../../lib/errors.ts";
import { encodeRow, NO_PREVIOUS, parseLine, type TaskEvent } from "./rows.ts";
import { MAX_OUTPUT_CHARS } from "./schema.ts";
import { scanTrace, type TraceFault, type TraceHead, tracePath } from "./trace.ts";

const ID = "ab".repeat(16);
const EVENTS: TaskEvent[] = [{ type: "created", task: someOrder(ID) }, ...TO_THE_GATE.map(staged)];

async function withRoot(fn: (root: string) => void | Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await fn(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

function fault(root: string, known?: TraceHead): TraceFault {
  const verdict = verifyTrace(root, ID, known);
  if (verdict.intact) throw new Error("it is said to be intact");
  return verdict.fault;
}

function rewrite(root: string, change: (lines: string[]) => string[]): void {
  const lines = Deno.readTextFileSync(tracePath(root, ID)).split("\n").slice(0, -1);
  Deno.writeTextFileSync(tracePath(root, ID), change(lines).map((line) => line + "\n").join(""));
}

Deno.test("verifyTrace() takes a trace as written for intact", () =>
  withRoot((root) => {
    const rows = plantTrace(root, EVENTS);
    const bytes = fileOf(rows).length;
    const head = { seq: 5, sha256: rows.at(-1)!.sha256, bytes };
    assertEquals(verifyTrace(root, ID), { intact: true, head });
    assertEquals(verifyTrace(root, ID, head), { intact: true, head });
  }));

Deno.test("any one byte of any row that is changed is noticed, and the row named", () =>
  withRoot((root) => {
    const rows = plantTrace(root, EVENTS);
    const whole = fileOf(rows);
    let begin = 0;
    rows.forEach(({ line }, index) => {
      for (let at = 0; at < line.length; at++) {
        const copy = whole.slice();
        copy[begin + at]! ^= 1;
        Deno.writeFileSync(tracePath(root, ID), copy);
        // Also of the last row, which no other one vouches for, and of its newline.
        assertEquals([fault(root).seq, fault(root).problem], [index + 1, "altered"], `byte ${at} of row ${index + 1}`);
      }
      begin += line.length;
    });
  }));

Deno.test("a row that says something else is named", () =>
  withRoot((root) => {
    plantTrace(root, EVENTS);
    rewrite(root, (lines) => lines.map((line) => line.replace('"lockfile"', '"binary"')));
    assertEquals([fault(root).seq, fault(root).detail], [5, "its checksum does not match"]);
    // With the checksum it had a successor to give it away; now nothing else knows it.
    rewrite(root, (lines) => lines.map(unsealed));
    assertEquals(fault(root).seq, 1);
    plantTrace(root, EVENTS);
    rewrite(root, (lines) => lines.map((line) => line.replace("Fix the test", "Fix the tent")));
    assertEquals(fault(root).seq, 1);
    assertEquals(fault(root).problem, "altered");
  }));

Deno.test("a row that is left out, twice there or in another place is named", () =>
  withRoot((root) => {
    const changes: [(lines: string[]) => string[], number, string][] = [
      [(lines) => lines.toSpliced(2, 1), 3, "missing"],
      [(lines) => lines.toSpliced(2, 0, lines[1]!), 3, "altered"],
      [(lines) => lines.toSpliced(1, 2, lines[2]!, lines[1]!), 2, "missing"],
      [(lines) => lines.slice(1), 1, "missing"],
      [() => [], 1, "missing"],
    ];
    for (const [change, seq, problem] of changes) {
      plantTrace(root, EVENTS);
      rewrite(root, change);
      const found = fault(root);
      assertEquals([found.seq, found.problem], [seq, problem]);
    }
  }));

Deno.test("a forged history with a chain of its own is given away by the head that was noted", () =>
  withRoot((root) => {
    const rows = plantTrace(root, EVENTS);
    const head = { seq: rows.length, sha256: rows.at(-1)!.sha256, bytes: 0 };
    plantTrace(root, [{ type: "created", task: someOrder(ID, { instruction: "forged" }) }, ...EVENTS.slice(1)]);
    assertEquals(verifyTrace(root, ID).intact, true);
    assertEquals(fault(root, head).problem, "altered");
    plantTrace(root, EVENTS.slice(0, 3));
    assertEquals(fault(root, head), { seq: 4, problem: "missing", detail: "there had been 5 rows" });
  }));

Deno.test("the trace of another task under this one's name is not taken for its own", () =>
  withRoot((root) => {
    const other = "cd".repeat(16);
    plantTrace(root, [{ type: "created", task: someOrder(other) }]);
    Deno.renameSync(tracePath(root, other), tracePath(root, ID));
    assertEquals(fault(root).detail, `it is the trace of ${other}`);
  }));

Deno.test("a torn last line is distinguished from damage", () =>
  withRoot((root) => {
    const whole = fileOf(plantTrace(root, EVENTS));
    for (const bytes of [1, 50, 200]) {
      Deno.writeFileSync(tracePath(root, ID), whole.subarray(0, whole.length - bytes));
      const verdict = verifyTrace(root, ID);
      assertEquals(verdict.intact && verdict.head.seq, 4);
    }
  }));

Deno.test("a line without an end, and a path that is not a file, stop the reader early", () =>
  withRoot((root) => {
    Deno.writeFileSync(tracePath(root, ID), new Uint8Array(8 << 20).fill(0x41));
    assertEquals(fault(root).problem, "too_large");
    Deno.removeSync(tracePath(root, ID));
    Deno.symlinkSync("/dev/zero", tracePath(root, ID));
    const error = assertThrows(() => verifyTrace(root, ID), TaskdError);
    assertEquals(error.code, "denied");
  }));

Deno.test("scanTrace() goes on after a row, and stops where it is asked to", () =>
  withRoot((root) => {
    plantTrace(root, EVENTS);
    const all = [...scanTrace(tracePath(root, ID))];
    const rest = [...scanTrace(tracePath(root, ID), all[2]!.head, { end: all[3]!.head.bytes })];
    assertEquals(rest, [all[3]!]);
  }));

Deno.test("scanTrace() with a known size reads no further, and opens only a file", () =>
  withRoot((root) => {
    const rows = plantTrace(root, EVENTS);
    const path = tracePath(root, ID);
    const two = fileOf(rows.slice(0, 2)).length;
    const lines = scanTrace(path, undefined, { seen: { size: two + 10, mtime_ms: 0, is_file: true } });
    assertEquals([lines.next(), lines.next()].map(({ value }) => typeof value === "object" && value.row.seq), [1, 2]);
    assertEquals(lines.next(), { done: true, value: 10 });
    const opening = () => scanTrace(path, undefined, { seen: { size: two, mtime_ms: 0, is_file: false } }).next();
    assertEquals(assertThrows(opening, TaskdError).code, "denied");
  }));

Deno.test("rows that lie across the reader's pieces, and one larger than them, read back as they were", () =>
  withRoot((root) => {
    const outputs = Array.from({ length: 40 }, (_, index): TaskEvent => {
      // Six bytes for each character: the last is larger than what is read at once.
      const text = (index === 39 ? "\u0007" : "é").repeat(index === 39 ? MAX_OUTPUT_CHARS : 97 * index);
      return { type: "output", channel: "stdout", text };
    });
    const planted = plantTrace(root, [...EVENTS, ...outputs]);
    assertEquals([...scanTrace(tracePath(root, ID))].map(({ row }) => row), planted.map(({ row }) => row));
  }));

Deno.test("hostile output is bounded, harmless on a terminal, and reads back as it was", () => {
  const hostile = '\u001b[2J\u202e\u0000\r\n\u2028{"type":"stage"}\ud800';
  const [, row] = encodeAll([EVENTS[0]!, { type: "output", channel: "stdout", text: hostile }]);
  const text = new TextDecoder().decode(row!.line);
  assertEquals(text.indexOf("\n"), text.length - 1);
  assertEquals(["\u001b", "\u202e", "\u0000", "\u2028"].some((char) => text.includes(char)), false);
  assertEquals(row!.row.type === "output" && row!.row.text, hostile);
  assertEquals(row!.row.src, "agent");

  const long = encodeRow({ type: "output", channel: "stderr", text: "\u0007".repeat(5_000_000) }, {
    seq: 1,
    now_ms: 0,
    prev: NO_PREVIOUS,
  });
  assertEquals(long.row.type === "output" && long.row.cut_chars, 5_000_000 - MAX_OUTPUT_CHARS);
});

Deno.test("what decides about a task is refused rather than cut", () => {
  const at = { seq: 1, now_ms: 0, prev: NO_PREVIOUS };
  const bad: TaskEvent[] = [
    { type: "created", task: someOrder(ID, { instruction: "x".repeat(200_000) }) },
    { type: "created", task: someOrder("../../etc/passwd") },
    {
      type: "spend",
      spend: { usd: -1, requests: 0, unmetered_requests: 0, input_tokens: 0, output_tokens: 0, priced: true },
    },
    {
      type: "spend",
      spend: { usd: NaN, requests: 0, unmetered_requests: 0, input_tokens: 0, output_tokens: 0, priced: true },
    },
    { type: "evidence", name: "n", value: "x".repeat(2_000_000) },
  ];
  for (const event of bad) assertThrows(() => encodeRow(event, at), TaskdError, "Cannot write a");
});

Deno.test("a row that an agent could have forged is no row", () => {
  const [row] = encodeAll([EVENTS[0]!]);
  const text = new TextDecoder().decode(row!.line);
  const forged = [
    text.replace('"src":"broker"', '"src":"agent"'),
    text.replace('"v":1', '"v":2'),
    text.replace('"seq":1', '"seq":1.5'),
    text.replace('"type":"created"', '"type":"constructor"'),
    text.replace("{", '{"extra":1,'),
  ];
  for (const line of forged) assertEquals(typeof parseLine(new TextEncoder().encode(line)), "string", line);
});
