/**
 * Runs store operations in a process that a test may freeze, starve or kill: reads
 * one JSON request per line, `{op, args}`, and answers each with one line. The first
 * argument is the store's location; the second, optional, is `<count>:<before|after>`: the
 * process kills itself at that backend call, before or after its effect.
 */

import type { Backend } from "../../lib/backend/backend.ts";
import { LocalBackend } from "../../lib/backend/local.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { TaskdError } from "../../lib/errors.ts";
import { openStore } from "../../lib/store/open.ts";
import { Store } from "../../lib/store/store.ts";
import type { Address } from "../../lib/store/names.ts";

/** What a line asks. */
export interface Request {
  op: string;
  args: unknown[];
}

/** What a line answers. */
export type Answer = { ok: true; value: unknown } | { ok: false; code: string; message: string; hint?: string };

const [location, killAt] = Deno.args as [string, string | undefined];

/** Dies at the backend call with the given number, counted from 1. */
function deadly(backend: Backend, at: number, when: "before" | "after"): Backend {
  let count = 0;
  return new Proxy(backend, {
    get(target, name) {
      const member = Reflect.get(target, name, target) as unknown;
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        const mine = ++count === at;
        if (mine && when === "before") Deno.kill(Deno.pid, "SIGKILL");
        const result = Reflect.apply(member, target, args) as unknown;
        if (!mine || !(result instanceof Promise)) return result;
        return result.finally(() => Deno.kill(Deno.pid, "SIGKILL"));
      };
    },
  });
}

async function open(): Promise<Store> {
  if (killAt === undefined) return await openStore(location, { holder: "cli" });
  const [count, when] = killAt.split(":") as [string, "before" | "after"];
  const backend = await LocalBackend.open(location);
  // The manifest's reads are not part of the operation: the deadly count begins after them.
  await Store.open({ backend, workspace: location, holder: "cli" });
  return await Store.open({ backend: deadly(backend, Number(count), when), workspace: location, holder: "cli" });
}

let session: CaptureSession | undefined;
let reopen = false;

async function run(store: Store, { op, args }: Request): Promise<unknown> {
  switch (op) {
    case "close_store":
      // What a session that was refused has left, too; the next line opens the store anew.
      await session?.close().catch(() => {});
      session = undefined;
      store.close();
      reopen = true;
      return null;
    case "session_open":
      session = await CaptureSession.open(store, args[0] as Address, { flush_every_ms: 0, snapshot_every: 16 });
      return session.checkout;
    case "session_flush":
      return await session!.flush();
    case "session_status":
      return session!.status();
    case "session_close":
      return await session!.close();
    default: {
      const method = store[op as keyof Store] as (...args: unknown[]) => Promise<unknown>;
      return await Reflect.apply(method, store, args);
    }
  }
}

function say(answer: Answer): void {
  const bytes = new TextEncoder().encode(JSON.stringify(answer) + "\n");
  for (let written = 0; written < bytes.length;) written += Deno.stdout.writeSync(bytes.subarray(written));
}

function failure(error: unknown): Answer {
  if (!(error instanceof TaskdError)) {
    return { ok: false, code: "NOT_A_TASKD_ERROR", message: String((error as Error).stack ?? error) };
  }
  const { code, message, hint } = error;
  return hint === undefined ? { ok: false, code, message } : { ok: false, code, message, hint };
}

let store: Store | undefined;
let rest = "";
for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop()!;
  for (const line of lines) {
    try {
      if (reopen) store = undefined;
      reopen = false;
      store ??= await open();
      say({ ok: true, value: await run(store, JSON.parse(line) as Request) ?? null });
    } catch (error) {
      say(failure(error));
    }
  }
}
Deno.exit(0);
