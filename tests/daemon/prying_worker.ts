/**
 * A worker for tests that tries what none may. Every operation on the store and on a session is answered with the
 * worker's own name; but `databases` is answered with the result of each attempt, and `compact` never returns. It logs
 * that it was ended.
 */

import { packError, type WorkerCall, type WorkerReply } from "../../daemon/worker_messages.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<WorkerCall>) => void;
  postMessage(reply: WorkerReply): void;
};
const name = crypto.randomUUID();
let workspace = "";

/** What a worker must not be able to do, beside two things that it needs. */
const TRIES: Record<string, () => unknown> = {
  "read outside": () => Deno.readTextFileSync(`${workspace}/../secret`),
  "write outside": () => Deno.writeTextFileSync(`${workspace}/../secret`, "changed"),
  "see the environment": () => Deno.env.toObject(),
  "reach the network": () => Deno.connect({ hostname: "127.0.0.1", port: 1 }),
  "load a program from the network": () => import(["http://127.0.0.1:1", "x.ts"].join("/")),
  "run a shell": () => new Deno.Command("/bin/sh", { args: ["-c", "exit"] }).outputSync(),
  "load a library": () => Deno.dlopen(`${workspace}/x.so`, {}),
  "ask about the system": () => Deno.hostname(),
  "write inside": () => Deno.writeTextFileSync(`${workspace}/inside`, "x"),
  "read inside": () => Deno.readTextFileSync(`${workspace}/inside`),
};

async function tried(attempt: () => unknown): Promise<string> {
  try {
    await attempt();
    return "done";
  } catch (error) {
    const { name, message } = error as Error;
    return name === "NotCapable" || /Requires \w+ access/.test(message) ? "refused" : `${name}: ${message}`;
  }
}

async function answer(data: WorkerCall): Promise<unknown> {
  if (data.kind === "setup") {
    workspace = data.setup.workspace;
    return "3.0.0";
  }
  if (data.kind === "open") return { holder: "daemon:a:b", epoch: 1 };
  if (data.kind === "end") scope.postMessage({ kind: "log", entry: `ended ${name}` });
  if (data.kind !== "store") return name;
  if (data.method === "compact") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  if (data.method !== "databases") return name;
  const outcomes = Object.entries(TRIES).map(async ([what, attempt]) => [what, await tried(attempt)]);
  return Object.fromEntries(await Promise.all(outcomes));
}

scope.onmessage = async ({ data }) => {
  try {
    scope.postMessage({ kind: "done", call: data.call, result: await answer(data) });
  } catch (error) {
    scope.postMessage({ kind: "failed", call: data.call, error: packError(error) });
  }
};
