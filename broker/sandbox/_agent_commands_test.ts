import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { systemClock } from "../../lib/clock.ts";
import { lstatIfPresent } from "../../lib/fs.ts";
import { OUTPUT_HEAD_LENGTH, OUTPUT_TAIL_LENGTH } from "../agent/calls.ts";
import { AgentCommands, KeptOutput } from "./_agent_commands.ts";
import { parkLinks } from "./_parked_links.ts";
import type { SandboxEnd, SandboxSpec } from "./runtime.ts";

/** Commands in a work tree with one link, run by what a test gives. */
class Commands implements AsyncDisposable {
  readonly root = Deno.realPathSync(Deno.makeTempDirSync());
  readonly notes: string[] = [];
  readonly started: SandboxSpec[] = [];
  readonly abort = new AbortController();
  onNote = (text: string): Promise<void> => (this.notes.push(text), Promise.resolve());

  async open(work: (spec: SandboxSpec) => Promise<SandboxEnd> | SandboxEnd): Promise<AgentCommands> {
    const work_dir = `${this.root}/work`;
    await Deno.mkdir(work_dir);
    await Deno.symlink("elsewhere", `${work_dir}/link`);
    const spec: SandboxSpec = {
      task_id: "0".repeat(32),
      work_dir,
      workload: { kind: "built_in_agent", gateway_url: "", token: "", model: "", instruction: "" },
      memory_bytes: 1,
      timeout_ms: 1,
      max_output_bytes: 1,
      signal: this.abort.signal,
      onOutput() {},
      onNote: (text) => this.onNote(text),
    };
    const start = (of: SandboxSpec) => {
      this.started.push(of);
      const stopped = Promise.withResolvers<SandboxEnd>();
      const end = Promise.race([Promise.resolve(work(of)), stopped.promise]);
      const stop = () => (stopped.resolve({ reason: "stopped", code: 143, output_truncated: false }), end);
      return Promise.resolve({ wait: () => end, stop });
    };
    const parked = await parkLinks(work_dir);
    return new AgentCommands({ runtime: { start }, spec, work_dir, parked, clock: systemClock });
  }

  isLink(path: string): boolean {
    return lstatIfPresent(`${this.root}/work/${path}`)?.isSymlink === true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

const REQUEST = { command: "make test", timeout_s: 5 };
const PASSED: SandboxEnd = { reason: "exited", code: 0, output_truncated: false };

Deno.test("links are there while a command runs, and put aside again with those that it made", async () => {
  await using test = new Commands();
  const commands = await test.open(async ({ work_dir, onOutput }) => {
    onOutput({ stream: "stdout", text: `link: ${test.isLink("link")}` });
    await Deno.symlink("/etc/shadow", `${work_dir}/made`);
    return PASSED;
  });
  assert(!test.isLink("link"));
  const { duration_ms: _, ...result } = (await commands.run(REQUEST))!;
  const links = [{ path: "link", target: "elsewhere" }, { path: "made", target: "/etc/shadow" }];
  result.links.sort((a, b) => a.path < b.path ? -1 : 1);
  assertEquals(result, { reason: "exited", code: 0, output: "link: true\n", links });
  assertEquals([test.isLink("link"), test.isLink("made")], [false, false]);
  await commands.close();
  assertEquals([test.isLink("link"), test.isLink("made")], [true, true]);
  assertEquals([await commands.run(REQUEST), test.started.length], [undefined, 1]);
});

Deno.test("a command is written down before it runs, and never runs where it cannot be", async () => {
  await using test = new Commands();
  const commands = await test.open(() => {
    assertEquals(test.notes, ["command 1: make test"]);
    return { ...PASSED, code: 2 };
  });
  await commands.run(REQUEST);
  assertStringIncludes(test.notes[1]!, "command 1: exit code 2 after ");
  test.onNote = () => Promise.reject(new TaskdError("no_space", "The disk is full"));
  await assertRejects(() => commands.run(REQUEST), TaskdError, "The disk is full");
  assertEquals(test.started.length, 1);
  await commands.close();
});

Deno.test("a sandbox that cannot be had is an error, and the links stay aside", async () => {
  await using test = new Commands();
  const commands = await test.open(() => {
    throw new TaskdError("sandbox_failed", "There are no namespaces");
  });
  await assertRejects(() => commands.run(REQUEST), TaskdError, "There are no namespaces");
  assert(!test.isLink("link"));
  await commands.close();
  assert(test.isLink("link"));
});

Deno.test("what runs is ended when the agent is, before the links come back", async () => {
  await using test = new Commands();
  const runs = Promise.withResolvers<void>();
  const commands = await test.open(() => {
    runs.resolve();
    return new Promise(() => {});
  });
  const running = commands.run(REQUEST);
  await runs.promise;
  commands.stop();
  assertEquals(await running, undefined);
  await commands.close();
  assert(test.isLink("link"));
});

Deno.test("the first and last lines of any output are kept, and what is left out is counted", () => {
  const output = new KeptOutput();
  let length = 0;
  for (let line = 0; line < 20_000; line++) {
    output.add(`line ${line}`);
    length += `line ${line}\n`.length;
  }
  const text = output.text(false);
  const left_out = Number(/\[left out: (\d+) characters\]/.exec(text)![1]);
  assert(text.startsWith("line 0\nline 1\n") && text.endsWith("line 19998\nline 19999\n"));
  assertEquals(text.length - `[left out: ${left_out} characters]\n`.length + left_out, length);
  assert(text.length <= OUTPUT_HEAD_LENGTH + OUTPUT_TAIL_LENGTH + 100);

  // As fast as a command writes them: nothing may cost more for what was written before.
  const many = new KeptOutput();
  for (let line = 0; line < 2_000_000; line++) many.add("y");
  assert(many.text(false).endsWith("y\ny\n"));

  const long = new KeptOutput();
  long.add("x".repeat(OUTPUT_HEAD_LENGTH + OUTPUT_TAIL_LENGTH));
  const rest = `[left out: ${OUTPUT_HEAD_LENGTH + 1} characters]\n${"x".repeat(OUTPUT_TAIL_LENGTH - 1)}\n`;
  assertEquals(long.text(true), `${rest}[what came after this was not read]\n`);
  assertEquals(new KeptOutput().text(false), "");
});
