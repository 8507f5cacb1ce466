import { assertEquals } from "@std/assert";
import { LiveLine } from "./live_line.ts";

function make(columns: number) {
  const written: string[] = [];
  return { line: new LiveLine({ columns, write: (text) => written.push(text) }), written };
}

Deno.test("LiveLine draws over what was there, and leaves no trace", async () => {
  const { line, written } = make(40);
  line.clear();
  await line.show("running");
  await line.show("collecting");
  line.clear();
  line.clear();
  assertEquals(written, ["\r\x1b[Krunning", "\r\x1b[Kcollecting", "\r\x1b[K"]);
});

Deno.test("LiveLine keeps within the terminal and shows escape sequences instead of sending them", async () => {
  const { line, written } = make(10);
  await line.show("\x1b[2J\nlong enough");
  assertEquals(written, ["\r\x1b[K\\x1b[2J\\…"]);
});

Deno.test("LiveLine does not draw what was overtaken, or taken away, while it was measured", async () => {
  const { line, written } = make(40);
  await Promise.all([line.show("first"), line.show("second")]);
  const last = line.show("third");
  line.clear();
  await last;
  assertEquals(written, ["\r\x1b[Ksecond", "\r\x1b[K"]);
});
