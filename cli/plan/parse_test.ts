import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { TaskdError } from "../../lib/errors.ts";
import { COMMANDS, GLOBAL_FLAGS } from "../table/commands.ts";
import { parseCall, type ParsedCall } from "./parse.ts";

function parse(line: readonly string[], env: Record<string, string> = {}): Promise<ParsedCall> {
  return parseCall(line, {
    commands: COMMANDS,
    globals: GLOBAL_FLAGS,
    env: (name) => env[name],
    absolute: (path) => path.startsWith("/") ? path : `/here/${path}`,
  });
}

async function parsed(...line: string[]): Promise<Extract<ParsedCall, { kind: "command" }>> {
  const call = await parse(line);
  if (call.kind !== "command") throw new Error("It asks for help");
  return call;
}

Deno.test("parseCall() takes -flag and --flag, with a space or =, before and after arguments", async () => {
  for (
    const line of [
      ["fork", "shop", "try", "--ttl", "24h", "--materialize"],
      ["fork", "--materialize", "--ttl=24h", "shop", "try"],
      ["fork", "-ttl", "24h", "shop", "-materialize", "try"],
      ["fork", "shop", "-ttl=24h", "-materialize=true", "--", "try"],
    ]
  ) {
    const { spec, positionals, flags } = await parsed(...line);
    assertEquals(spec.name, "fork");
    assertEquals(positionals, { "address": "shop@main", "new-branch": "try" });
    assertEquals(flags.ttl, 86_400_000);
    assertEquals(flags.materialize, true);
    assertEquals(flags.at, null);
  }
});

Deno.test("parseCall() takes global flags before the command, and two-word commands around them", async () => {
  assertEquals((await parsed("-store", "/srv/s", "branches")).flags.store, "/srv/s");
  const { spec, flags } = await parsed("session", "--json", "open", "shop");
  assertEquals([spec.name, flags.json], ["session open", true]);
});

Deno.test("parseCall() takes a flag's letter for its name, and a relative repository for a path", async () => {
  assertEquals((await parsed("logs", "3f9a", "-f")).flags.follow, true);
  await assertRejects(() => parse(["logs", "3f9a", "-f", "--follow"]), TaskdError, "given twice");
  const table = [
    ["./x", "/here/./x"],
    ["..", "/here/.."],
    ["/x", "/x"],
    [".github/x/y", ".github/x/y"],
    ["git@host:a/b", "git@host:a/b"],
    ["https://host/a/b", "https://host/a/b"],
  ] as const;
  for (const [word, repo] of table) assertEquals((await parsed("submit", word, "Fix")).positionals.repo, repo);
});

Deno.test("parseCall() takes the choices of a flag or an argument alone", async () => {
  assertEquals((await parsed("tasks", "--stage", "running")).flags.stage, "running");
  assertEquals((await parsed("completion", "zsh")).positionals.shell, "zsh");
  const said = 'Cannot read --prefer: "mine" is none of ours, theirs';
  await assertRejects(() => parse(["merge", "shop@try", "--into", "main", "--prefer", "mine"]), TaskdError, said);
  await assertRejects(() => parse(["completion", "csh"]), TaskdError, '"csh" is none of bash, zsh, fish');
});

Deno.test("a flag is a switch or takes a value as its own command has it", async () => {
  for (const { name, letter, kind } of GLOBAL_FLAGS) {
    const same = COMMANDS.flatMap(({ flags }) => flags).filter((flag) => [name, letter].includes(flag.name));
    assert(same.every((flag) => (flag.kind === "boolean") === (kind === "boolean")), name);
  }
  assertEquals((await parsed("destroy", "shop@submit", "--wait", "10s")).flags.wait, 10_000);
  const submitted = await parsed("submit", "--wait", "destroy", "Fix");
  assertEquals([submitted.flags.wait, submitted.positionals.instruction], [true, "Fix"]);
});

Deno.test("parseCall() takes an empty value and a dash after a space", async () => {
  assertEquals((await parsed("create", "shop", "--from", "-")).flags.from, "/here/-");
  await assertRejects(() => parse(["create", "shop", "--from", ""]), TaskdError, "is not a path");
  await assertRejects(() => parse(["create", "shop", "--from", "--", "-"]), TaskdError, "needs a value");
});

Deno.test("parseCall() reads each kind of value", async () => {
  assertEquals((await parsed("create", "shop", "--from", "a.db")).flags.from, "/here/a.db");
  assertEquals((await parsed("status", "-ro-cache-budget", "10G")).flags["ro-cache-budget"], 10 * 1024 ** 3);
  assertEquals((await parsed("serve")).flags["snapshot-every"], 16);
  assertEquals((await parsed("serve", "-flush-every", "0")).flags["flush-every"], 0);
  assertEquals((await parsed("diff", "a", "b", "-table", "x", "-table=y")).flags.table, ["x", "y"]);
  assertEquals((await parsed("export", "shop", "--", "./-")).positionals.file, "/here/./-");
  assertEquals((await parsed("export", "shop", "--", "-x.db")).positionals.file, "/here/-x.db");
});

Deno.test("parseCall() turns a negatable flag off only in its declared form", async () => {
  assertEquals((await parsed("rollback", "shop", "--to", "v1")).flags.safety, true);
  assertEquals((await parsed("rollback", "shop", "--to", "v1", "--no-safety")).flags.safety, false);
  assertEquals((await parsed("rollback", "shop", "--to", "v1", "--no-safety=false")).flags.safety, true);
  await assertRejects(() => parse(["rollback", "shop", "--to", "v1", "--no-materialize"]), TaskdError, "Unknown flag");
});

Deno.test("parseCall() lets the command line win over the environment, and that over the default", async () => {
  const storeOf = async (line: string[], env: Record<string, string>) => {
    const call = await parse(line, env);
    return call.kind === "command" ? call.flags.store : undefined;
  };
  assertEquals(await storeOf(["branches", "-store", "/a"], { BSTORE_STORE: "/b" }), "/a");
  assertEquals(await storeOf(["branches"], { BSTORE_STORE: "/b" }), "/b");
  assertEquals(await storeOf(["branches"], { BSTORE_STORE: "" }), "~/.taskd/store");
});

Deno.test("parseCall() reads a second variable where the first is not set, also for switches", async () => {
  const flags = async (env: Record<string, string>) => {
    const call = await parse(["branches"], env);
    return call.kind === "command" ? call.flags : {};
  };
  assertEquals((await flags({ AWS_REGION: "a" }))["s3-region"], "a");
  assertEquals((await flags({ AWS_REGION: "a", BSTORE_S3_REGION: "b" }))["s3-region"], "b");
  assertEquals((await flags({ AWS_REGION: "a", BSTORE_S3_REGION: "" }))["s3-region"], "a");
  for (const [text, on] of [["1", true], ["true", true], ["0", false], ["false", false]] as const) {
    assertEquals((await flags({ BSTORE_S3_PATH_STYLE: text }))["s3-path-style"], on);
  }
  assertEquals((await flags({}))["s3-path-style"], null);
  assertEquals((await parsed("branches", "--s3-path-style=false")).flags["s3-path-style"], false);
  await assertRejects(() => flags({ BSTORE_S3_PATH_STYLE: "yes" }), TaskdError, "Cannot read BSTORE_S3_PATH_STYLE");
});

Deno.test("parseCall() understands the ways to ask for help and for the version", async () => {
  assertEquals(await parse([]), { kind: "help", topic: [], all: false });
  assertEquals(await parse(["--help"]), { kind: "help", topic: [], all: false });
  assertEquals(await parse(["fork", "-h"]), { kind: "help", topic: ["fork"], all: false });
  assertEquals(await parse(["session", "open", "--help"]), { kind: "help", topic: ["session", "open"], all: false });
  assertEquals(await parse(["session", "--help"]), { kind: "help", topic: ["session"], all: false });
  assertEquals((await parsed("--version")).spec.name, "version");
});

Deno.test("parseCall() refuses what it does not understand, by name", async () => {
  const table: [string[], string, string][] = [
    [["frok", "shop"], 'Unknown command "frok"', "Did you mean fork? See taskd help"],
    [["sesion"], 'Unknown command "sesion"', "Did you mean session? See taskd help"],
    [["session", "opne"], 'Unknown command "session opne"', "Did you mean session open? See taskd help"],
    [["zzzzzz"], 'Unknown command "zzzzzz"', "See taskd help"],
    [["session"], "Session needs one of open, flush, status, close", "See taskd help session"],
    [["queue"], "Queue needs one of add, list, cancel", "See taskd help queue"],
    [["policy"], "Policy needs explain after it", "See taskd help policy"],
    [["fork", "--tll", "1h"], 'Unknown flag "--tll" for fork', "Did you mean --ttl? See taskd help fork"],
    [["fork", "-mat"], 'Unknown flag "-mat" for fork', "Did you mean --materialize? See taskd help fork"],
    [["fork", "---ttl"], 'Unknown flag "---ttl" for fork', "Did you mean --ttl? See taskd help fork"],
    [["fork", "-5"], 'Unknown flag "-5" for fork', "See taskd help fork"],
    [["--ttl", "1h", "fork"], 'Unknown flag "--ttl"', "See taskd help"],
    [["fork"], "Fork needs <address>", "See taskd help fork"],
    [["fork", "shop"], "Fork needs <new-branch>", "See taskd help fork"],
    [["fork", "a", "b", "c"], 'Fork takes no further argument "c"', "See taskd help fork"],
    [["fork", "a", "b", "--ttl"], "Flag --ttl needs a value: --ttl DURATION", "See taskd help fork"],
    [["fork", "a", "b", "--ttl", "--at=v1"], "Flag --ttl needs a value: --ttl DURATION", "See taskd help fork"],
    [["fork", "a", "b", "--at", "x", "-at=y"], "Flag --at is given twice", "See taskd help fork"],
    [["rollback", "a", "--to=x", "--no-safety", "--safety"], "Flag --safety is given twice", "See taskd help rollback"],
    [["fork", "a", "b", "--materialize=yes"], 'Flag --materialize is on or off, not "yes"', "See taskd help fork"],
    [["promote", "a"], "Promote needs --onto BRANCH", "See taskd help promote"],
    [["rollback", "a"], "Rollback needs --to POINT", "See taskd help rollback"],
    [
      ["serve", "-snapshot-every", "0"],
      'Cannot read --snapshot-every: "0" is not a whole number of at least 1',
      "See taskd help serve",
    ],
    [
      ["serve", "-snapshot-every", "1e3"],
      'Cannot read --snapshot-every: "1e3" is not a whole number of at least 1',
      "See taskd help serve",
    ],
    [["fork", "a", "b", "--ttl", "0"], 'Cannot read --ttl: "0" is shorter than 1ms', "See taskd help fork"],
    [["create", "a", "--from="], 'Cannot read --from: "" is not a path', "Name a file"],
    [["export", "a", "-"], "A database is not written to stdout: name a file", "One of that name is ./-"],
    [["destroy", "a"], 'Cannot use "a" here: it names no branch', "If it is to be main, write a@main"],
    [["destroy", "a@b@c"], 'Cannot use "a@b@c" here: it names a checkpoint, not a branch', "Write a@b"],
  ];
  for (const [line, message, hint] of table) {
    const error = await assertRejects(() => parse(line), TaskdError);
    assertEquals([error.code, error.message, error.hint ?? ""], ["usage", message, hint], line.join(" "));
  }
});

Deno.test("parseCall() names the environment variable whose value is wrong", async () => {
  const globals = [{ name: "wait", kind: "duration", env: "TASKD_WAIT", help: "" }] as const;
  const context = { commands: COMMANDS, globals, env: () => "5 m", absolute: (path: string) => path };
  const message = 'Cannot read TASKD_WAIT: Cannot parse duration "5 m": unexpected space';
  await assertRejects(() => parseCall(["version"], context), TaskdError, message);
});

Deno.test("parseCall() refuses names outside the rules", async () => {
  for (
    const line of [["create", "../etc"], ["fork", "a", "-b"], ["fork", "a", "B"], ["path", "a@b@c@d"], ["path", ""]]
  ) {
    await assertRejects(() => parse(line), TaskdError);
  }
});

Deno.test("parseCall() answers any words with a call or with an error for people", async () => {
  const known = COMMANDS.flatMap((command) => [
    ...command.name.split(" "),
    ...command.flags.flatMap((flag) => [`--${flag.name}`, `-${flag.name}=x`, `--no-${flag.name}`]),
  ]);
  const word = fc.oneof(
    fc.constantFrom(...known, "shop", "shop@main@v1", "--", "-", "1h", "5", "--json", "-store", "--constructor"),
    fc.string({ unit: "binary", maxLength: 12 }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 8 }), async (words) => {
      try {
        const call = await parse(words);
        if (call.kind === "help") return;
        const declared = [...GLOBAL_FLAGS, ...call.spec.flags].map((flag) => flag.name);
        assertEquals(Object.keys(call.flags).toSorted(), declared.toSorted());
      } catch (error) {
        const refused = error instanceof TaskdError && ["usage", "invalid_name"].includes(error.code);
        if (!refused || error.hint === undefined) throw error;
      }
    }),
    { numRuns: 2_000 },
  );
});
