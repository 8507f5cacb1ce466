import { assertEquals, assertStringIncludes } from "@std/assert";
import { type BrokerHost, DIFF_SHA256, makeBrokerHost, toGate } from "./support/broker.ts";
import { atTerminal, isInstalled } from "./support/terminal.ts";

const REPO = "https://example.com/ada/shop";

/** A task at the gate. */
async function pendingTask(host: BrokerHost, second_look: string[] = []): Promise<string> {
  host.engine.script = (task, engine) => toGate(task, engine, second_look);
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
    "To approve exactly this change:\n" +
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

Deno.test("review --color colours the diff also into a pipe, and never what is in it", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  const { stdout } = await host.taskd("review", id, "--color");
  assertStringIncludes(stdout, "\x1b[31m-old\x1b[39m\n\x1b[32m+new \\x1b[2J\\u202e\x1b[39m\n");
});

Deno.test("review of a task that does not wait says where it stands; before there is a diff it fails", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  await host.engine.deny(id, "no");
  assertStringIncludes((await host.taskd("review", id)).stdout, "The task is at denied: there is nothing to approve\n");
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

Deno.test("a diff that was altered since it was collected is shown to nobody", async () => {
  await using host = await makeBrokerHost();
  const id = await pendingTask(host);
  host.engine.diffs.set(id, host.engine.diffs.get(id)!.replace("+new", "+harmless"));
  const { code, stdout, stderr } = await host.taskd("review", id);
  assertEquals([code, stdout], [1, ""]);
  assertStringIncludes(stderr, "its diff was altered on the disk");
  assertEquals((await host.json(["review", id], 1)).code, "corrupt");
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
