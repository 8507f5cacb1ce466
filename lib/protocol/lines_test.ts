import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { decodeLine, encodeLine, LineSplitter } from "./lines.ts";

function texts(splitter: LineSplitter, chunks: Uint8Array[]): string[] {
  const seen: string[] = [];
  for (const chunk of chunks) {
    const reused = chunk.slice();
    for (const line of splitter.push(reused)) seen.push(line.kind === "line" ? decodeLine(line.bytes)! : line.kind);
    reused.fill(0xff);
  }
  for (const line of splitter.end()) seen.push(line.kind);
  return seen;
}

function split(bytes: Uint8Array, cuts: number[]): Uint8Array[] {
  const points = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return points.slice(1).map((point, index) => bytes.subarray(points[index]!, point));
}

Deno.test("lines come out the same however the stream was cut, and a long one spoils only itself", () => {
  const max = 8;
  fc.assert(fc.property(
    fc.array(fc.string({ maxLength: 14 }).map((text) => text.replaceAll("\n", " ")), { maxLength: 8 }),
    fc.string({ maxLength: 14 }).map((text) => text.replaceAll("\n", " ")),
    fc.array(fc.nat(200), { maxLength: 10 }),
    (lines, rest, cuts) => {
      const size = (text: string) => new TextEncoder().encode(text).length;
      const expected = lines.map((line) => size(line) > max ? "too_long" : line);
      if (size(rest) > max) expected.push("too_long");
      else if (rest !== "") expected.push("unterminated");
      const bytes = new TextEncoder().encode(lines.map((line) => `${line}\n`).join("") + rest);
      assertEquals(texts(new LineSplitter(max), split(bytes, cuts)), expected);
    },
  ));
});

Deno.test("a line of exactly the limit passes, one byte more does not", () => {
  assertEquals(texts(new LineSplitter(4), [new TextEncoder().encode("1234\n12345\n1\n")]), ["1234", "too_long", "1"]);
});

Deno.test("a line that is not UTF-8 has no text", () => {
  assertEquals(decodeLine(new Uint8Array([0x22, 0xff, 0x22])), undefined);
  assertEquals(decodeLine(new Uint8Array([0xed, 0xa0, 0x80])), undefined);
});

Deno.test("encodeLine() keeps a value on one line", () => {
  const line = new TextDecoder().decode(encodeLine({ text: "a\nb\u2028" }));
  assert(line.indexOf("\n") === line.length - 1);
});
