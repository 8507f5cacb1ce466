import { assertEquals } from "@std/assert";
import { sqlite3Write } from "../support/writers/oracle.ts";
import { planCall } from "../../cli/plan/launch.ts";
import type { Operations } from "../../cli/plan/operations.ts";
import { parseCall } from "../../cli/plan/parse.ts";
import { loadForStore } from "../../cli/run/modules/store.ts";
import { backendOf, runCommand } from "../../cli/run/run.ts";
import { COMMANDS, GLOBAL_FLAGS } from "../../cli/table/commands.ts";
import { Io } from "../../cli/text/io.ts";
import type { CallableOp, OpAnswer, OpArgs } from "../../lib/protocol/messages.ts";
import { DaemonProcess, Place } from "../daemon/daemon_process.ts";

/** Commands that ask a store and have no operation's answer to print. */
const OTHERS: Readonly<Record<string, string>> = {
  path: "where a file would be, which no daemon has to be asked for",
  watch: "one line for each event",
  mcp: "the protocol's own messages",
};

/** The branches' whole life, by words; `FILE` is a file in the place. */
const AT_REST = [
  "create shop --from FILE.db",
  "checkpoint shop one",
  "checkout shop@main@one",
  "fork shop side",
  "checkout shop@side",
  "touch shop@side --ttl 1h",
  "protect shop@side",
  "unprotect shop@side",
  "diff shop shop@side",
  "merge shop@side --into main --check",
  "merge shop@side --into main",
  "revert shop --list",
  "log shop --limit 2",
  "reset shop@side",
  "promote shop@side --onto main",
  "rollback shop --to one",
  "compact shop@side",
  "export shop FILE.out",
  "lease shop",
  "databases",
  "branches",
  "branches shop",
  "status",
  "status shop@side",
  "status --ro-cache-budget 1G",
  "undo shop",
  "undo shop --list",
  "verify shop",
  "verify shop@main@one --fast",
  "verify --all",
  "repair --all --dry-run",
  "gc",
  "gc --dry-run",
  "destroy shop@side",
];
const WITH_SESSION = [
  "session open shop",
  "session flush shop",
  "session status",
  "session status shop",
  "status shop",
  "session close shop",
];

/** Runs `taskd <words> --json` in this process; returns what it printed, and the last answer that it was given. */
async function run(place: Place, words: string[]): Promise<{ command: string; printed: unknown; answer: unknown }> {
  const context = {
    home: place.directory,
    entry: "",
    absolute: (path: string) => path,
    env: () => undefined,
    daemonSocket: () => Promise.resolve(undefined),
  };
  const argv = [...words, "--json", "--store", place.store];
  const call = await parseCall(argv, { ...context, commands: COMMANDS, globals: GLOBAL_FLAGS });
  if (call.kind === "help") throw new Error(words.join(" "));
  let printed = "";
  const sink = {
    writeSync: (bytes: Uint8Array) => (printed += new TextDecoder().decode(bytes), bytes.length),
    isTerminal: () => false,
  };
  const signal = new AbortController().signal;
  const io = new Io({ stdout: sink, stderr: sink, json: true, quiet: false, no_color: true, signal, now: () => 0 });
  let answer: object | undefined;
  await runCommand(call.spec, await planCall(call, context), io, async (spec) => {
    const loaded = await loadForStore(spec);
    if (loaded.backend !== "store") throw new Error(spec.name);
    const open = async (...args: Parameters<typeof loaded.open>) => {
      const ops = await loaded.open(...args);
      const ask: Operations["call"] = ops.call.bind(ops);
      ops.call = async <O extends CallableOp>(op: O, args: OpArgs<O>): Promise<OpAnswer<O>> => {
        const given = await ask(op, args);
        answer = given;
        return given;
      };
      return ops;
    };
    return { ...loaded, open };
  });
  return { command: call.spec.name, printed: JSON.parse(printed), answer: { ok: true, ...answer } };
}

async function runAll(place: Place, lines: readonly string[], more: string[] = []): Promise<Set<string>> {
  const seen = new Set<string>();
  for (const line of lines) {
    const words = line.split(" ").map((word) => word.replace("FILE", `${place.directory}/file`));
    const { command, printed, answer } = await run(place, [...words, ...more]);
    assertEquals(printed, answer, line);
    seen.add(command);
  }
  return seen;
}

Deno.test("--json of every command of the store is its operation's answer, at rest and by the daemon", async () => {
  await using place = new Place();
  await sqlite3Write(`${place.directory}/file.db`, "CREATE TABLE t (x)");
  const seen = await runAll(place, AT_REST);
  await using _daemon = await DaemonProcess.start(place);
  const live = AT_REST.filter((line) => !/^(?:create|export)/.test(line));
  const with_daemon = [...live, ...WITH_SESSION].map((line) =>
    line.replace("checkpoint shop one", "checkpoint shop two")
  );
  const socket = ["--socket", place.socket];
  for (const name of await runAll(place, with_daemon.filter((line) => !line.startsWith("verify")), socket)) {
    seen.add(name);
  }
  const store_commands = COMMANDS.filter((spec) => backendOf(spec) === "store").map(({ name }) => name);
  assertEquals(store_commands.filter((name) => !seen.has(name) && !(name in OTHERS)), []);
});
