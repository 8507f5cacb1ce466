import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { AGENTS } from "../../broker/agents.ts";
import { STAGES } from "../../broker/task/stages.ts";
import { findCommand } from "../../cli/table/commands.ts";
import { type BrokerHost, makeBrokerHost, type Script, SPEND, toGate, toPushed } from "./support/broker.ts";
import { longTest } from "../support/long.ts";
import { beginSession } from "../support/page_session.ts";

const REPO = "https://example.com/ada/shop";

const ends: Script = async (task) => {
  await task.append({ type: "claimed", usd: 0.5 });
  await task.move({ from: "admission", to: "done", outcome: "setup_failed", reason: "no such branch" });
};

/** A task that was accepted, its script over. */
async function submitted(host: BrokerHost, script: Script, instruction = "Fix"): Promise<string> {
  host.engine.script = script;
  const { id } = await host.engine.submit({ repo: REPO, instruction });
  await Promise.all(host.engine.running);
  return id;
}

/** The lines of a table without its padding. */
function cells(table: string): string[][] {
  return table.trimEnd().split("\n").map((line) => line.trim().split(/ {2,}/));
}

// conformance: b2.spend.agent b2.spend.source
Deno.test("tasks lists the newest first, with what the broker metered and what only the agent says", async () => {
  await using host = await makeBrokerHost();
  assertEquals((await host.taskd("tasks")).stdout, "There are no tasks\n");
  const failed = await submitted(host, ends, "Fix \x1b[31mit\n now");
  const waiting = await submitted(host, (task, engine) => toGate(task, engine));
  const running = await submitted(host, async (task, engine) => {
    await task.move({ from: "admission", to: "staging" });
    engine.spend(task.id, { ...SPEND, usd: 0, priced: false, unmetered_requests: 4 });
  });
  const { code, stdout } = await host.taskd("tasks");
  assertEquals(code, 0);
  const [head, ...rows] = cells(stdout);
  assertEquals(head, ["ID", "AGE", "STAGE", "AGENT", "SPEND", "REPO", "INSTRUCTION"]);
  assertEquals(rows.map(([id, , stage, agent, spend, repo]) => [id, stage, agent, spend, repo]), [
    [running.slice(0, 12), "staging", "agent_a", "unmetered", REPO],
    [waiting.slice(0, 12), "awaiting_approval", "agent_a", "$0.0123", REPO],
    [failed.slice(0, 12), "setup_failed", "agent_a", "$0.50 agent-reported", REPO],
  ]);
  assertEquals(rows[2]!.at(-1), "Fix \\x1b[31mit\\n now");
  const { tasks, more } = await host.json(["tasks", "--stage", "done"]);
  assertEquals([(tasks as { id: string }[]).map(({ id }) => id), more], [[failed], false]);
});

Deno.test("tasks shows the requested number, reports that there are more, and fetches all by pages", async () => {
  await using host = await makeBrokerHost();
  for (let count = 0; count < 505; count++) {
    await host.engine.tasks.create({ repo: REPO, instruction: "x", agent: "a" });
  }
  const { stdout } = await host.taskd("tasks", "--limit", "2");
  assertEquals(stdout.split("\n").length, 5);
  assertStringIncludes(stdout, "There are older ones: taskd tasks --all\n");
  assertEquals((await host.json(["tasks"]) as { tasks: unknown[] }).tasks.length, 20);
  const { tasks, more } = await host.json(["tasks", "--all"]) as { tasks: { id: string }[]; more: boolean };
  assertEquals([new Set(tasks.map(({ id }) => id)).size, more], [505, false]);
});

Deno.test("tasks refuses a stage that there is not, and lists those there are", async () => {
  await using host = await makeBrokerHost();
  const { code, stderr } = await host.taskd("tasks", "--stage", "runing");
  assertEquals(code, 2);
  assertStringIncludes(stderr, "is none of admission, staging,");
});

Deno.test("help and completion know every stage and every agent", () => {
  const choices = (command: string, flag: string) =>
    findCommand(command)!.flags.find(({ name }) => name === flag)!.choices;
  assertEquals(choices("tasks", "stage"), Object.keys(STAGES));
  for (const command of ["submit", "queue add"]) {
    assertEquals(choices(command, "agent"), [...AGENTS.map(({ name }) => name), ...AGENTS.map(({ label }) => label)]);
  }
});

Deno.test("inspect shows the record, the brief, and what the proxy refused with what to do about it", async () => {
  await using host = await makeBrokerHost();
  const id = await submitted(host, (task, engine) => toGate(task, engine, ["lockfile"]), "Fix \x1b[31mit");
  host.engine.refused.set(id, [{
    target: "evil\x1b[2J.example:443",
    reason: "not listed",
    hint: "Add it to egress.yaml",
  }]);
  host.engine.disks.set(id, { peak_bytes: 3 * 2 ** 20, limit_bytes: 10 * 2 ** 30 });
  const { code, stdout } = await host.taskd("inspect", id.slice(0, 7).toUpperCase());
  assertEquals(code, 0);
  for (
    const text of [`task        ${id}\n`, "awaiting_approval, for ", "$0.0123 (4 requests)", "intact, 8 rows"]
      .concat(["disk        at most 3 MiB of 10 GiB\n"])
      .concat(["  Fix \\x1b[31mit\n", `base commit  ${"b".repeat(40)}`, "image        taskd-sandbox:latest"])
      .concat([`policy       ${"f".repeat(64)}`, "look twice, lockfile: why", "not established:"])
      .concat(["  evil\\x1b[2J.example:443  not listed\n    Add it to egress.yaml\n"])
      .concat([`Next: taskd review ${id.slice(0, 12)}\n`])
  ) assertStringIncludes(stdout, text);
  // deno-lint-ignore no-control-regex
  assertEquals(/[\x00-\x09\x0b-\x1f]/.test(stdout), false);
  const { task, brief } = await host.json(["inspect", id]) as { task: { id: string }; brief: { version: number } };
  assertEquals([task.id, brief.version], [id, 1]);
});

Deno.test("inspect of a task without a brief says so, and one whose record was altered fails", async () => {
  await using host = await makeBrokerHost();
  const id = await submitted(host, ends);
  const { code, stdout } = await host.taskd("inspect", id);
  assertEquals(code, 0);
  assertStringIncludes(stdout, "there is no brief");
  assertStringIncludes(stdout, "$0.50 agent-reported");
  assertStringIncludes(stdout, `\nNext: taskd logs ${id.slice(0, 12)}\n`);
  host.engine.faults.set(id, "row 2 does not \x1b[31mfollow");
  const altered = await host.taskd("inspect", id);
  assertEquals(altered.code, 1);
  assertStringIncludes(altered.stdout, "ALTERED OR DAMAGED: row 2 does not \\x1b[31mfollow\n");
  assertEquals((await host.json(["inspect", id], 1)).ok, true);
});

longTest("a prefix that names no task, several, or nothing at all is an error that says so", async () => {
  await using host = await makeBrokerHost();
  const ids: string[] = [];
  // Of seventeen ids, two begin with the same digit.
  for (let count = 0; count < 17; count++) {
    ids.push((await host.engine.tasks.create({ repo: REPO, instruction: "x", agent: "a" })).id);
  }
  const shared = ids.map((id) => id[0]!).find((digit, at, all) => all.indexOf(digit) !== at)!;
  const table: [string, number, RegExp][] = [
    [shared, 2, /\d+ tasks begin so: [0-9a-f]{32}, /],
    ["../admin/pending", 2, /it is not the beginning of a task id/],
    ["", 2, /it is not the beginning of a task id/],
    ["\x1b[2J", 2, /it is not the beginning of a task id/],
    ["f".repeat(32), 1, /no task has an id that begins so/],
  ];
  for (const command of ["inspect", "logs", "review", "approve", "deny", "kill", "push", "retry"]) {
    for (const [prefix, status, message] of table) {
      const { code, stderr, stdout } = await host.taskd(command, prefix);
      assertEquals([code, stdout], [status, ""], `${command} ${prefix}: ${stderr}`);
      assertMatch(stderr, message);
    }
  }
});

Deno.test("logs prints the output alone; logs -f goes on to the end with stages", async () => {
  await using host = await makeBrokerHost();
  const id = await submitted(host, async (task) => {
    await task.append({ type: "output", channel: "setup", text: "npm ci\n" });
    await task.append({ type: "output", channel: "stdout", text: "caf\u00e9 \x1b]0;title\x07" });
  });
  assertEquals((await host.taskd("logs", id)).stdout, "npm ci\ncaf\u00e9 \\x1b]0;title\\x07\n");
  assertEquals((await host.json(["logs", id])).log, "npm ci\ncaf\u00e9 \\x1b]0;title\\x07\n");
  const following = host.taskd("logs", id, "-f", "--json");
  const task = await host.engine.tasks.reopen(id);
  await task.move({ from: "admission", to: "done", outcome: "cancelled", reason: "enough" });
  const { code, stdout } = await following;
  assertEquals(code, 0);
  assertEquals(stdout.trimEnd().split("\n").map((line) => JSON.parse(line).event), [
    "stage",
    "output",
    "output",
    "result",
  ]);
});

Deno.test("logs makes a line of each row of an agent's; --raw and --json leave it as it is", async () => {
  await using host = await makeBrokerHost();
  const rows = [
    '{"type":"assistant","message":{"content":[{"type":"text","text":"I found it."}]}}\n{"type":"system"}\n',
    '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Edit","input":{"file":"a"}}]}}\nno row\n',
  ];
  const id = await submitted(host, async (task) => {
    for (const text of rows) await task.append({ type: "output", channel: "stdout", text });
  });
  assertEquals((await host.taskd("logs", id)).stdout, 'I found it.\n[Edit] {"file":"a"}\nno row\n');
  assertEquals((await host.taskd("logs", id, "--raw")).stdout, rows.join(""));
  assertEquals((await host.json(["logs", id])).log, rows.join(""));
  const both = await host.taskd("logs", id, "--raw", "-f");
  assertEquals(both.code, 2);
  assertStringIncludes(both.stderr, "leave out -f or --raw");
});

Deno.test("a reader of logs that has seen enough is no failure", async () => {
  await using host = await makeBrokerHost();
  const id = await submitted(host, async (task) => {
    for (let count = 0; count < 40; count++) {
      await task.append({ type: "output", channel: "stdout", text: `${"x".repeat(16_000)}\n` });
    }
  });
  const child = host.start("logs", id);
  await child.stdout.cancel();
  const { code, stderr } = await child.output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
});

Deno.test("deny and kill end a task, with the reason that is given", async () => {
  await using host = await makeBrokerHost();
  const gate: Script = (task, engine) => toGate(task, engine);
  const [denied, killed] = [await submitted(host, gate), await submitted(host, gate)];
  const { stdout } = await host.taskd("deny", denied.slice(0, 10), "It changes the interface");
  assertEquals(stdout, `Denied ${denied}: nothing is pushed\n`);
  assertEquals((await host.json(["kill", killed.slice(0, 10)])).id, killed);
  assertEquals(host.engine.ended, [
    { id: denied, how: "deny", reason: "It changes the interface" },
    { id: killed, how: "kill", reason: "" },
  ]);
  assertEquals((await host.json(["kill", killed], 1)).code, "wrong_state");
});

Deno.test("push begins another round and says how it came out: 0 when it landed, 3 when it waits", async () => {
  await using host = await makeBrokerHost();
  const data: { pushed?: { branch: string; commit: string } } = {};
  const waits: Script = async (task, engine) => {
    await toGate(task, engine);
    await engine.approve(task.id, { diff_sha256: task.record.gate!.diff_sha256, acknowledge: [] });
    const { pushed } = data;
    await task.move(
      pushed === undefined
        ? { from: "pushing", to: "push_failed", reason: "the host is away" }
        : { from: "pushing", to: "data_waits", reason: "shop@main has moved", pushed },
    );
  };
  const id = await submitted(host, waits);
  const short = id.slice(0, 12);
  host.engine.base_notes.push("main has moved on by 1 commit \x1b[2J");
  assertStringIncludes(
    (await host.taskd("review", id)).stdout,
    "\nsince then: main has moved on by 1 commit \\x1b[2J\n",
  );
  const [, row] = cells((await host.taskd("tasks")).stdout);
  assertEquals(row?.[2], "push_failed");
  assertMatch(
    (await host.taskd("inspect", id)).stdout,
    /the host is away[^]*Next: taskd push [0-9a-f]{12} or taskd kill/,
  );
  host.engine.round = async (task) =>
    void await task.move({ from: "pushing", to: "push_failed", reason: "the host is still away" });
  const again = await host.taskd("push", id);
  assertEquals(again.code, 3);
  assertStringIncludes(again.stderr, "push_failed: the host is still away");
  assertStringIncludes(again.stderr, `Next: taskd push ${short}`);
  host.engine.round = toPushed;
  assertEquals((await host.json(["push", id])).outcome, "pushed");
  assertEquals((await host.json(["push", id], 1)).code, "wrong_state");

  data.pushed = { branch: "agent/1", commit: "c".repeat(40) };
  await submitted(host, waits);
  assertEquals(cells((await host.taskd("tasks")).stdout)[1]?.[2], "pushed, data waits");
});

Deno.test("kill says whether the task has ended, or is about to", async () => {
  await using host = await makeBrokerHost();
  const running: Script = async (task) => void await task.move({ from: "admission", to: "staging" });
  const [settled, settling] = [await submitted(host, running), await submitted(host, running)];
  host.engine.settling.add(settling);
  assertEquals((await host.taskd("kill", settled)).stdout, `Ended ${settled}\n`);
  assertMatch((await host.taskd("kill", settling)).stdout, new RegExp(`^Ending ${settling}: .* a minute at most\n$`));
  assertEquals((await host.json(["kill", settling])).ended, false);
});

Deno.test("pending lists what waits, since when and until when, and what needs a second look", async () => {
  await using host = await makeBrokerHost();
  assertEquals((await host.taskd("pending")).stdout, "No task waits for approval\n");
  const id = await submitted(host, (task, engine) => toGate(task, engine, ["lockfile"]));
  const [head, row] = cells((await host.taskd("pending")).stdout);
  assertEquals(head, ["ID", "WAITS", "EXPIRES", "SPEND", "FILES", "LINES", "LOOK TWICE", "REPO", "INSTRUCTION"]);
  assertEquals(row!.toSpliced(1, 1), [id.slice(0, 12), "2h", "$0.0123", "1", "2", "lockfile", REPO, "Fix"]);
  assertEquals((await host.json(["pending"]) as { tasks: { id: string }[] }).tasks[0]!.id, id);
});

Deno.test("prune says which records go, of tasks that ended so long ago", async () => {
  await using host = await makeBrokerHost();
  const id = await submitted(host, ends);
  assertEquals(
    (await host.taskd("prune", "--older-than", "30d")).stdout,
    "mirror of https://code.example/a, 2 KiB\n0 tasks and 1 mirror removed\n",
  );
  assertEquals(
    (await host.taskd("prune", "--older-than", "0", "--dry-run")).stdout,
    `${id}\nmirror of https://code.example/a, 2 KiB\n1 task and 1 mirror would be removed\n`,
  );
  assertEquals((await host.json(["prune", "--older-than", "0"])).pruned, [id]);
  assertEquals((await host.taskd("prune")).code, 2);
  assertEquals((await host.json(["prune", "--older-than", "100000d"])).pruned, []);
});

Deno.test("queue add, list and cancel", async () => {
  await using host = await makeBrokerHost();
  assertEquals((await host.taskd("queue", "list")).stdout, "The queue is empty\n");
  const id = (await host.taskd("queue", "add", REPO, "Translate \x1b[2J", "--agent", "gemini")).stdout.trim();
  assertMatch(id, /^[0-9a-f]{32}$/);
  const [, row] = cells((await host.taskd("queue", "list")).stdout);
  assertEquals(row!.toSpliced(1, 1), [id.slice(0, 12), "queued", "-", "gemini", REPO, "Translate \\x1b[2J", "-"]);
  await host.json(["queue", "add", REPO, "For the default agent"]);
  assertEquals(cells((await host.taskd("queue", "list")).stdout).at(-1)!.at(4), "-");
  assertEquals((await host.taskd("queue", "cancel", id.slice(0, 12))).stdout, `Cancelled ${id.slice(0, 12)}\n`);
  assertEquals((await host.json(["queue", "list"]) as { items: { state: string }[] }).items[0]!.state, "cancelled");
  assertEquals((await host.json(["queue", "cancel", "ffff"], 1)).code, "not_found");
});

Deno.test("ui prints the address alone; it begins one session, whose token opens the interface", async () => {
  await using host = await makeBrokerHost();
  const { stdout } = await host.taskd("ui");
  const url = new URL(stdout.trim());
  const token = await beginSession(url.href);
  const ask = (authorization: string) => fetch(new URL("/tasks", url), { headers: { authorization } });
  assertEquals(await (await ask(`Bearer ${token}`)).json(), { tasks: [] });
  const refused = await ask("Bearer no");
  await refused.body?.cancel();
  assertEquals([refused.status, url.hostname], [401, "127.0.0.1"]);
  assertEquals(await beginSession(url.href), "", "a second time");
});

Deno.test("a client finds the broker by config.yaml, and says where that file is broken", async () => {
  await using host = await makeBrokerHost();
  const config = `${host.base}/home/.taskd/config.yaml`;
  const env = { ...host.env, BROKER_SOCKET: "" };
  await Deno.writeTextFile(config, `broker:\n  socket: ${host.socket}\n`, { mode: 0o600 });
  assertEquals((await host.taskdIn(env, "tasks")).stderr, "");
  await Deno.writeTextFile(config, "broker:\n  sockt: /x\n", { mode: 0o600 });
  const { code, stderr } = await host.taskdIn(env, "tasks");
  assertEquals(code, 1);
  assertStringIncludes(stderr, `${config}:2:3`);
  assertStringIncludes(stderr, "sockt");
  assertEquals((await host.taskdIn(env, "tasks", "-socket", host.socket)).code, 0, "a socket that is named is meant");
});
