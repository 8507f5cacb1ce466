import { assertEquals, assertThrows } from "@std/assert";
import { Io } from "./io.ts";

function make(options: { terminal: boolean; no_color?: boolean; dumb?: boolean; json?: boolean; quiet?: boolean }) {
  const texts = { stdout: "", stderr: "" };
  const sink = (name: "stdout" | "stderr") => ({
    writeSync: (bytes: Uint8Array) => {
      texts[name] += new TextDecoder().decode(bytes);
      return bytes.length;
    },
    isTerminal: () => options.terminal,
  });
  let now_ms = 0;
  const io = new Io({
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    json: options.json ?? false,
    quiet: options.quiet ?? false,
    no_color: options.no_color ?? false,
    dumb: options.dumb ?? false,
    signal: new AbortController().signal,
    now: () => now_ms,
  });
  return { io, texts, at: (ms: number) => now_ms = ms };
}

Deno.test("Io draws progress on a terminal, and takes it away before anything else is written", async () => {
  const { io, texts, at } = make({ terminal: true });
  const update = io.progress("create shop");
  at(1_000);
  update(512, 1_024);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(texts.stderr.startsWith("\r\x1b[Kcreate shop  [============ "), true);
  texts.stderr = "";
  io.out("done");
  assertEquals(texts, { stdout: "done\n", stderr: "\r\x1b[K" });
});

Deno.test("Io draws no progress off a terminal, on a dumb one, or under --quiet and --json", () => {
  for (
    const options of [{ terminal: false }, { terminal: true, dumb: true }, { terminal: true, quiet: true }, {
      terminal: true,
      json: true,
    }]
  ) {
    const { io, texts, at } = make(options);
    const update = io.progress("create shop");
    at(1_000);
    update(512, 1_024);
    io.clearProgress();
    assertEquals([texts, io.live()], [{ stdout: "", stderr: "" }, undefined]);
  }
});

Deno.test("Io colours on a terminal that can only, and not when NO_COLOR is set", () => {
  assertEquals(make({ terminal: true }).io.heading("Usage"), "\x1b[1mUsage\x1b[22m");
  assertEquals(make({ terminal: false }).io.heading("Usage"), "Usage");
  assertEquals(make({ terminal: true, no_color: true }).io.heading("Usage"), "Usage");
  assertEquals(make({ terminal: true, dumb: true }).io.heading("Usage"), "Usage");
});

Deno.test("Io shows escape sequences of results, notes and errors instead of sending them", () => {
  const { io, texts } = make({ terminal: true });
  io.out("\x1b[2J");
  io.note("\x1b]0;title\x07");
  io.error("\u009b1m");
  io.outJson({ a: "\x1b\u009b" });
  assertEquals(texts.stdout, '\\x1b[2J\n{"a":"\\u001b\\u009b"}\n');
  assertEquals(texts.stderr, "\\x1b]0;title\\x07\n\\x9b1m\n");
});

Deno.test("Io keeps notes to itself under -quiet", () => {
  const { io, texts } = make({ terminal: false, quiet: true });
  io.note("x");
  assertEquals(texts.stderr, "");
});

Deno.test("Io lets a broken pipe be seen", () => {
  const sink = {
    writeSync: () => {
      throw new Deno.errors.BrokenPipe("x");
    },
    isTerminal: () => false,
  };
  const { signal } = new AbortController();
  const io = new Io({ stdout: sink, stderr: sink, json: false, quiet: false, no_color: true, signal, now: () => 0 });
  assertThrows(() => io.out("x"), Deno.errors.BrokenPipe);
});
