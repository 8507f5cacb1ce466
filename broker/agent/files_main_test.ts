import { assertEquals, assertRejects } from "@std/assert";
import { encodeCall } from "./calls.ts";
import { serveCalls } from "./files_main.ts";

const line = (name: string) => new TextDecoder().decode(encodeCall({ name, arguments: "{}" })).slice(1).trim();
const answer = { ok: true, text: "", summary: "" };

Deno.test("calls are done one at a time: one that comes early ends the process, and is not begun", async () => {
  const begun: string[] = [];
  const never = new Promise<never>(() => {});
  const work = ({ name }: { name: string }) => {
    begun.push(name);
    return never;
  };
  const lines = ReadableStream.from([line("first"), line("second")]);
  await assertRejects(() => serveCalls(lines, work, () => {}), Error, "before the one before it was answered");
  assertEquals(begun, ["first"]);
});

Deno.test("a line that is no call ends the process, and the end of the lines ends a call", async () => {
  const answers: string[] = [];
  const onAnswer = (bytes: Uint8Array) => void answers.push(new TextDecoder().decode(bytes));
  for (const bad of ["", "{}", "null", "not JSON", '{"name":1,"arguments":"{}"}']) {
    await assertRejects(() => serveCalls(ReadableStream.from([bad]), () => Promise.resolve(answer), onAnswer), Error);
  }
  assertEquals(answers, []);
  await serveCalls(ReadableStream.from([line("endless")]), () => new Promise(() => {}), onAnswer);
  await assertRejects(() =>
    serveCalls(
      new ReadableStream({ pull: (lines) => lines.enqueue(line("x")) }, {
        highWaterMark: 0,
      }),
      () => Promise.reject(new Error("broken")),
      onAnswer,
    ), Error);
});
