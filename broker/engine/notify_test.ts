import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { DesktopNotifier, type NotifierOptions, type NotifyProgram, notifyPrograms } from "./notify.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { writeProgram } from "../../tests/support/programs.ts";

const TASK = {
  task_id: "0123456789abcdef0123456789abcdef",
  stage: "awaiting_approval",
  repo: "git.example.com/o/r",
  instruction: "Fix the bug",
} as const;

/** Desktop programs of the test's own, which record each argument and the environment on lines of their own. */
async function desktop(script = "", enabled = true) {
  const root = await Deno.makeTempDir({ prefix: "taskd-notify-" });
  const entries: string[] = [];
  /** The n-th program, in a place of the test's own. */
  const standIn = async (index: number): Promise<NotifyProgram> => {
    const path = `${root}/program${index}`;
    const record =
      `#!/bin/sh\nfor arg in "$@"; do printf '%s\\n' "$arg" >> ${root}/args${index}; done\nenv > ${root}/env\n`;
    await writeProgram(path, `${record}${script}\n`);
    return { ...notifyPrograms()[index]!, paths: [path] };
  };
  const make = (programs: readonly NotifyProgram[], options: Partial<NotifierOptions> = {}) =>
    new DesktopNotifier({
      enabled,
      env: (name) => ({ HOME: "/home/x", DISPLAY: ":0", VENDORA_API_KEY: "secret" })[name],
      log: (level, event, message) => entries.push(`${level} ${event} ${message}`),
      clock: systemClock,
      programs,
      ...options,
    });
  return {
    root,
    entries,
    standIn,
    make,
    args: async (index = 0) => (await Deno.readTextFile(`${root}/args${index}`)).split("\n").slice(0, -1),
    [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }),
  };
}

// conformance: b6.notification
Deno.test("a pending approval is shown with repository, instruction and task", async () => {
  await using at = await desktop();
  const notifier = at.make([await at.standIn(0)]);
  notifier.notify(TASK);
  await notifier.idle();
  assertEquals(await at.args(), [
    "--app-name=taskd",
    "--",
    "taskd: an approval is pending",
    "git.example.com/o/r: Fix the bug (01234567)",
  ]);
  assertEquals(at.entries, []);
});

Deno.test("the first program that exists is taken", async () => {
  await using at = await desktop();
  const notifier = at.make([{ ...notifyPrograms()[0]!, paths: [`${at.root}/absent`] }, await at.standIn(1)]);
  notifier.notify(TASK);
  await notifier.idle();
  const args = await at.args(1);
  assertEquals(args.slice(-2), ["taskd: an approval is pending", "git.example.com/o/r: Fix the bug (01234567)"]);
  assertEquals(args.filter((arg) => arg === "-e").length, 3);
});

Deno.test("a place that cannot be looked at stops no broker: the next one is taken", async () => {
  await using at = await desktop();
  Deno.symlinkSync("loop", `${at.root}/loop`);
  const notifier = at.make([{ ...notifyPrograms()[0]!, paths: [`${at.root}/loop`] }, await at.standIn(0)]);
  notifier.notify(TASK);
  await notifier.idle();
  assertEquals((await at.args()).length, 4);
});

Deno.test("attack: an instruction is neither shell, script, option nor markup", async () => {
  await using at = await desktop();
  const instruction = `"; touch ${at.root}/pwned; $(touch ${at.root}/pwned) \` <b>x</b> & " & (do shell script "x")`;
  for (const index of [0, 1]) {
    const notifier = at.make([await at.standIn(index)]);
    notifier.notify({ ...TASK, repo: "--help", instruction });
    await notifier.idle();
  }
  const [text] = (await at.args(0)).slice(-1);
  assert(!/[<>]|&(?!(?:amp|lt|gt);)/.test(text!), text);
  assertEquals((await at.args(0)).length, 4);
  assertEquals((await at.args(1)).slice(0, 6), [
    "-e",
    "on run argv",
    "-e",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "-e",
    "end run",
  ]);
  assertEquals((await at.args(1)).length, 8);
  assertEquals([...Deno.readDirSync(at.root)].filter(({ name }) => name === "pwned"), []);
});

Deno.test("attack: escapes, line breaks and direction marks are shown as such, and long text is cut", async () => {
  await using at = await desktop();
  const notifier = at.make([await at.standIn(0)]);
  notifier.notify({ ...TASK, instruction: `\u001b[31m\u202ered\nsecond ${"\u{1f600}".repeat(50_000)}` });
  await notifier.idle();
  const [text] = (await at.args()).slice(-1);
  // deno-lint-ignore no-control-regex
  assert(!/[\u0000-\u001f\u202e]/.test(text!));
  assertMatch(text!, /\\x1b\[31m\\u202ered second .*\.\.\. \(01234567\)$/);
  assert(text!.length < 400, String(text!.length));
});

Deno.test("the program gets the desktop's variables and no key", async () => {
  await using at = await desktop();
  const notifier = at.make([await at.standIn(0)]);
  notifier.notify(TASK);
  await notifier.idle();
  const env = await Deno.readTextFile(`${at.root}/env`);
  assertStringIncludes(env, "DISPLAY=:0\n");
  assert(!env.includes("secret"));
});

Deno.test("a program that fails is logged and harms nothing", async () => {
  await using at = await desktop("printf 'no display\\033[31m' >&2; exit 3");
  const notifier = at.make([await at.standIn(0)]);
  notifier.notify(TASK);
  await notifier.idle();
  assertEquals(at.entries.length, 1);
  assertMatch(
    at.entries[0]!,
    /^warn notify A desktop notification cannot be shown: .* ended with 3: no display\\x1b\[31m$/,
  );
});

Deno.test("a program that cannot be started is logged", async () => {
  await using at = await desktop();
  const program = await at.standIn(0);
  await Deno.chmod(program.paths[0]!, 0o644);
  const notifier = at.make([program]);
  notifier.notify(TASK);
  await notifier.idle();
  assertMatch(at.entries.join(), /^warn notify A desktop notification cannot be shown: /);
});

Deno.test("attack: a desktop that does not answer holds nothing up and is not asked without end", async () => {
  await using at = await desktop("while [ -e $(dirname $0)/hang ]; do sleep 0.02; done");
  await Deno.writeTextFile(`${at.root}/hang`, "");
  const notifier = at.make([await at.standIn(0)]);
  for (let count = 0; count < 20; count++) notifier.notify(TASK);
  assertEquals(at.entries.length, 12);
  await Deno.remove(`${at.root}/hang`);
  await notifier.idle();
});

Deno.test("what was begun is shown although the broker stops, unless the desktop does not answer", async () => {
  await using at = await desktop("while [ -e $(dirname $0)/hang ]; do sleep 0.02; done");
  const prompt = at.make([await at.standIn(0)]);
  prompt.notify(TASK);
  await prompt.close();
  assertEquals([(await at.args()).length, at.entries.length], [4, 0]);
  await Deno.writeTextFile(`${at.root}/hang`, "");
  const clock = new VirtualClock();
  const hung = at.make([await at.standIn(0)], { clock });
  hung.notify(TASK);
  const closed = hung.close();
  clock.advance(2_000);
  await closed;
  assertMatch(at.entries.join(), /^warn notify A desktop notification cannot be shown: .*the broker stops/);
});

Deno.test("switched off, nothing is looked for, run or logged", async () => {
  await using at = await desktop("", false);
  const notifier = at.make([await at.standIn(0)]);
  notifier.notify(TASK);
  await notifier.idle();
  assertEquals([...Deno.readDirSync(at.root)].map(({ name }) => name), ["program0"]);
  assertEquals(at.entries, []);
});

Deno.test("a host without a desktop is reported once", async () => {
  await using at = await desktop();
  const notifier = at.make([]);
  notifier.notify(TASK);
  notifier.notify(TASK);
  assertEquals(at.entries, ["info notify No desktop notifications: neither notify-send nor osascript is installed"]);
});
