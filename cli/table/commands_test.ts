import { assert, assertEquals } from "@std/assert";
import { EMPTY_VIEW } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { S3_ENV, S3_SYS } from "../../lib/backend/s3_permissions.ts";
import type { HostPlace } from "../plan/broker_host.ts";
import { type CommandSpec, type FlagKind, GROUPS } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { COMMANDS, GLOBAL_FLAGS } from "./commands.ts";
import { LAUNCH_KINDS, launchFlags } from "./launch_flags.ts";
import { commandHelp, helpWidth, overview } from "../commands/help_text.ts";
import { loadForBroker } from "../run/modules/broker.ts";
import { loadInline } from "../run/modules/inline.ts";
import { loadLocal } from "../run/modules/local.ts";
import { loadForStore } from "../run/modules/store.ts";
import { parseCall } from "../plan/parse.ts";
import { NO_PERMISSIONS, PERMISSION_KINDS, toDenoPermissions, unionOf } from "../plan/permissions.ts";
import { branchNeeds } from "../plan/needs.ts";
import { backendOf } from "../run/run.ts";

Deno.test("every row of the command table is whole and nothing is named twice", () => {
  const names = COMMANDS.map((command) => command.name);
  assertEquals(names.length, new Set(names).size);
  for (const command of COMMANDS) {
    assert(GROUPS.includes(command.group));
    assert(/^[A-Z].*[^.]$/.test(command.summary), command.name);
    assert(command.examples.length > 0, command.name);
    const flags = [...GLOBAL_FLAGS, ...command.flags];
    assertEquals(flags.length, new Set(flags.map((flag) => flag.name)).size, command.name);
    for (const flag of flags) {
      assert(/^[a-z][a-z0-9-]*$/.test(flag.name), flag.name);
      assertEquals(flag.kind === "boolean", flag.value === undefined, `${command.name} --${flag.name}`);
      assert(!flag.negatable || (flag.kind === "boolean" && flag.default === "true"), flag.name);
    }
    const optional = command.positionals.findIndex((positional) => positional.optional);
    assert(optional < 0 || command.positionals.slice(optional).every((positional) => positional.optional));
  }
});

Deno.test("every example parses, and names its own command", async () => {
  const context = { commands: COMMANDS, globals: GLOBAL_FLAGS, env: () => undefined, absolute: (path: string) => path };
  for (const command of COMMANDS) {
    for (const example of command.examples) {
      const words = example.words.replace(/ [>|] .*$/, "").match(/"[^"]*"|\S+/g)!.map((word) =>
        word.replaceAll('"', "")
      );
      const call = await parseCall(words, context);
      assertEquals(call.kind === "command" ? call.spec.name : "help", command.name, example.words);
    }
  }
});

/** These print while they work and leave nothing to render. */
const PRINTING_COMMANDS = ["demo", "logs", "mcp", "push", "retry", "review", "serve", "submit", "watch"];

Deno.test("every command's module loads, asks whom its row says, and has what the runner calls", async () => {
  for (const command of COMMANDS) {
    const load = { none: loadLocal, store: loadForStore, broker: loadForBroker }[backendOf(command)];
    const { backend, module } = await (command.uses === "nothing" ? loadInline : load)(command);
    assertEquals(backend, backendOf(command));
    const render = PRINTING_COMMANDS.includes(command.name) ? "undefined" : "function";
    assertEquals([typeof module.run, typeof module.render], ["function", render], command.name);
  }
});

Deno.test("help names every command and every flag", () => {
  const plain = (text: string) => text;
  for (const command of COMMANDS) {
    assert(overview(plain).includes(`  ${command.name} `), command.name);
    const style = { heading: plain, width: 100 };
    const [help, whole] = [false, true].map((all) => commandHelp(command, { ...style, all }));
    for (const flag of [...command.flags, ...GLOBAL_FLAGS]) {
      assert(help!.includes(flag.negatable ? `--no-${flag.name}` : `--${flag.name}`), `${command.name} ${flag.name}`);
    }
    for (const flag of GLOBAL_FLAGS) assert(whole!.includes(flag.help.slice(0, 20)), `${command.name} ${flag.name}`);
    assert(!help!.includes("Flags of every command"), command.name);
    for (const line of whole!.split("\n")) assert(line.length <= 120, line);
  }
});

Deno.test("help keeps within the columns of a terminal, and off one within 100", () => {
  const plain = (text: string) => text;
  assertEquals([20, 80, 200, undefined].map(helpWidth), [60, 80, 100, 100]);
  const pages = (width: number) => [
    overview(plain, width),
    ...COMMANDS.map((each) => commandHelp(each, { heading: plain, width, all: true })),
  ];
  for (const width of [80, 100]) {
    for (const page of pages(width)) {
      // Usage and examples are lines to copy.
      const lines = page.replace(/Usage\n.*|Examples\n[^]*/g, "").split("\n").filter((line) => line.length > width);
      assertEquals(lines, []);
    }
  }
});

Deno.test("launchFlags() never prompts, bounds the young generation, and allows no native code", () => {
  assertEquals(launchFlags(), [
    "--no-prompt",
    "--unstable-worker-options",
    "--v8-flags=--max-semi-space-size=4",
    "--allow-read",
    "--allow-write",
    "--allow-net",
    "--allow-run",
    "--allow-env",
    "--allow-sys",
  ]);
});

Deno.test("launchFlags() allows every kind of permission that a command may need, and no other", () => {
  const routes = ["store", "socket"] as const;
  const needs = unionOf(...COMMANDS.flatMap((each) => routes.map((route) => each.needs(samplePlan(each, route)))));
  const kinds = PERMISSION_KINDS.filter((kind) => kind !== "import" && needs[kind].length > 0);
  assertEquals(kinds, [...LAUNCH_KINDS]);
});

const SAMPLE_HOST: HostPlace = {
  directory: "/sample",
  lock: "/sample",
  egress_list: "/sample",
  live_socket: "/sample",
  roots: ["/sample"],
  variables: ["HOME"],
  tool_variables: ["HOME"],
  programs: PROGRAM_PATHS,
  notifiers: ["/sample"],
  deno: "/sample",
  entry: "/sample",
  store: "/sample",
  untrusted: [],
  exchangeable_programs: [],
  temporary: "/sample",
  unit_folders: ["/sample"],
  view: EMPTY_VIEW,
};

/** A plan with every argument and flag given, to ask the table what a command may ever need. */
function samplePlan(command: CommandSpec, route: Plan["route"]): Plan {
  return {
    command: command.name,
    positionals: Object.fromEntries(command.positionals.map((positional) => [positional.name, "/sample"])),
    flags: Object.fromEntries([...GLOBAL_FLAGS, ...command.flags].map((flag) => [flag.name, sampleOf(flag.kind)])),
    store: "s3://sample",
    workspace: "/sample",
    s3: { options: {}, access: { net: ["/sample"], env: [...S3_ENV], sys: [...S3_SYS], read: ["/sample"] } },
    socket: "/sample/taskd.sock",
    route,
    broker: { home: "/sample", socket: "/sample/broker.sock", host: SAMPLE_HOST },
  };
}

/** An address to listen on is the only text that is read any further. */
function sampleOf(kind: FlagKind): string {
  return kind === "string" ? "localhost:1" : "/sample";
}

Deno.test("toDenoPermissions() grants nothing where nothing is listed", () => {
  assertEquals(toDenoPermissions(NO_PERMISSIONS), {
    read: false,
    write: false,
    net: false,
    run: false,
    env: false,
    sys: false,
    ffi: false,
    import: false,
  });
});

Deno.test("branchNeeds() never gives a client of the daemon the store", () => {
  const call = { command: "fork", positionals: {}, flags: {}, store: "/s", workspace: "/s" };
  const plan: Plan = { ...call, socket: "/s/k", route: "socket" };
  const socket = { read: ["/s/k"], write: ["/s/k"], net: ["unix:/s/k"], sys: ["uid"] };
  assertEquals(branchNeeds(plan), { ...NO_PERMISSIONS, ...socket });
});
