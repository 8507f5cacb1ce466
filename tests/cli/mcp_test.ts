import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { TOOLS } from "../../cli/mcp/tools.ts";
import { startDaemon } from "./support/daemon.ts";
import { makePlace, type Place } from "./support/taskd.ts";
import { sql } from "../support/stores.ts";
import { textLines } from "../support/text_lines.ts";

interface Answer {
  id: number;
  result: {
    tools?: { name: string; annotations: object; outputSchema: { required: string[] } }[];
    content?: { text: string }[];
    structuredContent?: object;
    isError?: boolean;
  };
}

const GREETING = [
  {
    id: 0,
    method: "initialize",
    params: { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "test", version: "1" } },
  },
  { method: "notifications/initialized" },
];

/** A real `taskd mcp`. */
function startServer(place: Place): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", ...launchFlags(), new URL("../../cli/main.ts", import.meta.url).pathname, "mcp"],
    env: { BSTORE_STORE: place.store },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

function linesOf(messages: object[]): Uint8Array<ArrayBuffer> {
  const lines = messages.map((message) => JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n").join("");
  return new TextEncoder().encode(lines);
}

/** Asks a real `taskd mcp` and gives its answers by id, and what it wrote to stderr. */
async function ask(place: Place, requests: object[]): Promise<{ answers: Map<number, Answer>; stderr: string }> {
  const child = startServer(place);
  const writer = child.stdin.getWriter();
  await writer.write(linesOf([...GREETING, ...requests]));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  const reported = new TextDecoder().decode(stderr);
  assertEquals(code, 0, reported);
  const answers = new TextDecoder().decode(stdout).trim().split("\n").map((line) => JSON.parse(line) as Answer);
  return { answers: new Map(answers.map((answer) => [answer.id, answer])), stderr: reported };
}

const call = (id: number, name: string, given: object = {}) => ({
  id,
  method: "tools/call",
  params: { name, arguments: given },
});
const reported = (answer: Answer | undefined) => JSON.parse(answer!.result.content![0]!.text);

Deno.test("taskd mcp lists its tools and marks those that only read", async () => {
  await using place = await makePlace();
  const { answers, stderr } = await ask(place, [{ id: 1, method: "tools/list" }]);
  const { tools } = answers.get(1)!.result;
  assertEquals(tools!.map(({ name }) => name), TOOLS.map(({ name }) => name));
  assertEquals(tools!.find(({ name }) => name === "diff")!.annotations, {
    readOnlyHint: true,
    destructiveHint: false,
    openWorldHint: false,
  });
  assertEquals(tools!.find(({ name }) => name === "databases")!.outputSchema.required, ["databases"]);
  assertMatch(stderr, /serving \d+ tools/);
});

Deno.test("taskd mcp answers every line that is no message, with its id where it has one", async () => {
  await using place = await makePlace();
  const call = (given: string, id = "7") =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"create","arguments":${given}}}`;
  const lines = [
    call('{"db":"one","db":"two"}'),
    call('{"db":"one"}', '8,"id":9'),
    call('{"db":"\\ud83d"}', '"a"'),
    call('{"db":"one","ttl_ms":1e999}'),
    "not JSON",
    '{"id":10,"method":"tools/list"}',
    "[]",
    call(`{"db":"${"x".repeat(1 << 20)}"}`),
    call('{"db":"shop"}', "11"),
    "unfinished",
  ];
  const { code, stdout } = await place.taskdWith(lines.join("\n"), "mcp");
  const answers = stdout.trim().split("\n").map((line) => JSON.parse(line));
  assertEquals(
    answers.filter(({ error }) => error !== undefined).map(({ id, error }) => [id, error.code]),
    [[7, -32700], [9, -32700], ["a", -32700], [7, -32700], [null, -32700], [10, -32600], [null, -32600], [
      null,
      -32600,
    ], [null, -32700]],
  );
  assertEquals(answers.find(({ id }) => id === 11).result.structuredContent.txid, 1);
  assertEquals([code, (await place.json(["databases"])).databases], [0, [{ db: "shop", branches: 1 }]]);
});

Deno.test("no tool of taskd mcp reads or decides what waits for approval: its clients are agents", () => {
  const gate = /approve|deny|pending|review|task|brief|kill|push/;
  assertEquals(TOOLS.map(({ name }) => name).filter((name) => gate.test(name)), []);
});

Deno.test("an agent makes a database, and gets its answer though its input has ended", async () => {
  await using place = await makePlace();
  const { answers } = await ask(place, [call(1, "create", { db: "shop" })]);
  assertEquals(reported(answers.get(1)).txid, 1);
  assertEquals(reported(answers.get(1)), answers.get(1)!.result.structuredContent);
  const { answers: later } = await ask(place, [
    call(1, "fork", { db: "shop", new_branch: "try" }),
    call(2, "checkpoint", { db: "shop", name: "v1", note: "first" }),
    call(3, "verify", { db: "shop" }),
    call(4, "status", { db: "shop" }),
  ]);
  assertEquals(reported(later.get(1)).mode, "shared");
  assertEquals(reported(later.get(2)).checkpoint, "v1");
  assertEquals(reported(later.get(3)).intact, true);
  assertEquals(reported(later.get(4)).branch.db, "shop");
});

Deno.test("a server of tools works with a daemon that begins later, and without it once it has ended", async () => {
  await using place = await makePlace();
  const child = startServer(place);
  const [writer, answers] = [child.stdin.getWriter(), textLines(child.stdout)];
  await writer.write(linesOf(GREETING));
  await answers.next();
  const tool = async (name: string, given: object) => {
    await writer.write(linesOf([call(1, name, given)]));
    return reported(JSON.parse((await answers.next()).value!));
  };
  assertEquals((await tool("create", { db: "shop" })).txid, 1);
  assertEquals((await tool("open", { db: "shop" })).code, "daemon_unreachable");
  for (const round of ["one", "two"]) {
    await using _daemon = await startDaemon(place);
    assertEquals((await tool("open", { db: "shop" })).checkout, `${place.store}/checkouts/shop/main.db`);
    assertEquals((await tool("create", { db: round })).txid, 1);
    assertEquals((await tool("verify", { db: "shop" })).intact, true);
    assertEquals((await tool("status", { db: "shop" })).sessions.length, 1);
  }
  assertEquals((await tool("status", { db: "shop" })).sessions, []);
  await writer.close();
  assertEquals([(await answers.next()).done, (await child.status).code], [true, 0]);
  await child.stderr.cancel();
});

Deno.test("files outside of the store are read by the daemon alone, below its folder for them", async () => {
  await using place = await makePlace();
  const folder = await Deno.makeTempDir();
  sql(`${folder}/seed.db`, "CREATE TABLE t (a)");
  const create = [call(1, "create", { db: "seeded", from: `${folder}/seed.db` })];
  assertStringIncludes(reported((await ask(place, create)).answers.get(1)).hint, "serve --files");
  await ask(place, [call(1, "create", { db: "first" })]);
  await using _daemon = await startDaemon(place, "--files", folder);
  assertEquals(reported((await ask(place, create)).answers.get(1)).txid, 1);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("an agent destroys nothing in one call, whatever it sets", async () => {
  await using place = await makePlace();
  await place.json(["create", "shop"]);
  await place.json(["fork", "shop", "try"]);
  const { answers } = await ask(place, [
    call(1, "destroy", { db: "shop", branch: "try", confirm: true }),
    call(2, "destroy", { db: "shop", branch: "try", confirmation: "yes", safety: false }),
    call(3, "destroy", { db: "shop", branch: "try" }),
  ]);
  assertEquals([1, 2, 3].map((id) => reported(answers.get(id)).code), [
    "invalid_request",
    "unconfirmed",
    "unconfirmed",
  ]);
  assertStringIncludes(reported(answers.get(3)).hint, "Ask the person");
  const { branches } = await place.json(["branches", "shop"]) as { branches: { branch: string }[] };
  assertEquals(branches.map(({ branch }) => branch).sort(), ["main", "try"]);
});

Deno.test("wrong arguments and unknown tools are errors with their code and hint", async () => {
  await using place = await makePlace();
  const { answers } = await ask(place, [
    call(1, "fork", { db: "shop" }),
    call(2, "fork", { db: "Bad Name", new_branch: "x" }),
    call(3, "nothing"),
    call(4, "open", { db: "shop" }),
    call(5, "branches", { surprise: 1 }),
  ]);
  const expected: [number, string][] = [
    [1, "invalid_request"],
    [2, "invalid_name"],
    [3, "unknown_op"],
    [4, "daemon_unreachable"],
    [5, "invalid_request"],
  ];
  for (const [id, code] of expected) {
    assert(answers.get(id)!.result.isError);
    assertEquals(reported(answers.get(id)).code, code);
  }
  assertStringIncludes(reported(answers.get(4)).hint, "taskd serve");
});
