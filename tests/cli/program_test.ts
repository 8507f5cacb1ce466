import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { COMMANDS } from "../../cli/table/commands.ts";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { makePlace } from "./support/taskd.ts";

Deno.test("taskd version says which build runs on what", async () => {
  await using place = await makePlace();
  const { code, stdout } = await place.taskd("version");
  assertEquals(code, 0);
  assertMatch(stdout, /^taskd dev \(deno \d+\.\d+\.\d+, [\w-]+\)\n$/);
  assertEquals(await place.json(["version"]), {
    ok: true,
    version: "dev",
    deno: Deno.version.deno,
    target: Deno.build.target,
  });
});

Deno.test("taskd without words, taskd help and taskd --help show the same overview", async () => {
  await using place = await makePlace();
  const outcomes = await Promise.all([place.taskd(), place.taskd("help"), place.taskd("--help")]);
  for (const outcome of outcomes) assertEquals(outcome, outcomes[0]);
  assertEquals(outcomes[0]!.code, 0);
  for (const command of COMMANDS) assertStringIncludes(outcomes[0]!.stdout, `  ${command.name} `);
});

Deno.test("help of a command, of a group and of nothing", async () => {
  await using place = await makePlace();
  assertEquals(await place.taskd("help", "fork"), await place.taskd("fork", "--help"));
  assertStringIncludes((await place.taskd("help", "session")).stdout, "taskd session open <branch>");
  assertStringIncludes((await place.taskd("help", "history")).stdout, "taskd rollback <branch>");
  assertStringIncludes((await place.taskd("help", "errors")).stdout, "lease_held");
  assertStringIncludes((await place.taskd("help", "errors", "lease_held")).stdout, "taskd session close");
  assertEquals((await place.taskd("help", "errors", "nonsense")).code, 2);
  assertEquals((await place.taskd("help", "nonsense")).code, 2);
  assertStringIncludes((await place.taskd("help", "frok")).stderr, "Did you mean fork? See taskd help");
  assertEquals((await place.json(["help", "nonsense"], 2)).code, "usage");
});

Deno.test("a call that makes no sense exits with 2, on stderr for people and on stdout for programs", async () => {
  await using place = await makePlace();
  assertEquals(await place.taskd("frok", "shop"), {
    code: 2,
    stdout: "",
    stderr: 'taskd: Unknown command "frok"\n  Did you mean fork? See taskd help\n',
  });
  const { code, stdout, stderr } = await place.taskd("frok", "--json");
  assertEquals([code, stderr], [2, ""]);
  assertEquals(JSON.parse(stdout), {
    ok: false,
    code: "usage",
    error: 'Unknown command "frok"',
    hint: "Did you mean fork? See taskd help",
  });
  assertEquals((await place.taskd("create", "Bad Name")).code, 2);
});

Deno.test("untrusted words come back without their escape sequences", async () => {
  await using place = await makePlace();
  const { stderr } = await place.taskd("\x1b[2J\u202e\x9b31m");
  // deno-lint-ignore no-control-regex
  assertEquals(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/.test(stderr), false);
});

Deno.test("--print-permissions shows a call's own set and does nothing", async () => {
  await using place = await makePlace();
  const { code, stdout } = await place.taskd("create", "shop", "--from", "a.db", "--print-permissions");
  assertEquals(code, 0);
  const files = ["", "-wal", "-shm", "-journal"].map((suffix) => `${place.base}/a.db${suffix}`).join(" ");
  assertEquals(
    stdout,
    [
      `read   ${place.store} ${files}`,
      `write  ${place.store}`,
      "net    nothing",
      "run    /usr/bin/cp /usr/bin/lslocks",
      "env    nothing",
      "sys    statfs",
      "ffi    nothing",
      "import nothing",
      "",
    ].join("\n"),
  );
  const { permissions } = await place.json(["session", "status", "--print-permissions"]);
  const socket = `${place.store}/taskd.sock`;
  assertEquals(permissions, {
    read: [socket],
    write: [socket],
    net: [`unix:${socket}`],
    run: [],
    env: [],
    sys: ["uid"],
    ffi: [],
    import: [],
  });
  assertEquals([...Deno.readDirSync(place.base)], []);
});

Deno.test("a reader that has seen enough is no failure", async () => {
  await using place = await makePlace();
  const child = place.start("help");
  await child.stdout.cancel();
  const { code, stderr } = await child.output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
});

Deno.test({
  name: "a result that cannot be written is reported on stderr, and the call fails",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await using place = await makePlace();
    await place.json(["create", "shop"]);
    const main = new URL("../../cli/main.ts", import.meta.url).pathname;
    for (
      const words of [["help"], ["databases"], ["databases", "--json"], ["help", "fork", "--json"], ["frok", "--json"]]
    ) {
      const { code, stderr } = await new Deno.Command("sh", {
        args: ["-c", 'exec "$@" > /dev/full', "sh", Deno.execPath(), "run", ...launchFlags(), main, ...words],
        env: { BSTORE_STORE: place.store },
      }).output();
      const text = new TextDecoder().decode(stderr);
      const why = words[0] === "frok"
        ? /^taskd: Unknown command "frok"\n/
        : /^taskd: Cannot write the result to stdout: No space.*\n {2}What the command did is done: do not repeat it/;
      assertMatch(text, why);
      assertEquals([code, text.includes("defect")], [words[0] === "frok" ? 2 : 1, false]);
    }
  },
});

Deno.test("a defect in a command's thread is reported as one, and fails", async () => {
  await using place = await makePlace();
  const main = new URL("./support/crash_main.ts", import.meta.url).pathname;
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...launchFlags(), main, "branches"],
    env: { BSTORE_STORE: place.store },
  }).output();
  assertEquals([code, new TextDecoder().decode(stdout)], [1, ""]);
  const text = new TextDecoder().decode(stderr);
  assertMatch(text, /^taskd: Unexpected failure: TypeError: staged \\x1b\[31m defect/);
  assertStringIncludes(text, "please report it");
});
