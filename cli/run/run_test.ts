import { assertEquals } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import type { CommandSpec } from "../plan/command_spec.ts";
import type { LocalModule } from "../plan/command_module.ts";
import type { FlagValue } from "../plan/plan.ts";
import { findCommand } from "../table/commands.ts";
import { Io } from "../text/io.ts";
import { runCommand } from "./run.ts";

/** Runs `module` as the command `name` and returns the result. */
async function run(name: string, module: LocalModule, flags: Record<string, FlagValue> = {}) {
  const texts = { stdout: "", stderr: "" };
  const sink = (stream: "stdout" | "stderr") => ({
    writeSync: (bytes: Uint8Array) => {
      texts[stream] += new TextDecoder().decode(bytes);
      return bytes.length;
    },
    isTerminal: () => false,
  });
  const spec: CommandSpec = findCommand(name)!;
  const plan = { command: name, positionals: {}, flags, store: "", workspace: "", socket: "", route: "none" } as const;
  const io = new Io({
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    json: flags.json === true,
    quiet: flags.quiet === true,
    no_color: true,
    signal: new AbortController().signal,
    now: () => 0,
  });
  const code = await runCommand(spec, plan, io, () => Promise.resolve({ backend: "none", module }));
  return { code, ...texts };
}

const RESULT: LocalModule = {
  run: () => Promise.resolve({ name: "\x1b[31m" }),
  render: () => "It is \x1b[31m done",
};

Deno.test("runCommand() prints the rendered result, without escapes, or the object", async () => {
  assertEquals(await run("fork", RESULT), { code: 0, stdout: "It is \\x1b[31m done\n", stderr: "" });
  const { stdout } = await run("fork", RESULT, { json: true });
  assertEquals(stdout, '{"ok":true,"name":"\\u001b[31m"}\n');
});

Deno.test("runCommand() is silent about what was done under -quiet, and prints what was asked for", async () => {
  assertEquals((await run("fork", RESULT, { quiet: true })).stdout, "");
  assertEquals((await run("branches", RESULT, { quiet: true })).stdout, "It is \\x1b[31m done\n");
  assertEquals((await run("fork", RESULT, { quiet: true, json: true })).stdout, '{"ok":true,"name":"\\u001b[31m"}\n');
});

Deno.test("runCommand() turns whatever is thrown into a status, also from rendering", async () => {
  const fails = (error: unknown): LocalModule => ({ run: () => Promise.reject(error), render: () => "" });
  assertEquals((await run("fork", fails(new TaskdError("usage", "x")))).code, 2);
  assertEquals((await run("fork", fails("text"))).code, 1);
  const broken: LocalModule = {
    ...RESULT,
    render: () => {
      throw new TypeError("x");
    },
  };
  assertEquals((await run("fork", broken)).code, 1);
});

Deno.test("a command asks the table only for flags that it declares", async () => {
  const asks: LocalModule = {
    run: (args) => Promise.resolve({ value: args.text("nonsense") ?? "" }),
    render: () => "",
  };
  const { code, stderr } = await run("fork", asks);
  assertEquals([code, stderr.includes("declares no flag --nonsense")], [1, true]);
});
