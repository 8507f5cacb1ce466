import { assertEquals } from "@std/assert";
import { VirtualClock } from "../tests/support/clock.ts";
import { createLog } from "./log.ts";

/** A log and its lines. */
function logging(json: boolean) {
  const lines: string[] = [];
  return { lines, ...createLog({ json, clock: new VirtualClock(), write: (line) => lines.push(line) }) };
}

Deno.test("an entry is one JSON object, whatever its texts hold", () => {
  const { log, lines } = logging(true);
  log("warn", "push_retry", "line\nbreak \u001b[2J", { task_id: "a1", tries: 2, absent: undefined });
  assertEquals(lines.length, 1);
  assertEquals(lines[0]!.includes("\u001b"), false);
  assertEquals(JSON.parse(lines[0]!), {
    ts: "2026-01-01T00:00:00.000Z",
    level: "warn",
    event: "push_retry",
    message: "line\nbreak \u001b[2J",
    task_id: "a1",
    tries: 2,
  });
});

Deno.test("for a person an entry is one line that cannot repaint the terminal", () => {
  const { log, lines } = logging(false);
  log("info", "task_stage", "came to\nrunning \u001b[2J", { task_id: "a1" });
  assertEquals(lines, ["2026-01-01T00:00:00.000Z info  came to\\nrunning \\x1b[2J task_id=a1"]);
});

Deno.test("a text that was declared secret stands in no entry", () => {
  const { log, hide, lines } = logging(true);
  hide("sk-0123456789");
  // Too short to be a secret: it would make holes in every message.
  hide("");
  log("error", "gateway", "the key sk-0123456789 was refused", { url: "https://x/?key=sk-0123456789" });
  assertEquals(lines[0]!.includes("sk-0123456789"), false);
  assertEquals(JSON.parse(lines[0]!).message, "the key *** was refused");
  hide("sk-0123456789-AND-MORE");
  log("error", "gateway", "the key sk-0123456789-AND-MORE was refused");
  assertEquals(JSON.parse(lines[1]!).message, "the key *** was refused");
});

Deno.test("a log that cannot be written is no reason to stop", () => {
  const { log } = createLog({
    json: false,
    clock: new VirtualClock(),
    write: () => {
      throw new Error("the disk is full");
    },
  });
  log("info", "x", "y");
});
