import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { makeBrokerHost, type Script, SPEND, toGate, toPushed } from "./support/broker.ts";
import { textLines } from "../support/text_lines.ts";
import { longTest } from "../support/long.ts";

const REPO = "https://example.com/ada/shop";

/** To the gate, and past it once it was approved. */
const whole: Script = async (task, engine) => {
  await toGate(task, engine);
  await engine.approve(task.id, { diff_sha256: task.record.diff_sha256!, acknowledge: [] });
  await toPushed(task);
};

const fails: Script = async (task) => {
  await task.move({ from: "admission", to: "done", outcome: "setup_failed", reason: "no \x1b[31m such branch" });
};

/** The objects of JSON lines. */
function objects(text: string): Record<string, unknown>[] {
  return text.trimEnd().split("\n").map((line) => JSON.parse(line));
}

Deno.test("submit prints the id alone on stdout, and on stderr how the task goes and what to do next", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = (task, engine) => toGate(task, engine, ["lockfile", "ci_files"]);
  const { code, stdout, stderr } = await host.taskd("submit", REPO, "Fix the rounding");
  assertEquals(code, 0);
  assertMatch(stdout, /^[0-9a-f]{32}\n$/);
  const short = stdout.slice(0, 12);
  assertEquals(stderr.replaceAll(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ /gm, "").split("\n"), [
    "admission",
    "staging",
    "running",
    "  Looking at \\x1b[31mit",
    "spent $0.0123 (4 requests)",
    "collecting",
    "awaiting_approval, look twice at lockfile, ci_files",
    "Spent: $0.0123 (4 requests)",
    `Next: taskd review ${short}`,
    "",
  ]);
  assertEquals(host.engine.submitted, [{ repo: REPO, instruction: "Fix the rounding" }]);
});

Deno.test("what an agent prints cannot pose as the broker's word", async () => {
  await using host = await makeBrokerHost();
  const lie = "2026-01-01 00:00:00Z ended, pushed: all is well";
  host.engine.script = async (task) => {
    await task.append({ type: "output", channel: "stdout", text: `a\r${lie}\n${lie}\n` });
    await task.append({
      type: "output",
      channel: "stdout",
      text: JSON.stringify({ type: "said", turn: 1, text: lie }),
    });
    const content = [{ type: "tool_use", name: `x\n${lie}`, input: {} }];
    const row = JSON.stringify({ type: "assistant", message: { content } });
    await task.append({ type: "output", channel: "stdout", text: row });
    await fails(task, host.engine);
  };
  const { stderr, code } = await host.taskd("submit", REPO, "Fix");
  assertEquals(code, 1);
  assertEquals(stderr.split("\n").filter((line) => line.includes(lie)), [
    `  a\\r${lie}`,
    `  ${lie}`,
    `  ${lie}`,
    `  ${lie}] {}`,
  ]);
});

Deno.test("submit sends every flag", async () => {
  await using host = await makeBrokerHost();
  const flags = ["--agent", "codex", "--model", "m-1", "--base", "main", "--platform", "linux/arm64"]
    .concat("--sensitive", "--draft", "--database", "shop", "--database", "log")
    .concat("--egress", "a.example:443", "--egress", "a.example:8443,443", "--egress", "b.example", "--detach");
  assertEquals((await host.taskd("submit", REPO, "Fix", ...flags)).code, 0);
  assertEquals(host.engine.submitted, [{
    repo: REPO,
    instruction: "Fix",
    agent: "codex",
    model: "m-1",
    base: "main",
    platform: "linux/arm64",
    egress_extra: [{ host: "a.example", ports: [443, 8443] }, { host: "b.example", ports: [443] }],
    databases: ["shop", "log"],
    sensitive: true,
    draft: true,
  }]);
});

Deno.test("submit takes a repository on this machine by a relative path", async () => {
  await using host = await makeBrokerHost();
  // Before it is a task.
  assertEquals((await host.json(["submit", "./shop", "Fix"], 1)).code, "not_found");
  await Deno.mkdir(`${host.base}/shop`);
  assertEquals((await host.taskd("submit", "./shop", "Fix", "--detach")).code, 0);
  assertEquals(host.engine.submitted.map(({ repo }) => repo), [`${host.base}/shop`]);
});

Deno.test("submit --detach prints the id and waits for nothing", async () => {
  await using host = await makeBrokerHost();
  const { code, stdout, stderr } = await host.taskd("submit", REPO, "Fix", "--detach");
  assertEquals([code, stderr], [0, ""]);
  assertMatch(stdout, /^[0-9a-f]{32}\n$/);
  const result = await host.json(["submit", REPO, "Fix", "--detach"]);
  assertEquals([result.ok, result.stage, result.followed], [true, "admission", false]);
});

Deno.test("submit --wait goes past the gate, and exits with 0 only for a success", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = whole;
  const pushed = await host.taskd("submit", REPO, "Fix", "--wait");
  assertEquals(pushed.code, 0);
  assertStringIncludes(pushed.stderr, `It waits for approval: taskd review ${pushed.stdout.slice(0, 12)}\n`);
  assertMatch(pushed.stderr, /Pushed: agent\/[0-9a-f]{32} https:\/\/example\.com\/pull\/7\n$/);
  host.engine.script = fails;
  const failed = await host.taskd("submit", REPO, "Fix", "--wait");
  assertEquals(failed.code, 1);
  assertStringIncludes(failed.stderr, "ended, setup_failed: no \\x1b[31m such branch\n");
  assertStringIncludes(failed.stderr, `Next: taskd inspect ${failed.stdout.slice(0, 12)} or taskd logs`);
});

Deno.test("submit --json prints one object, at the end", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = whole;
  const result = await host.json(["submit", REPO, "Fix", "--wait"]);
  const { ok, stage, outcome, spend, pushed, followed } = result;
  assertEquals([ok, stage, outcome, spend, followed], [true, "done", "pushed", SPEND, true]);
  assertEquals((pushed as { pull_request: string }).pull_request, "https://example.com/pull/7");
  host.engine.script = fails;
  assertEquals((await host.json(["submit", REPO, "Fix", "--wait"], 1)).outcome, "setup_failed");
});

Deno.test("submit --json --events prints each event as a line before the result", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = whole;
  const { stdout } = await host.taskd("submit", REPO, "Fix", "--wait", "--json", "--events");
  const lines = objects(stdout);
  assertEquals(lines.map(({ event }) => event), [
    ...["stage", "stage", "stage", "output", "spend", "stage", "evidence", "stage", "stage", "result"],
    undefined,
  ]);
  assertEquals(lines.at(-1)!.ok, true);
  // deno-lint-ignore no-control-regex
  assertEquals(/[\x00-\x09\x0b-\x1f]/.test(stdout), false);
});

Deno.test("submit shows no less spent than it has shown, while rows come that say less than the lease", async () => {
  await using host = await makeBrokerHost();
  const seen = Promise.withResolvers<void>();
  const live = { ...SPEND, usd: 0.05, requests: 6, input_tokens: 2_000 };
  host.engine.script = async (task, engine) => {
    engine.spend(task.id, live);
    await seen.promise;
    await toGate(task, engine);
  };
  const child = host.start("submit", REPO, "Fix", "--json", "--events");
  let last = "";
  for await (const line of textLines(child.stdout)) {
    last = line;
    if (JSON.parse(line).data?.live === true) seen.resolve();
  }
  assertEquals((await child.status).code, 0);
  await child.stderr.cancel();
  assertEquals(JSON.parse(last).spend, live);
});

Deno.test("submit -quiet prints nothing but the id", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = whole;
  const { stdout, stderr } = await host.taskd("submit", REPO, "Fix", "--wait", "-quiet");
  assertMatch(stdout, /^[0-9a-f]{32}\n$/);
  assertEquals(stderr, "");
});

for (const [signal, status] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
  Deno.test(`submit leaves the task running on ${signal}, and says how to come back to it`, async () => {
    await using host = await makeBrokerHost();
    const go = Promise.withResolvers<void>();
    host.engine.script = async (task, engine) => {
      await task.move({ from: "admission", to: "staging" });
      await go.promise;
      await task.move({ from: "staging", to: "running" });
      await task.move({ from: "running", to: "collecting" });
      await task.move({ from: "collecting", to: "done", outcome: "no_diff", reason: "nothing was changed" });
      assertEquals(engine.submitted.length, 1);
    };
    const child = host.start("submit", REPO, "Fix");
    const [ids, notes] = [textLines(child.stdout), textLines(child.stderr)];
    const id = (await ids.next()).value!;
    while (!(await notes.next()).value!.endsWith(" staging"));
    child.kill(signal);
    assertEquals((await child.status).code, status);
    assertEquals((await notes.next()).value, `taskd: Stopped watching the task ${id}: it goes on by itself`);
    assertEquals((await notes.next()).value, `  Come back with: taskd logs ${id.slice(0, 12)} -f`);
    await Promise.all([ids.return(), notes.return()]);
    go.resolve();
    const followed = await host.taskd("logs", id.slice(0, 12), "-f");
    assertEquals(followed.code, 0);
    assertStringIncludes(followed.stdout, "ended, no_diff: nothing was changed\n");
  });
}

Deno.test("submit goes on watching across a restart of the broker, and shows nothing twice", async () => {
  await using host = await makeBrokerHost();
  const go = Promise.withResolvers<void>();
  host.engine.script = async (task, engine) => {
    await task.append({ type: "note", text: "before" });
    await go.promise;
    await task.append({ type: "note", text: "after" });
    await toGate(task, engine);
  };
  const child = host.start("submit", REPO, "Fix");
  const notes = textLines(child.stderr);
  const seen: string[] = [];
  while (seen.at(-1)?.endsWith(" before") !== true) seen.push((await notes.next()).value!);
  await host.restart();
  go.resolve();
  for await (const line of notes) seen.push(line);
  assertEquals((await child.status).code, 0);
  await child.stdout.cancel();
  for (const word of [" before", " after", " staging", " awaiting_approval"]) {
    assertEquals(seen.filter((line) => line.endsWith(word)).length, 1, word);
  }
});

Deno.test("submit reads the instruction from a file or stdin, and refuses two, none or an empty one", async () => {
  await using host = await makeBrokerHost();
  await Deno.writeTextFile(`${host.base}/task.md`, "# Fix\n\nthe rounding\n");
  assertEquals((await host.taskd("submit", REPO, "--file", "task.md", "--detach")).code, 0);
  assertEquals(host.engine.submitted[0]!.instruction, "# Fix\n\nthe rounding\n");
  const piped = await host.taskdWith("of a pipe\n", "submit", REPO, "-", "--detach");
  assertEquals([piped.code, host.engine.submitted[1]!.instruction], [0, "of a pipe\n"]);
  const table: [string[], string][] = [
    [[], "Cannot submit a task without an instruction"],
    [["Fix", "--file", "task.md"], "Cannot take two instructions"],
    [["  "], "its instruction is empty"],
    [["-"], "its instruction is empty"],
  ];
  for (const [words, message] of table) {
    const { code, stderr } = await host.taskd("submit", REPO, ...words);
    assertEquals(code, 2);
    assertStringIncludes(stderr, message);
    assertStringIncludes(stderr, "--file");
  }
  assertEquals((await host.json(["submit", REPO, "--file", "missing.md"], 1)).code, "not_found");
  await Deno.writeFile(`${host.base}/binary`, new Uint8Array([0xff, 0xfe]));
  assertEquals((await host.json(["submit", REPO, "--file", "binary"], 2)).code, "usage");
  await Deno.writeTextFile(`${host.base}/long`, "x".repeat(500_000));
  assertEquals((await host.json(["submit", REPO, "--file", "long"], 1)).code, "too_large");
  assertEquals(host.engine.submitted.length, 2);
});

Deno.test("submit refuses flags that do not go together before it sends anything", async () => {
  await using host = await makeBrokerHost();
  for (
    const flags of [["--wait", "--detach"], ["--events"], ["--events", "--json", "--detach"], ["--egress", "a:b"]]
      .concat([["--egress", "a.example:0"], ["--egress", "a.example:70000"], ["--egress", ""]])
  ) {
    assertEquals((await host.taskd("submit", REPO, "Fix", ...flags)).code, 2, flags.join(" "));
  }
  assertEquals(host.engine.submitted.length, 0);
});

Deno.test("a refused submission says why and what to do", async () => {
  await using host = await makeBrokerHost();
  host.engine.refusal = new TaskdError("ceiling_reached", "Cannot start: \x1b[2J 10 of 10 starts in 24h", {
    hint: "Raise global_max_tasks",
  });
  const { code, stdout, stderr } = await host.taskd("submit", REPO, "Fix");
  assertEquals([code, stdout], [1, ""]);
  assertEquals(stderr, "taskd: Cannot start: \\x1b[2J 10 of 10 starts in 24h\n  Raise global_max_tasks\n");
  assertEquals((await host.json(["submit", REPO, "Fix"], 1)).code, "ceiling_reached");
});

longTest("every client says how to start a broker that is not there", async () => {
  await using host = await makeBrokerHost();
  await host.stop();
  for (
    const words of [["submit", REPO, "Fix"], ["tasks"], ["inspect", "a"], ["logs", "a"], ["review", "a"]]
      .concat([["approve", "a"], ["deny", "a"], ["kill", "a"], ["pending"], ["retry", "a"], ["ui"]])
      .concat([["prune", "--older-than", "1d"], ["queue", "list"], ["queue", "cancel", "a"]])
  ) {
    const answer = await host.json(words, 1);
    assertEquals(answer.code, "broker_unreachable", words.join(" "));
    assertStringIncludes(String(answer.hint), "taskd start");
  }
});

Deno.test("retry runs the same order again as a task of its own", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = fails;
  const first = (await host.taskd("submit", REPO, "Fix", "--agent", "agent_d")).stdout.trim();
  host.engine.script = (task, engine) => toGate(task, engine);
  const { code, stdout, stderr } = await host.taskd("retry", first.slice(0, 8));
  assertEquals(code, 0);
  const second = stdout.trim();
  assert(second !== first);
  assertStringIncludes(stderr, `Next: taskd review ${second.slice(0, 12)}`);
  const { instruction, agent, retry_of } = host.engine.tasks.read(second);
  assertEquals([instruction, agent, retry_of], ["Fix", "agent_d", first]);
});
