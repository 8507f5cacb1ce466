import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { Prompt } from "./prompt.ts";

/** A person who types these pieces, and what they see. */
function typing(...pieces: (string | number[])[]) {
  const seen = { text: "", quiet: false, modes: [] as boolean[] };
  const left = pieces.map((piece) =>
    typeof piece === "string" ? new TextEncoder().encode(piece) : new Uint8Array(piece)
  );
  const terminal = {
    read(buffer: Uint8Array) {
      const next = left.shift();
      if (next === undefined) return Promise.resolve(null);
      buffer.set(next);
      return Promise.resolve(next.length);
    },
    setQuiet(quiet: boolean) {
      seen.quiet = quiet;
      seen.modes.push(quiet);
    },
    write(text: string) {
      seen.text += text;
    },
  };
  const abort = new AbortController();
  return { prompt: new Prompt(terminal, abort.signal), seen, abort };
}

Deno.test("an answer may come in pieces, and several in one", async () => {
  const { prompt } = typing("fi", "rst\nsecond\n", "third\r");
  assertEquals([await prompt.line("a"), await prompt.line("b"), await prompt.line("c")], ["first", "second", "third"]);
});

Deno.test("a secret is not shown, and the terminal is restored", async () => {
  const { prompt, seen } = typing("sk-sec", "ret\n");
  assertEquals(await prompt.secret("Key"), "sk-secret");
  assertEquals(seen.modes, [true, false]);
  assertEquals(seen.text.includes("sk-"), false);
});

Deno.test("a secret can be corrected: backspace takes one character, Ctrl-U all of them", async () => {
  const { prompt } = typing("abcé", [127, 8], "d\n", "wrong", [21], "right\n");
  assertEquals([await prompt.secret("Key"), await prompt.secret("Key")], ["abd", "right"]);
});

Deno.test("the terminal is restored when a secret is never typed", async () => {
  const { prompt, seen } = typing("half");
  const error = await assertRejects(() => prompt.secret("Key"), TaskdError);
  assertEquals(error.code, "interrupted");
  assertEquals(seen.quiet, false);
});

Deno.test("an interrupted question rejects with the signal's reason", async () => {
  const { prompt, abort } = typing();
  abort.abort(new TaskdError("interrupted", "The operation was interrupted"));
  await assertRejects(() => prompt.line("Name"), TaskdError, "was interrupted");
});

Deno.test("a choice is accepted by name, by number or by Return", async () => {
  const choices = [{ value: "podman", help: "" }, { value: "deno", help: "" }] as const;
  const { prompt, seen } = typing("2\n", "podman\n", "\n", "x\n", "deno\n");
  const ask = () => prompt.choose("Runtime", choices, "podman");
  assertEquals([await ask(), await ask(), await ask(), await ask()], ["deno", "podman", "podman", "deno"]);
  assertStringIncludes(seen.text, "Please answer with one of podman, deno.");
});

Deno.test("a question without a valid answer fails after five tries", async () => {
  const { prompt } = typing("maybe\n".repeat(10));
  await assertRejects(() => prompt.confirm("Sure?", true), TaskdError, "was not answered");
});
