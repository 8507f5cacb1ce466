/** One worker thread, as the main thread uses it: every call is answered, also when the worker dies. */

import type { S3Access } from "../lib/backend/s3_permissions.ts";
import type { SessionEvent } from "../lib/capture/session.ts";
import { TaskdError } from "../lib/errors.ts";
import type { LongOptions, OnProgress } from "../lib/store/results.ts";
import { unpackError, type Work, type WorkerCall, type WorkerReply, type WorkerSetup } from "./worker_messages.ts";
// Makes the worker's module part of the program, so that caching and packing include it.
import type {} from "./worker.ts";

export interface WorkerThreadOptions {
  /** What it may read and write, and reach for a store in a bucket; nothing else, beside running cp to clone blocks and lslocks. */
  access: { read: string[]; write: string[]; s3?: S3Access };
  listener: WorkerListener;
  profiled?: boolean;
  module?: string;
}

/** Receives what a worker sends without a call. */
export interface WorkerListener {
  onEvent(session: number, event: SessionEvent): void;
  onLog(entry: string): void;
  /** The worker is gone; its calls have been rejected. */
  onLost(error: TaskdError): void;
}

/** Strict clones go through cp, and lslocks names who has a file; one spelling, because a grant matches only that. */
const PROGRAMS = Deno.build.os === "darwin" ? ["/bin/cp"] : ["/usr/bin/cp", "/usr/bin/lslocks"];

/** The runtime's type lists names; what it takes is the same. */
type SysPermissions = Deno.PermissionOptionsObject["sys"] & string[];

interface RunningCall {
  resolve(result: unknown): void;
  reject(error: Error): void;
  onProgress: OnProgress | undefined;
}

export class WorkerThread {
  readonly #worker: Worker;
  readonly #listener: WorkerListener;
  readonly #calls = new Map<number, RunningCall>();
  #last_call = 0;
  #lost: TaskdError | undefined;
  /** Resolves with the SQLite library's version once the store is open; rejects with why it is not. */
  readonly ready: Promise<string>;

  /** Starts a worker with the narrowest permissions that do. */
  constructor(setup: WorkerSetup, { access, listener, profiled = false, module }: WorkerThreadOptions) {
    this.#listener = listener;
    const { read, write, s3 } = access;
    const sys = ["statfs", ...profiled ? ["inspector"] : [], ...s3?.sys ?? []];
    this.#worker = new Worker(module ?? import.meta.resolve("./worker.ts"), {
      type: "module",
      deno: {
        permissions: {
          read: [...read, ...s3?.read ?? []],
          write,
          run: PROGRAMS,
          sys: sys as SysPermissions,
          env: s3?.env ?? false,
          net: s3?.net ?? false,
          ffi: false,
          import: false,
        },
      },
    });
    this.#worker.onmessage = ({ data }) => this.#receive(data);
    this.#worker.onmessageerror = () => this.#lose("a message that could not be read");
    this.#worker.onerror = (event) => {
      // Otherwise the error ends the daemon.
      event.preventDefault();
      this.#lose(event.message);
    };
    this.ready = this.call({ kind: "setup", setup }) as Promise<string>;
    this.ready.catch(() => {});
  }

  get running(): number {
    return this.#calls.size;
  }

  /** Runs `work`; rejects with the worker's error, or with `internal` when the worker is lost. */
  async call(work: Work, { signal, onProgress }: LongOptions = {}): Promise<unknown> {
    if (this.#lost !== undefined) throw this.#lost;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const call = ++this.#last_call;
    this.#calls.set(call, { resolve, reject, onProgress });
    const post = (message: WorkerCall) => this.#worker.postMessage(message);
    const onAbort = () => post({ call, kind: "abort" });
    post({ call, ...work });
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the worker after it has removed its holder file; what still runs is cut off. */
  async end(): Promise<void> {
    await this.call({ kind: "end" }).catch(() => {});
    this.terminate();
  }

  terminate(): void {
    this.#end(new TaskdError("stopping", "The daemon ended the work: it is shutting down"));
  }

  #receive(reply: WorkerReply): void {
    if (this.#lost !== undefined) return;
    if (reply.kind === "event") return this.#listener.onEvent(reply.session, reply.event);
    if (reply.kind === "log") return this.#listener.onLog(reply.entry);
    const answer = this.#calls.get(reply.call);
    if (reply.kind === "progress") return answer?.onProgress?.(reply.done_bytes, reply.total_bytes);
    this.#calls.delete(reply.call);
    if (reply.kind === "done") answer?.resolve(reply.result);
    else answer?.reject(unpackError(reply.error));
  }

  #lose(why: string): void {
    if (this.#lost !== undefined) return;
    const lost = new TaskdError("internal", "A worker of the daemon died", {
      hint: "The daemon's log has the details",
    });
    this.#end(lost);
    this.#listener.onLog(`defect: a worker died: ${why}`);
    this.#listener.onLost(lost);
  }

  #end(reason: TaskdError): void {
    if (this.#lost !== undefined) return;
    this.#lost = reason;
    this.#worker.terminate();
    for (const answer of this.#calls.values()) answer.reject(reason);
    this.#calls.clear();
  }
}
