/**
 * What takes the built-in agent's place when it has been taken over: tries every escape from the embedded sandbox and
 * prints the result of each, one JSON row per line. Its configuration's instruction holds the places to try.
 *
 * It runs in the sandbox alone, as a program of its own.
 */

import { execFileSync } from "node:child_process";
import { lookup } from "node:dns/promises";
import { readFileSync, symlinkSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { type CallAnswer, encodeCall, inputLines, print } from "../../broker/agent/calls.ts";
import { type AgentConfig, readConfig } from "../../broker/agent/config.ts";
import { hotJournal } from "./hot_journal.ts";

interface Targets {
  work: string;
  outside: string;
  other_port: number;
  socket: string;
  redirecting: string;
  broker_pid: number;
}

/** By its permissions, since what was named is not there for it, or since no file can be written or attached. */
const REFUSALS = [
  /^(NotCapable|NotFound|NotADirectory|PermissionDenied):/,
  /Requires \w+ access|--no-npm|--cached-only|\bEPERM\b/,
  /Failed to create cache storage directory|disk I\/O error|database or disk is full|max 0$/,
];

/** Whether the sandbox refused. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && REFUSALS.some((refusal) => refusal.test(`${error.name}: ${error.message}`));
}

export async function runHostileAgent(): Promise<number> {
  const lines = inputLines();
  const { gateway_url, instruction } = await readConfig<AgentConfig>(lines);
  const { work, outside, other_port, socket, redirecting, broker_pid }: Targets = JSON.parse(instruction);
  const host = "127.0.0.1";
  const file = `${outside}/secret.txt`;
  /** Has the process with the files do a call; what that refuses is thrown as refused. */
  const call = async (name: string, args: unknown) => {
    print(encodeCall({ name, arguments: JSON.stringify(args) }));
    const answer: CallAnswer = JSON.parse((await lines.next()).value!);
    if ("failed" in answer || !answer.ok) throw new Deno.errors.NotCapable(JSON.stringify(answer));
  };

  const attempts: Record<string, Record<string, () => unknown>> = {
    files: {
      "read a file outside": () => Deno.readTextFile(file),
      "read a file outside through node": () => readFileSync(file),
      "read a file outside by ..": () => Deno.readTextFile("../secret.txt"),
      // An installed package's modules are no files.
      ...(import.meta.url.startsWith("file:")
        ? { "read its own source": () => Deno.readTextFile(new URL(import.meta.url)) }
        : {}),
      "list the folder above": () => [...Deno.readDirSync("..")],
      "read /proc/self/root": () => Deno.readTextFile(`/proc/self/root${file}`),
      "read /proc/self/cwd": () => Deno.readTextFile("/proc/self/cwd/../secret.txt"),
      "read /dev/fd": () => [...Deno.readDirSync("/dev/fd")],
      "read through a planted link": () => Deno.readTextFile(`${work}/link.txt`),
      "read through a planted folder link": () => Deno.readTextFile(`${work}/folder/secret.txt`),
      "read through links to links": () => Deno.readTextFile(`${work}/loop/deep/folder/secret.txt`),
      "write a file outside": () => Deno.writeTextFile(file, "x"),
      "write through a planted link": () => Deno.writeTextFile(`${work}/folder/new.txt`, "x"),
      "make a temporary file": () => Deno.makeTempFile(),
      "remove a file outside": () => Deno.remove(file),
      "rename a file into the folder": () => Deno.rename(file, `${work}/stolen.txt`),
      "rename a file out of the folder": () => Deno.rename(`${work}/a.txt`, `${outside}/moved.txt`),
      "hard-link a file into the folder": () => Deno.link(file, `${work}/stolen.txt`),
      "make a link": () => Deno.symlink(file, `${work}/own_link`),
      "make a link through node": () => symlinkSync(file, `${work}/own_link`),
      "read a file of its work folder": () => Deno.readTextFile(`${work}/a.txt`),
      "write a file of its work folder": () => Deno.writeTextFile(`${work}/own.txt`, "x"),
      "have SQLite make a database": () => new DatabaseSync(`${work}/own.db`).close(),
      "have SQLite remove what a journal names": () => {
        const path = `${work}/hot.db`;
        new DatabaseSync(path).exec("CREATE TABLE t (a)");
        Deno.writeFileSync(`${path}-journal`, hotJournal(Deno.readFileSync(path), `${outside}/ledger`));
        new DatabaseSync(path).prepare("SELECT * FROM t").all();
      },
      "have SQLite write temporary files elsewhere": () => spill(outside),
      "have SQLite attach a file": () => new DatabaseSync(":memory:").exec(`ATTACH '${outside}/new.db' AS other`),
      // A thread of a compiled program has none.
      ...("localStorage" in globalThis ? { "leave something in localStorage": leaveInStorage } : {}),
      "leave something in a cache": leaveInCache,
      "have a file outside read": () => call("read", { path: "../secret.txt" }),
      "have a file outside read by its whole name": () => call("read", { path: file }),
      "have a planted link read": () => call("read", { path: "link.txt" }),
      "have a file written through a planted link": () => call("write", { path: "folder/new.txt", content: "x" }),
      "have git's folder written": () => call("write", { path: ".git/config", content: "x" }),
      "have a statement run without a database": () => call("sql", { database: "shop", statement: "SELECT 1" }),
    },
    programs: {
      "run a program": () => new Deno.Command("/bin/true").output(),
      "run itself": () => new Deno.Command(Deno.execPath()).output(),
      "run a program through node": () => execFileSync("/bin/true"),
      "kill the broker": () => Deno.kill(broker_pid, "SIGTERM"),
      "load native code": () => Deno.dlopen(file, {}),
      "import from the network": () => import(`http://${host}:${other_port}/x.ts`),
      "import a file outside": () => import(`file://${outside}/module.ts`),
      "import a package": () => import(`npm:${"left-pad"}`),
    },
    network: {
      "connect to another port of the gateway's host": () => Deno.connect({ hostname: host, port: other_port }),
      "fetch another port of the gateway's host": () => fetch(`http://${host}:${other_port}/`),
      "fetch by another name of the gateway's host": () => fetch(`http://localhost:${other_port}/`),
      "follow a redirect elsewhere": () => fetch(redirecting),
      "connect to another host": () => Deno.connect({ hostname: "192.0.2.1", port: 443 }),
      "open a WebSocket elsewhere": () => new WebSocket(`ws://${host}:${other_port}/`),
      "connect to a unix socket": () => Deno.connect({ transport: "unix", path: socket }),
      "connect to a unix socket in the folder": () => Deno.connect({ transport: "unix", path: `${work}/s.sock` }),
      "listen": () => Deno.listen({ hostname: host, port: 0 }),
      "ask the DNS": () => Deno.resolveDns("secret.example.com", "A"),
      "ask the DNS through node": () => lookup("secret.example.com"),
    },
    host: {
      "read /proc/self/environ": () => Deno.readTextFile("/proc/self/environ"),
      "read a variable": () => Deno.env.get("HOME"),
      "read the environment": () => Deno.env.toObject(),
      "learn the host's name": () => Deno.hostname(),
      "learn the user": () => Deno.uid(),
      "ask for permission": async () => {
        const { state } = await Deno.permissions.request({ name: "read", path: outside });
        if (state !== "granted") throw new Deno.errors.NotCapable(state);
      },
    },
  };

  for (const [group, members] of Object.entries(attempts)) {
    for (const [name, attempt] of Object.entries(members)) {
      let refused: string | undefined;
      try {
        await attempt();
      } catch (error) {
        // A broken attempt counts as one that went through.
        if (isRefusal(error)) refused = `${error.name}: ${error.message}`;
      }
      console.log(JSON.stringify({ group, name, refused: refused ?? null }));
    }
  }
  // What it may do, so that the refusals above are not those of a broken process.
  await call("write", { path: "allowed.txt", content: await (await fetch(gateway_url)).text() });
  return 0;
}

function spill(directory: string): void {
  const db = new DatabaseSync(":memory:");
  db.exec(`PRAGMA temp_store_directory='${directory}'; PRAGMA temp_store=FILE; PRAGMA temp.cache_size=10`);
  db.exec("CREATE TEMP TABLE t (a)");
  const rows =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5000) SELECT randomblob(1000) FROM c";
  db.exec(`INSERT INTO t ${rows}`);
}

function leaveInStorage(): void {
  localStorage.setItem("left", "x");
  localStorage.removeItem("left");
}

async function leaveInCache(): Promise<void> {
  await (await caches.open("left")).put("http://host/left", new Response("x"));
  await caches.delete("left");
}

if (import.meta.main) Deno.exit(await runHostileAgent());
