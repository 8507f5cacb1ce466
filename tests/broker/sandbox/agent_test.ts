import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ModelServer } from "./_model_server.ts";
import { Place, processesOf } from "./_sandbox.ts";

Deno.test("the built-in agent fixes a bug in a work folder", async () => {
  await using place = new Place();
  place.file("work, it/sum.js", "export function sum(a, b) {\n  return a - b;\n}\n");
  await using model = new ModelServer([
    { calls: [["list", { path: "." }], ["search", { text: "a - b" }]] },
    { calls: [["read", { path: "sum.js" }]] },
    { calls: [["edit", { path: "sum.js", old_text: "a - b", new_text: "a + b" }]] },
    { calls: [["write", { path: "docs/notes.md", content: "Sums add.\n" }]] },
    { calls: [["finish", { summary: "sum() subtracted; now it adds.\u001b[2J" }]] },
  ]);
  const sandbox = await place.runtime().start(place.spec(model.url, { instruction: "sum(1, 2) must be 3" }));
  assertEquals(await sandbox.wait(), { reason: "exited", code: 0, output_truncated: false });
  assertEquals(Deno.readTextFileSync(`${place.work}/sum.js`), "export function sum(a, b) {\n  return a + b;\n}\n");
  assertEquals(Deno.readTextFileSync(`${place.work}/docs/notes.md`), "Sums add.\n");
  assertEquals(place.result(), {
    type: "result",
    outcome: "finished",
    summary: "sum() subtracted; now it adds.\\x1b[2J",
    turns: 5,
    requests: 5,
  });
  const [listed, found, read] = model.answers();
  assertEquals(listed, "sum.js (46 bytes)");
  assertEquals(found, "sum.js:2:   return a - b;");
  assertStringIncludes(read!, "2\t  return a - b;");
  const first = model.asked[0]!;
  assertEquals(first.path, "/v1/chat/completions");
  assertEquals(first.authorization, "Bearer token-of-the-task");
  assertStringIncludes(first.body.messages[0]!.content!, "You cannot run programs");
  assertStringIncludes(first.body.messages[1]!.content!, "sum(1, 2) must be 3");
  assert(!JSON.stringify(place.lines).includes("token-of-the-task"));
  assertEquals(await processesOf(place.task_id), []);
});

Deno.test("the built-in agent answers hostile calls with errors and goes on", async () => {
  await using place = new Place();
  const outside = place.file("outside.txt", "keep out");
  place.file("work, it/inside.txt", "inside\n");
  Deno.mkdirSync(`${place.work}/.git`);
  Deno.linkSync(outside, `${place.work}/second_name.txt`);
  const hostile: [tool: string, args: unknown, says: string][] = [
    ["read", { path: "../outside.txt" }, "has .. in it"],
    ["read", { path: "a/../../outside.txt" }, "has .. in it"],
    ["read", { path: outside }, "without a leading /"],
    ["read", { path: "inside.txt\0.png" }, "NUL"],
    ["read", { path: "x".repeat(100_000) }, "bytes"],
    ["read", { path: "\ud800" }, "not valid Unicode"],
    ["read", { path: ".GIT/config" }, "off limits"],
    ["write", { path: ".g\u200cit/hooks/pre-commit", content: "x" }, "off limits"],
    ["write", { path: "git~1/config", content: "x" }, "off limits"],
    ["write", { path: "second_name.txt", content: "x" }, "hard link"],
    ["write", { path: ".", content: "x" }, "path of a file"],
    ["write", { path: "inside.txt/x", content: "x" }, "no folder"],
    ["write", { path: "big.txt", content: "x".repeat((1 << 20) + 1) }, "at most"],
    ["write", "x".repeat((2 << 20) + 1), "too large"],
    ["read", "{not json", "not valid JSON"],
    ["read", "[]", "not a JSON object"],
    ["read", {}, "path is missing"],
    ["read", { path: 7 }, "of type string"],
    ["read", { path: "inside.txt", mode: "root" }, "no argument"],
    ["read", { path: "inside.txt", first_line: 1e300 }, "of type integer"],
    ["bash", { command: "id" }, "There is no tool"],
    ["constructor", {}, "There is no tool"],
    ["edit", { path: "inside.txt", old_text: "absent", new_text: "" }, "does not occur"],
    ["search", { text: "a\nb" }, "within one line"],
    ["list", { path: "absent" }, "no folder"],
  ];
  await using model = new ModelServer([
    { calls: hostile.map(([tool, args]) => [tool, args]) },
    { calls: [["read", { path: "inside.txt" }]] },
    { calls: [["finish", { summary: "done" }]] },
  ]);
  const sandbox = await place.runtime().start(place.spec(model.url));
  assertEquals((await sandbox.wait()).code, 0);
  const answers = model.answers();
  for (const [index, [tool, args, says]] of hostile.entries()) {
    const call = `${tool} ${JSON.stringify(args).slice(0, 60)}`;
    assert(answers[index]!.startsWith("Error: "), call);
    assertStringIncludes(answers[index]!, says, call);
  }
  assertStringIncludes(answers.at(-1)!, "1\tinside");
  assertEquals(Deno.readTextFileSync(outside), "keep out");
  assertEquals([...Deno.readDirSync(place.root)].length, 2);
});

Deno.test("a work folder that is gone ends the run as failed, with the reason", async () => {
  await using place = new Place();
  let requests = 0;
  await using model = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    await request.text();
    // After a first call, which was done.
    if (++requests === 2) await Deno.remove(place.work);
    const call = { id: "1", type: "function", function: { name: "list", arguments: '{"path":"."}' } };
    return Response.json({ choices: [{ message: { content: null, tool_calls: [call] } }] });
  });
  const url = `http://127.0.0.1:${model.addr.port}`;
  assertEquals((await (await place.runtime().start(place.spec(url))).wait()).code, 1);
  const { outcome, summary } = place.result();
  assertEquals(outcome, "failed");
  assertEquals(summary, "the task's files cannot be used: NotFound");
});

Deno.test("the built-in agent ends an endless loop, a model without calls, and malformed answers", async () => {
  const table = [
    { script: { calls: [["list", { path: "." }]] as [string, unknown][] }, outcome: "turn_limit", turns: 8 },
    { script: { text: "I am done." }, outcome: "finished", turns: 2 },
    { script: new Response("<html>"), outcome: "bad_model_output", turns: 1 },
    { script: Response.json({ choices: [{ message: null }] }), outcome: "bad_model_output", turns: 1 },
    { script: new Response("x".repeat((8 << 20) + 1)), outcome: "bad_model_output", turns: 1 },
  ];
  for (const { script, outcome, turns } of table) {
    await using place = new Place();
    await using model = new ModelServer([script]);
    await (await place.runtime().start(place.spec(model.url, { max_turns: 8 }))).wait();
    const result = place.result();
    assertEquals([result.outcome, result.turns], [outcome, turns], result.summary);
    if (outcome === "turn_limit") assertStringIncludes(model.answers().at(-1)!, "you did exactly this before");
  }
});

Deno.test("the built-in agent waits for a 429 with Retry-After, else ends with the gateway's reason", async () => {
  const answer = (status: number, headers: Record<string, string> = {}) =>
    Response.json({ detail: `reason ${status}` }, { status, headers });
  const problem = (status: number, code: string) =>
    Response.json({ type: `urn:taskd:problem:${code}`, detail: `reason ${status}` }, { status });
  const final = { "x-should-retry": "false" };
  const done = { calls: [["finish", { summary: "done" }]] as [string, unknown][] };
  const table = [
    { script: [answer(429, { "retry-after": "0" }), answer(503, { "retry-after": "0" }), done], outcome: "finished" },
    { script: [problem(402, "budget_exhausted")], outcome: "budget_exhausted" },
    { script: [problem(429, "request_cap")], outcome: "request_cap" },
    { script: [problem(401, "unauthorized")], outcome: "token_refused" },
    { script: [answer(429, { "retry-after": "99999999" })], outcome: "model_unavailable" },
    { script: [answer(403)], outcome: "request_refused" },
    { script: [answer(426)], outcome: "request_refused" },
    { script: [answer(502, { "retry-after": "0" })], outcome: "model_unavailable" },
    // The endpoint's own: a key that it does not know, an account without money, a quota that is used up.
    { script: [answer(401)], outcome: "request_refused" },
    { script: [answer(402)], outcome: "request_refused" },
    { script: [answer(429, final)], outcome: "request_refused" },
  ];
  for (const { script, outcome } of table) {
    await using place = new Place();
    await using model = new ModelServer(script);
    const { code } = await (await place.runtime().start(place.spec(model.url))).wait();
    const result = place.result();
    assertEquals(result.outcome, outcome);
    assertEquals(code === 0, outcome === "finished");
    if (outcome !== "finished") assertStringIncludes(result.summary, `reason ${(script[0] as Response).status}`);
  }
});
