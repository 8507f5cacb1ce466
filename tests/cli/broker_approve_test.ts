import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { DatabaseConflicts } from "../../broker/task/database_schema.ts";
import { type Binding, bindingDigest } from "../../broker/task/binding.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import type { Task } from "../../broker/task/task.ts";
import { type BrokerHost, DIFF_SHA256, makeBrokerHost, type Script, toGate, toPushed } from "./support/broker.ts";
import { atTerminal, isInstalled } from "./support/terminal.ts";

const REPO = "https://example.com/ada/shop";

/** A task at the gate. */
async function pendingTask(host: BrokerHost, second_look: string[] = []): Promise<string> {
  host.engine.script = (task, engine) => toGate(task, engine, second_look);
  host.engine.landing = toPushed;
  const { id } = await host.engine.submit({ repo: REPO, instruction: "Fix \x1b[31mit\nand more" });
  await Promise.all(host.engine.running);
  return id;
}

Deno.test("review shows what is known first, then the diff without escapes, then the exact command", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host, ["lockfile", "ci_files"]);
  const { code, stdout, stderr } = await host.taskd("review", id.slice(0, 6));
  assertEquals([code, stderr], [0, ""]);
  const order = [
    "instruction:\n  Fix \\x1b[31mit\n  and more\n",
    "look twice, lockfile: why\n  deno.lock\n",
    "not established:",
    "diff --git a/deno.lock b/deno.lock",
    "+new \\x1b[2J\\u202e\n",
    `To approve exactly this, ${DIFF_SHA256}:\n` +
    `  taskd approve ${id.slice(0, 12)} --diff 9c56cc51b374c3ba --acknowledge lockfile --acknowledge ci_files\n`,
    `To refuse it:\n  taskd deny ${id.slice(0, 12)} "why"\n`,
  ].map((text) => stdout.indexOf(text));
  assertEquals(order.includes(-1), false, stdout);
  assertEquals(order, order.toSorted((a, b) => a - b));
  // deno-lint-ignore no-control-regex
  assertEquals(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/.test(stdout), false);
});

Deno.test("the command that review ends with approves", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host, ["lockfile", "ci_files"]);
  const { approve_command } = await host.json(["review", id]);
  const approved = await host.taskd(...String(approve_command).split(" ").slice(1));
  assertEquals(approved.code, 0);
  assertEquals(host.engine.approvals, [{ id, diff_sha256: DIFF_SHA256, acknowledge: ["lockfile", "ci_files"] }]);
});

Deno.test("review of a decided task shows the same diff, who decided when, and where it went", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host, ["lockfile"]);
  const diffOf = (text: string) => /^diff --git [^]*?\n\n/m.exec(text)?.[0];
  const before = diffOf((await host.taskd("review", id)).stdout);
  host.engine.landing = () => Promise.resolve();
  const approved = await host.taskd("approve", id, "--diff", DIFF_SHA256, "--acknowledge", "lockfile", "--no-wait");
  assertEquals([approved.code, approved.stdout.includes("is being pushed (taskd logs ")], [0, true]);
  const pushed = { branch: "agent/1", commit: "0123456789".repeat(4) };
  const task = await host.engine.tasks.reopen(id);
  await task.move({ from: "pushing", to: "done", outcome: "pushed", reason: "", pushed });
  const { stdout } = await host.taskd("review", id);
  assertEquals([before === undefined, diffOf(stdout)], [false, before]);
  const { approval } = (await host.json(["review", id])).task as TaskView;
  const who = `the owner of the socket (uid ${Deno.uid()}), via command line`;
  assertStringIncludes(stdout, `Approved: ${approval!.at}\nApproved by: ${who}\nAcknowledged: lockfile\n`);
  assertStringIncludes(stdout, `Pushed to agent/1, commit https://example.com/ada/shop/commit/${pushed.commit}\n`);
});

Deno.test("review --color colours the diff also into a pipe, and never what is in it", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const { stdout } = await host.taskd("review", id, "--color");
  assertStringIncludes(stdout, "\x1b[31m-old\x1b[39m\n\x1b[32m+new \\x1b[2J\\u202e\x1b[39m\n");
});

Deno.test("review of a task that does not wait says where it stands; before there is a diff it fails", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  assertEquals((await host.taskd("deny", id, "too \x1b[2Jwide")).code, 0);
  const who = `the owner of the socket (uid ${Deno.uid()}), via command line`;
  const { stdout } = await host.taskd("review", id);
  const [, since] = /The task is at denied: there is nothing to approve\nDenied: (\S+)\nDenied by: /.exec(stdout)!;
  assertEquals(since, host.engine.tasks.read(id).stage_since);
  assertStringIncludes(stdout, `Denied by: ${who}\nReason: too \\x1b[2Jwide\n`);
  assertMatch((await host.taskd("inspect", id)).stdout, /\ndenied by +the owner of the socket .*, via command line\n/);
  assertEquals((await host.json(["review", id])).approve_command, null);
  host.engine.script = () => Promise.resolve();
  const early = await host.engine.submit({ repo: REPO, instruction: "Fix" });
  assertEquals((await host.json(["review", early.id], 1)).code, "not_found");
});

Deno.test("review says that a record was altered before anything else", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  host.engine.faults.set(id, "row 3 does not follow");
  const { stdout } = await host.taskd("review", id);
  assertEquals(stdout.split("\n")[0], "THE RECORD OF THIS TASK IS ALTERED OR DAMAGED: row 3 does not follow");
});

Deno.test("a diff that was altered since it was collected is not shown", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  host.engine.diffs.set(id, host.engine.diffs.get(id)!.replace("+new", "+harmless"));
  const { code, stdout, stderr } = await host.taskd("review", id);
  assertEquals([code, stdout], [1, ""]);
  assertStringIncludes(stderr, "its diff or its brief was altered");
  assertEquals((await host.json(["review", id], 1)).code, "altered");
});

Deno.test("approve takes the diff that is named, by 16 digits or more in any case, and no other", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const table: [string, number, string][] = [
    ["9c56cc51b374c3b", 2, "usage"],
    [`${DIFF_SHA256}0`, 2, "usage"],
    ["zc56cc51b374c3ba", 2, "usage"],
    ["0000cc51b374c3ba", 1, "stale_diff"],
    [DIFF_SHA256.replace(/.$/, "0"), 1, "stale_diff"],
  ];
  for (const [digits, status, code] of table) {
    assertEquals((await host.json(["approve", id, "--diff", digits], status)).code, code, digits);
  }
  assertEquals(host.engine.approvals, []);
  const { code, stdout } = await host.taskd("approve", id.slice(0, 8), "--diff", "9C56CC51B374C3BA");
  assertEquals([code, stdout.startsWith(`Approved ${id}: `)], [0, true]);
  assertEquals(host.engine.approvals.map(({ diff_sha256 }) => diff_sha256), [DIFF_SHA256]);
});

const PUSHED = { branch: "agent/1", commit: "c".repeat(40) };

const LANDINGS: [string, Script, { code: number; says: RegExp }][] = [
  ["pushed", toPushed, { code: 0, says: /Pushed: agent\/\S+ https:\/\/example.com\/pull\/7\n$/ }],
  [
    "awaiting_ci",
    async (task) => void await task.move({ from: "pushing", to: "awaiting_ci", pushed: PUSHED }),
    { code: 0, says: /Pushed: agent\/1\nNext: taskd logs/ },
  ],
  [
    "push_failed",
    async (task) => void await task.move({ from: "pushing", to: "push_failed", reason: "the host is away" }),
    { code: 3, says: /push_failed: the host is away\nNext: taskd push/ },
  ],
  [
    "pushed, data waits",
    async (task) => void await task.move({ from: "pushing", to: "data_waits", reason: "it moved", pushed: PUSHED }),
    { code: 4, says: /data_waits: it moved\n[^]*Pushed: agent\/1\nNext: taskd push/ },
  ],
];

Deno.test("approve and push wait until the change has landed, and their status says how it came out", async () => {
  await using host = await makeBrokerHost();
  for (const [standing, script, { code, says }] of LANDINGS) {
    const id = await pendingTask(host);
    host.engine.landing = script;
    const approved = await host.taskd("approve", id, "--diff", DIFF_SHA256);
    assertEquals([approved.code, approved.stdout], [code, `Approved ${id}: it is at ${standing}\n`], standing);
    assertMatch(approved.stderr, new RegExp(`^Approved ${id}: its change is being pushed\n[^]*${says.source}`));
    const record = await host.json(["inspect", id]);
    const again = await pendingTask(host);
    host.engine.landing = script;
    const result = await host.json(["approve", again, "--diff", DIFF_SHA256], code);
    assertEquals([result.approved, result.followed, (result.task as TaskView).stage], [
      ...[true, true],
      (record.task as TaskView).stage,
    ]);
    const waiting = await pendingTask(host);
    host.engine.landing = LANDINGS[2]![1];
    await host.taskd("approve", waiting, "--diff", DIFF_SHA256);
    host.engine.round = script;
    assertEquals((await host.taskd("push", waiting)).code, code, standing);
  }
});

Deno.test("approve waits no longer than --timeout, and its last word says that it goes on", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  host.engine.landing = () => Promise.resolve();
  const { code, stderr } = await host.taskd("approve", id, "--diff", DIFF_SHA256, "--timeout", "50ms");
  assertEquals(code, 1);
  assertStringIncludes(stderr, `The task ${id} is approved, and has not landed within 50ms`);
  assertStringIncludes(stderr, `It goes on by itself; come back with: taskd logs ${id.slice(0, 12)} -f`);
  assertEquals(host.engine.tasks.read(id).stage, "pushing");
  const task = await host.engine.tasks.reopen(id);
  await task.move({ from: "pushing", to: "push_failed", reason: "away" });
  assertEquals((await host.json(["push", id, "--timeout", "50ms"], 1)).code, "timed_out");
});

Deno.test("approve names categories not acknowledged yet, and refuses unknown ones", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host, ["lockfile", "ci_files"]);
  const base = ["approve", id, "--diff", DIFF_SHA256];
  const { stderr, code } = await host.taskd(...base, "--acknowledge", "lockfile");
  assertEquals(code, 1);
  assertStringIncludes(stderr, "not acknowledged yet: ci_files\n");
  assertStringIncludes(stderr, "--diff 9c56cc51b374c3ba --acknowledge lockfile --acknowledge ci_files\n");
  const stray = await host.taskd(...base, "--acknowledge", "lokfile");
  assertEquals(stray.code, 2);
  assertStringIncludes(stray.stderr, "It has: lockfile, ci_files");
  assertEquals(host.engine.approvals, []);
});

Deno.test("approve twice, after a denial, or of a task that never came to the gate is refused", async () => {
  await using host = await makeBrokerHost();
  const approved = await pendingTask(host);
  assertEquals((await host.taskd("approve", approved, "--diff", DIFF_SHA256)).code, 0);
  const denied = await pendingTask(host);
  assertEquals((await host.taskd("deny", denied)).code, 0);
  host.engine.script = () => Promise.resolve();
  const { id: early } = await host.engine.submit({ repo: REPO, instruction: "Fix" });
  for (const id of [approved, denied, early]) {
    assertEquals((await host.json(["approve", id, "--diff", DIFF_SHA256], 1)).code, "wrong_state");
  }
  assertEquals((await host.json(["deny", denied], 1)).code, "wrong_state");
});

Deno.test("approve without --diff approves nothing where there is no terminal to show the change on", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const { code, stderr } = await host.taskdWith("y\ny\ny\n", "approve", id);
  assertEquals(code, 2);
  assertStringIncludes(stderr, `taskd review ${id.slice(0, 12)}`);
  assertEquals(host.engine.approvals, []);
});

/** A task whose change has 90 rows of `orders`, `more` of which the brief does not show. */
async function taskWithRows(host: BrokerHost): Promise<{ id: string; category: string }> {
  const category = "rows:90:shop@main:orders";
  const id = await pendingTask(host, [category]);
  const counts = { rows_added: 90, rows_removed: 0, rows_changed: 0 };
  const none = { more_tables: 0, schema: [], more_schema: 0, other_changes: false };
  const tables = [{ table: "orders", change: "changed" as const, ...counts }];
  const databases = [{ db: "shop", base: "main", changed: true, tables, ...none }];
  host.engine.briefs.set(id, { ...host.engine.briefs.get(id)!, databases });
  host.engine.rows = ({ cursor = "0", limit = 100 }) => {
    const to = Math.min(90, Number(cursor) + limit);
    const rows = Array.from({ length: to - Number(cursor) }, (_, at) => ({
      change: "added" as const,
      key: { id: Number(cursor) + at + 1 },
      after: { name: "\x1b[2J" },
    }));
    return { rows, ...(to < 90 && { next: String(to) }) };
  };
  return { id, category };
}

Deno.test("review --all and --table print every row of a database, --rows the first, safe to print", async () => {
  await using host = await makeBrokerHost();
  const { id } = await taskWithRows(host);
  for (const words of [["--all"], ["--table", "orders"]]) {
    const { stdout } = await host.taskd("review", id, ...words);
    assertEquals(stdout.match(/^\+ id=\d+ name=.*u001b\[2J"$/gm)?.length, 90, stdout);
    assertEquals(stdout.includes("To see every row"), false);
  }
  for (const words of [["--rows", "7"], ["--rows", "7", "--table", "orders"]]) {
    const { stdout } = await host.taskd("review", id, ...words);
    assertEquals(stdout.match(/^\+ id=\d+ name=/gm)?.length, 7, stdout);
    assertStringIncludes(stdout, "orders: 90 rows, the first 7\n");
    assertStringIncludes(stdout, "To see every row");
  }
  assertEquals((await host.taskd("review", id, "--rows", "7", "--json")).stdout.trimEnd().split("\n").length, 8);
  const short = await host.taskd("review", id);
  assertStringIncludes(short.stdout, `To see every row: taskd review ${id.slice(0, 12)} --table orders\n`);
  const { stdout } = await host.taskd("review", id, "--all", "--json");
  const [first, ...rows] = stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals([first.ok, rows.length, rows[89].key], [true, 90, { id: 90 }]);
  assertEquals((await host.json(["review", id, "--table", "ordres"], 1)).code, "not_found");
});

Deno.test("review --all after a denial says which rows are no longer kept, and shows all else", async () => {
  await using host = await makeBrokerHost();
  const { id } = await taskWithRows(host);
  await host.engine.deny(id, "no");
  host.engine.rows = () => {
    throw new TaskdError("not_found", "shop@task-1 is gone\x1b[2J, and was not promoted");
  };
  const { code, stdout } = await host.taskd("review", id, "--all");
  assertEquals(code, 0);
  assertStringIncludes(
    stdout,
    "orders: 90 rows\nnot kept after the decision, beyond the brief: shop@task-1 is gone\\x1b",
  );
  assertStringIncludes(stdout, "The task is at denied: there is nothing to approve\n");
  const lines = (await host.taskd("review", id, "--all", "--json")).stdout.trimEnd().split("\n");
  assertEquals(lines.map((line) => Object.keys(JSON.parse(line)).at(-1)), ["approve_command", "gone"]);
  // While it waits, what cannot be shown is an error.
  const waiting = await taskWithRows(host);
  host.engine.rows = () => {
    throw new TaskdError("not_found", "shop@task-1 is gone");
  };
  assertEquals((await host.taskd("review", waiting.id, "--all")).code, 1);
});

Deno.test("rows that do not belong to the change at the gate are not printed", async () => {
  await using host = await makeBrokerHost();
  const { id } = await taskWithRows(host);
  const { engine } = host;
  const view = engine.view.bind(engine);
  const [oid, some] = ["c".repeat(40), "d".repeat(64)];
  const result = { lineage: "l", txid: 1, image_sha256: some, changeset: { root: some, leaves: 1 } };
  const bound: Omit<Binding, "task_id" | "second_look" | "shown_sha256"> = {
    format: "taskd approval 1",
    record: { rows: 0, sha256: some },
    repository: "https://example.com/ada/shop",
    base: { commit: oid, tree: oid, branch: "main" },
    tree: oid,
    change_sha256: some,
    commit_message: "Say hello\n",
    pull_request: { title: "Say hello", body_sha256: some, draft: false },
    databases: [{ db: "shop", base: "main", base_lineage: "l", base_txid: 0, result }],
    flags_sha256: some,
    brief_sha256: sha256Hex(canonicalJson(await engine.brief(id))),
    policy_sha256: some,
    egress_sha256: some,
    settings_sha256: some,
  };
  engine.view = async (of) => {
    const task = await view(of);
    const shown_sha256 = sha256Hex(await engine.diff(of));
    const binding = { ...bound, task_id: of, shown_sha256, second_look: task.gate!.second_look };
    return { ...task, gate: { ...task.gate!, diff_sha256: bindingDigest(binding), binding } };
  };
  for (const proof of [{}, { proof: { index: 0, path: [] } }]) {
    const { rows } = engine;
    engine.rows = (query) => ({ ...rows(query), ...proof });
    const { code, stdout, stderr } = await host.taskd("review", id, "--all");
    assertEquals([code, stdout.includes("+ id=1")], [1, false], stdout);
    assertStringIncludes(stderr, "Cannot show the rows of orders: they are not those at the gate");
  }
});

const has_terminal = await isInstalled("script");
const why = has_terminal ? "" : " (ignored: script is not installed)";

Deno.test({
  name: `approve at a terminal shows the change, asks about each category, and approves after a clear yes${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    const id = await pendingTask(host, ["lockfile"]);
    const { code, seen } = await atTerminal(host, ["approve", id.slice(0, 8)], "y\ny\ny\n");
    assertEquals(code, 0, seen);
    const order = ["Fix \\x1b[31mit", "Show the diff?", "+new \\x1b[2J\\u202e", "Have you looked at lockfile (which"]
      .concat(["Approve this change of https://example.com/ada/shop, and push it?", `Approved ${id}`])
      .map((text) => seen.indexOf(text));
    assertEquals(order.includes(-1), false, seen);
    assertEquals(order, order.toSorted((a, b) => a - b));
    assertEquals(host.engine.approvals, [{ id, diff_sha256: DIFF_SHA256, acknowledge: ["lockfile"] }]);
  },
});

Deno.test({
  name: `at a terminal, no answer but yes approves: not the diff unseen, not Enter, not a no, not the end${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    const id = await pendingTask(host, ["lockfile"]);
    for (const answers of ["n\n", "y\nn\n", "y\n\n", "y\ny\nn\n", "y\ny\n\n", "\n\n"]) {
      const { code, seen } = await atTerminal(host, ["approve", id], answers);
      assertEquals(code, 1, seen);
      assertStringIncludes(seen, "Nothing is approved");
    }
    assertEquals((await atTerminal(host, ["approve", id], "y\ny\n\x04")).code, 130);
    assertEquals(host.engine.approvals, []);
  },
});

Deno.test({
  name: `at a terminal, rows are read page by page, or acknowledged by their number${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    const read = await taskWithRows(host);
    const { seen, code } = await atTerminal(host, ["approve", read.id], "y\ny\ny\ny\ny\n");
    assertEquals(code, 0, seen);
    assertStringIncludes(seen, "Go on: 10 rows of shop@main orders?");
    const rows = (id: string) => host.engine.tasks.read(id).approval?.seen?.filter(({ part }) => part === "rows");
    assertEquals(rows(read.id), [{ part: "rows", name: "shop@main orders", from: 1, to: 90, of: 90 }]);
    const left = await taskWithRows(host);
    const refused = await atTerminal(host, ["approve", left.id], "y\ny\nn\nn\n");
    assertEquals(refused.code, 1, refused.seen);
    assertStringIncludes(refused.seen, "50 rows of shop@main orders not read: acknowledge that?");
    assertEquals((await atTerminal(host, ["approve", left.id], "y\ny\nn\ny\ny\n")).code, 0);
    assertEquals(rows(left.id), [{ part: "rows", name: "shop@main orders", from: 1, to: 40, of: 90 }]);
    assertEquals(host.engine.approvals.map(({ acknowledge }) => acknowledge), [[read.category], [left.category]]);
  },
});

Deno.test({
  name: `review --page shows a screen at a time, up to the first no${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    const { id } = await taskWithRows(host);
    const all = await atTerminal(host, ["review", id, "--all", "--page"], "y\n".repeat(12));
    assertEquals(all.code, 0, all.seen);
    for (const text of ["Go on? [Y/n]", "id=90", "To approve exactly this"]) assertStringIncludes(all.seen, text);
    const some = await atTerminal(host, ["review", id, "--all", "--page"], "y\nn\n");
    assertEquals([some.code, some.seen.includes("To approve exactly this")], [0, false], some.seen);
    const { code, stderr } = await host.taskd("review", id, "--page");
    assertEquals(code, 2);
    assertStringIncludes(stderr, "there is no terminal");
  },
});

Deno.test({
  name: `approve at a terminal asks of each conflict which side stays, and decides what was read${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    const price = { kind: "changed_twice", table: "it\x1b[31mems", column: "price" } as const;
    const sides = { base: { price: 450 }, ours: { price: 460 }, theirs: { price: 500 } };
    const conflicts: DatabaseConflicts[] = [{
      db: "shop",
      base: "main",
      txid: 44,
      total: 4,
      conflicts: [
        { ...price, key: { id: 2 }, ...sides },
        { ...price, key: { id: 3 }, ...sides },
        { kind: "deleted_and_changed", table: "items", key: { id: 5 }, base: { id: 5 }, theirs: { id: 5, price: 1 } },
        { kind: "constraint", table: "items", key: { id: 4 }, detail: "UNIQUE constraint failed" },
      ],
    }];
    const id = await pendingTask(host);
    host.engine.landing = async (task) => {
      const gate = { ...task.record.gate!, conflicts };
      await task.move({ from: "pushing", to: "awaiting_approval", gate, reason: "shop@main has moved" });
    };
    assertEquals((await host.taskd("approve", id, "--diff", DIFF_SHA256)).code, 3);
    host.engine.landing = toPushed;
    // An invalid answer is asked again; Enter keeps what the database has.
    const refused = await atTerminal(host, ["approve", id], "mine\ntheirs\n\n2\ny\nn\n");
    assertEquals([refused.code, host.engine.tasks.read(id).stage], [1, "awaiting_approval"], refused.seen);
    const { code, seen } = await atTerminal(host, ["approve", id], "theirs\n\n2\ny\ny\n");
    assertEquals(code, 0, seen);
    const order = ["shop@main has moved", "UNIQUE constraint failed", "1  ours    460", "2  theirs  500"]
      .concat(["shop@main it\\x1b[31mems id=2 price: which stays?", "id=3 price: which stays?", "id=5: which stays?"])
      .map((text) => seen.indexOf(text));
    assertEquals(order.includes(-1), false, seen);
    assertEquals([order, seen.includes("id=4: which")], [order.toSorted((a, b) => a - b), false]);
    const [table, ours] = ["it\x1b[31mems", { price: 460 }];
    assertEquals(host.engine.tasks.read(id).approval?.decisions, [
      { db: "shop", table, key: { id: 2 }, column: "price", take: "theirs", ours },
      { db: "shop", table, key: { id: 3 }, column: "price", take: "ours", ours },
      { db: "shop", table: "items", key: { id: 5 }, take: "theirs", ours: null },
    ]);
  },
});

Deno.test({
  name: `submit at a terminal keeps one line up to date and leaves the stages behind it${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    host.engine.script = async (task, engine) => {
      await task.append({ type: "output", channel: "stdout", text: "first\nlast \x1b[2J line\n" });
      await toGate(task, engine);
    };
    const { code, seen } = await atTerminal(host, ["submit", REPO, "Fix"], "");
    assertEquals(code, 0, seen);
    assertStringIncludes(seen, "\r\x1b[Kadmission  ");
    assertStringIncludes(seen, "last \\x1b[2J line");
    assertEquals(seen.includes("first\r\n"), false);
    assertStringIncludes(seen, "$0.0123");
    assertStringIncludes(seen, "\r\x1b[K");
    assertStringIncludes(seen, "Next: taskd review ");
  },
});

Deno.test("inspect --verify says what holds, safe to print, and fails where something does not", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const good = await host.taskd("inspect", id, "--verify");
  assertEquals([good.code, good.stdout.includes("holds: \\x1b[31mred"), good.stdout.includes("\nverified\n")], [
    0,
    true,
    true,
  ]);
  host.engine.altered.add(id);
  const bad = await host.taskd("inspect", id, "--verify");
  assertEquals([bad.code, bad.stdout.includes("FAILS"), bad.stdout.includes("\nverified\n")], [1, true, false]);
});

Deno.test("conflicts come back to the gate: review shows them, --resolve and --prefer decide them", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const place = { table: "it\x1b[31mems", key: { id: 2 }, column: "price" };
  const conflict = {
    kind: "changed_twice",
    ...place,
    base: { price: 450 },
    ours: { price: 460 },
    theirs: { price: 500 },
  };
  const conflicts = [{ db: "shop", base: "main", txid: 44, conflicts: [conflict], total: 1 }] as DatabaseConflicts[];
  host.engine.landing = async (task) => {
    const gate = { ...task.record.gate!, conflicts };
    await task.move({ from: "pushing", to: "awaiting_approval", gate, reason: "shop@main has moved" });
  };
  // Nothing has landed: the status of a push that failed.
  assertEquals((await host.taskd("approve", id, "--diff", DIFF_SHA256)).code, 3);
  const { stdout } = await host.taskd("review", id);
  for (
    const part of ["shop@main has moved", "in conflict, ours is what shop@main has", "it\\x1b[31mems", "460", "500"]
  ) {
    assertStringIncludes(stdout, part);
  }
  assertStringIncludes(stdout, `--diff ${DIFF_SHA256.slice(0, 16)} --prefer ours|theirs, or --resolve FILE`);
  assertEquals((await host.json(["review", id])).conflicts, conflicts);
  const file = `${host.env.HOME}/decided.json`;
  await Deno.writeTextFile(file, JSON.stringify([{ ...place, take: "theirs" }]));
  host.engine.landing = toPushed;
  const approve = ["approve", id, "--diff", DIFF_SHA256];
  assertEquals((await host.taskd(...approve, "--prefer", "mine")).code, 2);
  const decided = await host.taskd(...approve, "--prefer", "ours", "--resolve", file);
  assertEquals([decided.code, decided.stderr.includes("\x1b")], [0, false], decided.stderr);
  const { approval } = host.engine.tasks.read(id);
  assertEquals(approval?.decisions, [{ db: "shop", ...place, take: "theirs", ours: { price: 460 } }]);
});

Deno.test("conflicts of data that waits: review lists them and ends with the push that decides these", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const place = { table: "items", key: { id: 2 }, column: "price" };
  const conflict = { kind: "changed_twice", ...place, ours: { price: 460 }, theirs: { price: 500 } };
  const pushed = { branch: "agent/1", commit: "0123456789".repeat(4) };
  const waits = (price: number) => async (task: Task) => {
    const conflicts = { db: "shop", base: "main", txid: 44, total: 1 };
    const found = { ...conflicts, conflicts: [{ ...conflict, ours: { price } }] };
    const result = { db: "shop", base: "main", branch: "task-1", result: "kept", reason: "moved", conflicts: found };
    await task.append({ type: "evidence", name: "database_results", value: [result] });
    await task.move({ from: "pushing", to: "data_waits", reason: "shop@main has moved", pushed });
  };
  host.engine.landing = waits(460);
  assertEquals((await host.taskd("approve", id, "--diff", DIFF_SHA256)).code, 4);
  const { decide_command, approve_command } = await host.json(["review", id]);
  assertEquals(approve_command, null);
  const { stdout } = await host.taskd("review", id);
  assertStringIncludes(stdout, `${decide_command} --prefer ours|theirs, or --resolve FILE`);
  const decide = [...String(decide_command).split(" ").slice(1), "--prefer", "theirs"];
  assertEquals((await host.json(["push", id, "--prefer", "theirs"], 1)).code, "invalid_request");
  assertEquals((await host.json(["push", id, "--conflicts", "1234"], 2)).code, "usage");
  // Another round has found another value.
  host.engine.round = waits(470);
  assertEquals((await host.taskd("push", id)).code, 4);
  assertEquals((await host.json(decide, 1)).code, "conflict");
  host.engine.round = toPushed;
  const again = String((await host.json(["review", id])).decide_command).split(" ").slice(1);
  assertEquals((await host.taskd(...again, "--prefer", "theirs")).code, 0);
  assertEquals(host.engine.tasks.read(id).decisions, [{ db: "shop", ...place, take: "theirs", ours: { price: 470 } }]);
});
