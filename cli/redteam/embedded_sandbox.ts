/** Promises of the embedded sandbox, tried from inside of it by an agent that has been taken over. */

import { ensureDir } from "@std/fs/ensure-dir";
import { randomHex } from "../../lib/clock.ts";
import { parseJson } from "../../lib/text/json.ts";
import { makeLink } from "./_special_files.ts";
import type { RedteamContext } from "./context.ts";
import type { SecurityPromise, Trial } from "./security_promise.ts";
// Makes the agent part of the program, so that caches and packages include it.
import type {} from "./hostile_agent.ts";

const GATEWAY_WORD = "from the gateway";

interface Row {
  group: string;
  name: string;
  refused: string | null;
}

/** Everything that is known after the agent's run. */
interface Outcome {
  rows: Row[];
  /** What else it printed; only where it failed is it of interest. */
  rest: string[];
  reached: number;
  /** What it wrote where it may, by way of the gateway. */
  allowed: string | undefined;
  /** Files beside its work folder, before and after, and the content of one. */
  before: string;
  after: string;
}

function outcome(context: RedteamContext): Promise<Outcome> {
  return context.once("embedded", async () => {
    const root = await context.folder();
    // A comma and a space are part of a path like any other.
    const work = `${root}/work, it`;
    await plant(root, work);
    let reached = 0;
    const count = () => {
      reached++;
      return new Response("reached");
    };
    await using other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, count);
    await using gateway = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      ({ url }) =>
        new URL(url).pathname === "/away"
          ? Response.redirect(`http://127.0.0.1:${other.addr.port}/`)
          : new Response(GATEWAY_WORD),
    );
    await using _outside = Deno.serve({ path: `${root}/s.sock`, onListen() {} }, count);
    await using _inside = Deno.serve({ path: `${work}/s.sock`, onListen() {} }, count);
    // In the place of the broker: should it be ended, nothing is lost.
    await using decoy = new Deno.Command("/bin/sleep", { args: ["120"], stdin: "null" }).spawn();
    const gateway_url = `http://127.0.0.1:${gateway.addr.port}`;
    const before = listing(root);
    const instruction = JSON.stringify({
      work,
      outside: root,
      other_port: other.addr.port,
      socket: `${root}/s.sock`,
      redirecting: `${gateway_url}/away`,
      broker_pid: decoy.pid,
    });
    const lines = await runAgent(context, { work, gateway_url, instruction });
    const rows = lines.flatMap((line) => parseRow(line) ?? []);
    const rest = lines.filter((line) => parseRow(line) === undefined);
    const allowed = await Deno.readTextFile(`${work}/allowed.txt`).catch(() => undefined);
    return { rows, rest, reached, allowed, before, after: listing(root) };
  });
}

/** A work tree with links out of it and settings that a repository could bring along, and secrets beside it. */
async function plant(root: string, work: string): Promise<void> {
  await ensureDir(`${work}/deep`);
  const files = {
    [`${root}/secret.txt`]: "secret",
    [`${root}/ledger`]: "what is spent",
    [`${root}/module.ts`]: "export default 1;",
    [`${work}/a.txt`]: "a",
    [`${work}/deno.json`]: '{"permissions":{"default":{"read":true}},"imports":{"node:fs":"./a.txt"}}',
    [`${work}/package.json`]: JSON.stringify({ dependencies: { "left-pad": "1.3.0" } }),
    [`${work}/.env`]: "HOME=/from/the/repository",
  };
  for (const [path, content] of Object.entries(files)) await Deno.writeTextFile(path, content);
  const links = { "link.txt": "../secret.txt", "folder": root, "deep/folder": root, "loop": "." };
  for (const [name, target] of Object.entries(links)) await makeLink(target, `${work}/${name}`);
}

function listing(root: string): string {
  const names = [...Deno.readDirSync(root)].map(({ name }) => name).sort();
  const secret = names.includes("secret.txt") ? Deno.readTextFileSync(`${root}/secret.txt`) : "gone";
  return JSON.stringify({ names, secret });
}

async function runAgent(
  context: RedteamContext,
  { work, gateway_url, instruction }: { work: string; gateway_url: string; instruction: string },
): Promise<string[]> {
  const lines: string[] = [];
  const runtime = context.surfaces.embedded({
    deno_path: context.options.deno_path,
    cache_dir: context.options.deno_cache_dir,
    owner: randomHex(context.random, 16),
    clock: context.clock,
    agent: { name: "hostile-agent", module: import.meta.resolve("./hostile_agent.ts") },
  });
  const sandbox = await runtime.start({
    task_id: randomHex(context.random, 16),
    work_dir: work,
    workload: { kind: "built_in_agent", gateway_url, token: "token-of-the-task", model: "m", instruction },
    memory_bytes: 256 << 20,
    timeout_ms: 30_000,
    max_output_bytes: 1 << 20,
    onOutput: ({ text }) => lines.push(text),
  });
  await sandbox.wait();
  return lines;
}

function parseRow(line: string): Row | undefined {
  return line.startsWith('{"group":') ? parseJson(line) as Row | undefined : undefined;
}

/** Attempts of one group, each of which must have been refused. */
async function refusals(trial: Trial, context: RedteamContext, group: string): Promise<Outcome> {
  const found = await outcome(context);
  for (const { name, refused } of found.rows.filter((row) => row.group === group)) {
    trial.attempt(name, refused !== null);
  }
  const works = found.allowed === GATEWAY_WORD;
  trial.control("reading the gateway and having the work folder written", works, found.rest.join(" "));
  return found;
}

export const EMBEDDED_PROMISES: readonly SecurityPromise[] = [
  {
    id: "sandbox.files",
    promise: "The built-in agent's process uses no file, and has those of its work folder used by calls alone",
    attacks: "Paths in and outside, planted links, hard links, SQLite's journals and temporary files, browser storage",
    async run(trial, context) {
      const { before, after } = await refusals(trial, context, "files");
      trial.attempt("files beside the work folder", before === after, after);
    },
  },
  {
    id: "sandbox.programs",
    promise: "It starts no program, ends none, and loads no code but its own",
    attacks: "Programs by Deno and by Node, signals, native libraries, imports from the network, files and packages",
    run: (trial, context) => refusals(trial, context, "programs").then(() => {}),
  },
  {
    id: "sandbox.network",
    promise: "It reaches the gateway and no other port, host, socket or resolver",
    attacks: "Other ports by address and by name, redirects, WebSockets, unix sockets, DNS, listening",
    async run(trial, context) {
      const { reached } = await refusals(trial, context, "network");
      trial.attempt("requests at places that it must not reach", reached === 0, String(reached));
    },
  },
  {
    id: "sandbox.host",
    promise: "It learns nothing of the host but where deno and taskd lie, and cannot ask for more than it has",
    attacks: "Variables, the host's and the user's name, a request for a permission",
    run: (trial, context) => refusals(trial, context, "host").then(() => {}),
  },
];
