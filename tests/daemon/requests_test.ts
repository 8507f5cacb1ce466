import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ERROR_CODES } from "../../lib/errors.ts";
import type { OpName } from "../../lib/protocol/messages.ts";
import { COMMON_ERRORS, type Field, OPS } from "../../lib/protocol/operations.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";
import { RawClient } from "./raw_client.ts";

/** A right value for each type that fields have. */
const RIGHT: Record<string, unknown> = {
  name: "nothing-of-that-name",
  address: "nothing-of-that-name",
  point: "txid:1",
  string: "text",
  boolean: false,
  "absolute path": "/nonexistent/folder/file.db",
  "absolute path or s3://bucket/prefix": "/nonexistent/folder",
  integer: 1,
  "integer, bytes": 256,
  "integer, ms": 1000,
  "integer, ms or 0": 1000,
  "integer, ms, or null": 1000,
  levels: "1d,1h:7d",
  "levels or null": "none",
  "array of strings": ["t"],
  "`added`, `removed`, `changed`": "added",
  "`ours`, `theirs`": "ours",
  "array of resolution objects": [{ table: "t", key: { id: 1 }, take: "ours" }],
};

/** Wrong values for each type; the last few are huge. */
const WRONG: Record<string, unknown[]> = {
  name: ["", "-x", ".x", "a..b", "A", "a/b", "a@b", "a\0b", "x".repeat(129), "x".repeat(900_000)],
  address: ["", "@", "a@", "a@b@c@d", "../x", "A", "x".repeat(900_000)],
  point: ["", "A", "txid:", "age:soon", "time:never", "../x", "a\0b", "x".repeat(129), "x".repeat(900_000)],
  string: ["a\0b", "x".repeat(4097), "x".repeat(900_000)],
  boolean: ["true", 1, "x".repeat(900_000)],
  "absolute path": ["", "relative", "a\0b", "/a\0b", `/${"x".repeat(4095)}`, "x".repeat(900_000)],
  "absolute path or s3://bucket/prefix": ["", "relative", "http://a/b", "a\0b", "x".repeat(900_000)],
  integer: [-1, 0.5, 1e300, 10_001, "1"],
  "integer, bytes": [-1, 0.5, 1e300, 2 ** 24 + 1, "1"],
  "integer, ms": [0, -1, 0.5, 1e300, Number.MAX_SAFE_INTEGER, "1"],
  "integer, ms or 0": [-1, 0.5, 1e300, Number.MAX_SAFE_INTEGER, "1"],
  "integer, ms, or null": [0, -1, 0.5, 1e300, Number.MAX_SAFE_INTEGER, "1"],
  levels: ["", "1d,", "0", "1h:", "a\0b", Array(9).fill("1d").join(), "x".repeat(257), "x".repeat(900_000)],
  "levels or null": ["", "default", "1d:1d:1d", "x".repeat(900_000)],
  "`added`, `removed`, `changed`": ["", "ADDED", "constructor", "x".repeat(900_000)],
  "`ours`, `theirs`": ["", "OURS", "constructor", "x".repeat(900_000)],
  "array of resolution objects": [
    [{ table: "t" }],
    [{ take: "ours" }],
    [{ table: "t", take: "mine" }],
    [{ table: "t", take: "ours", more: 1 }],
    [{ table: "t", take: "ours", key: { id: { float: 1 } } }],
  ],
  "array of strings": ["t", [1], [["t"]], Array(1001).fill("t"), ["a\0b"], Array(100_000).fill("t")],
};
const NEVER = [{}, { length: 1 }, [], [null], true, 7, null];

function isRight(type: string, value: unknown): boolean {
  if (value === null) return type.endsWith("or null");
  if (type === "boolean") return typeof value === "boolean";
  if (type === "array of resolution objects") return Array.isArray(value) && value.length === 0;
  if (type === "array of strings") return Array.isArray(value) && value.every((one) => typeof one === "string");
  return type.startsWith("integer") && typeof value === "number" && Number.isFinite(value);
}

// conformance: 1.operations
Deno.test("every operation refuses each field that is missing, wrong, huge or unknown by its name", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await RawClient.connect(place.socket);
  let refused = 0;
  const refuse = async (op: OpName, args: object, field: string) => {
    const answer = await client.ask(JSON.stringify({ op, id: refused++, ...args }));
    const about = `${op} ${field}: ${JSON.stringify(answer).slice(0, 300)}`;
    assertEquals([answer.ok, answer.id], [false, refused - 1], about);
    assert(answer.code === "invalid_request" || answer.code === "invalid_name", about);
    assertStringIncludes(answer.error, `"${field}"`, about);
    assert(answer.error.length < 1000, "a message never repeats a huge value");
  };
  for (const op of Object.keys(OPS) as OpName[]) {
    const fields = Object.entries(OPS[op].fields as Record<string, Field<unknown>>);
    const right = Object.fromEntries(fields.map(([name, field]) => [name, RIGHT[field.type]]));
    await refuse(op, { ...right, surprise: 1 }, "surprise");
    for (const [name, { required, type }] of fields) {
      const { [name]: _left_out, ...without } = right;
      if (required) await refuse(op, without, name);
      for (const value of [...WRONG[type]!, ...NEVER.filter((value) => !isRight(type, value))]) {
        await refuse(op, { ...right, [name]: value }, name);
      }
    }
    if (op === "shutdown" || op === "subscribe") continue;
    // With nothing wrong about its fields it is run, and answers within the contract whatever it finds.
    const answer = await client.ask(JSON.stringify({ op, ...right }));
    assert(answer.ok || (answer.code in ERROR_CODES && answer.code !== "internal"), `${op}: ${JSON.stringify(answer)}`);
    assert(answer.ok || [...OPS[op].errors, ...COMMON_ERRORS].includes(answer.code), `${op} documents ${answer.code}`);
  }
  assert(refused > 300);
  assertEquals(daemon.log.filter((line) => line.includes("defect")), []);
});

Deno.test("100 MB without a newline is one error and costs the daemon no memory to speak of", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await RawClient.connect(place.socket);
  assertEquals((await client.ask('{"op":"databases"}')).ok, true);
  const before = await peakRssBytes(daemon.pid);
  const megabyte = new Uint8Array(1 << 20).fill(0x61);
  for (let sent = 0; sent < 100; sent++) await client.send(megabyte);
  await client.send("\n");
  assertEquals((await client.next()).code, "too_large");
  assertEquals((await client.ask('{"op":"databases"}')).ok, true);
  const grown = await peakRssBytes(daemon.pid) - before;
  assert(grown < 32 << 20, `the peak grew by ${grown} bytes`);
});

/** The most memory a process has ever had in RAM. */
async function peakRssBytes(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return 1024 * Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]);
}
