/**
 * A client of the branch-store daemon, over its unix socket.
 *
 * Calls may be made without waiting for one another; the daemon answers them in
 * order. Every failure is a {@linkcode TaskdError} with the daemon's own code. The module loads
 * next to nothing, since a command line starts with it.
 */

import { type Clock, systemClock } from "../clock.ts";
import { withDeadline } from "../deadline.ts";
import { ERROR_CODES, type ErrorCode, messageOf, TaskdError } from "../errors.ts";
import { writeAll } from "../fs.ts";
import { type MovingDeadline, MovingDeadlines } from "../moving_deadlines.ts";
import { isProgress } from "../protocol/codec.ts";
import { decodeLine, encodeLine, LineSplitter } from "../protocol/lines.ts";
import type { AnyDaemonEvent, CallableOp, DaemonEvent, FailureMessage, OpAnswer } from "../protocol/messages.ts";
import type { OpArgs } from "../protocol/messages.ts";
import type { OnProgress } from "../store/results.ts";
import { parseJson } from "../text/json.ts";
import { requireTrusted } from "../trusted_path.ts";

/** The longest answer a client takes, in bytes: a listing of some hundred thousand branches. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
const READ_BUFFER_BYTES = 64 * 1024;

/** How long a daemon may be silent, in milliseconds: while it works it sends a line every 5 seconds. */
const SILENCE_MS = 30_000;

/** Options of {@linkcode connect} and {@linkcode subscribe}. */
export interface ConnectOptions {
  /** How long a daemon that owes an answer may be silent, in milliseconds; 30 seconds by default. */
  silence_ms?: number;
  /** A test's time. */
  clock?: Clock;
  /** Ends the connection: calls that wait fail with `interrupted`, a subscription ends. */
  signal?: AbortSignal | undefined;
}

interface WaitingCall extends PromiseWithResolvers<object> {
  onProgress: OnProgress | undefined;
}

/**
 * A connection for requests. The name of an operation and its fields are those of docs/reference/store_protocol.md.
 *
 * @example Stop a daemon and wait until it has gone; the module's example starts one
 * ```ts
 * import { connect } from "@taskd/taskd/client";
 *
 * async function stop(socket: string): Promise<void> {
 *   const client = await connect(socket);
 *   try {
 *     const { sessions } = await client.call("shutdown", {});
 *     await client.closed();
 *     console.log(`closed ${sessions} sessions`);
 *   } finally {
 *     client.close();
 *   }
 * }
 *
 * await stop("/run/none.sock").catch((error) => console.log(error.code, error.hint)); // daemon_unreachable …
 * ```
 */
export class Client {
  readonly #lines: AnswerLines;
  readonly #waiting: WaitingCall[] = [];
  #sending: Promise<unknown> = Promise.resolve();
  #reading: Promise<void> | undefined;
  #unsent: unknown;
  #failure: TaskdError | undefined;

  /** Use {@linkcode connect}. */
  constructor(lines: AnswerLines) {
    this.#lines = lines;
  }

  /**
   * Runs an operation. A connection that is closed before the answer ends the work early.
   *
   * @param op Its name; {@linkcode OpTypes} lists them with what they take and answer.
   * @throws {TaskdError} with the code the daemon gave, or `daemon_unreachable` when the connection ends first or the
   * daemon is silent for too long.
   */
  async call<O extends CallableOp>(op: O, args: OpArgs<O>, onProgress?: OnProgress): Promise<OpAnswer<O>> {
    if (this.#failure !== undefined) throw this.#failure;
    const waiting = { ...Promise.withResolvers<object>(), onProgress };
    this.#waiting.push(waiting);
    this.#lines.expect((error) => this.#fail(error));
    const line = encodeLine({ ...args, op, progress: true });
    // A daemon that ends the connection may have sent the reason before: that is read first.
    this.#sending = this.#sending.then(() => this.#lines.write(line)).catch((error) => this.#unsent ??= error);
    this.#reading ??= this.#read();
    const { ok: _ok, ...answer } = successOf(await waiting.promise);
    return answer as OpAnswer<O>;
  }

  /** Resolves when the connection has ended, however that was: the daemon ends it at the end of a shutdown. */
  async closed(): Promise<void> {
    await (this.#reading ??= this.#read());
  }

  /** Ends the connection. */
  close(): void {
    this.#lines.close();
  }

  /** Ends the connection. */
  [Symbol.dispose](): void {
    this.close();
  }

  async #read(): Promise<void> {
    try {
      for await (const message of this.#lines.messages()) this.#receive(message);
      this.#fail(this.#unsent ?? unanswered());
    } catch (error) {
      this.#fail(error);
    }
  }

  #receive(message: object): void {
    if (isProgress(message)) {
      const { done_bytes, total_bytes } = message.progress;
      if (done_bytes !== undefined) this.#waiting[0]?.onProgress?.(done_bytes, total_bytes);
      return;
    }
    this.#waiting.shift()?.resolve(message);
    if (this.#waiting.length === 0) this.#lines.expectNothing();
  }

  #fail(error: unknown): void {
    this.#failure ??= brokenError(error);
    for (const waiting of this.#waiting.splice(0)) waiting.reject(this.#failure);
    this.#lines.close();
  }
}

/**
 * Connects to the daemon at `socket`.
 *
 * The socket and the directories above it, as far as they may be read, have to be this user's or root's, and closed to
 * changes by others. Requires `--allow-read`, `--allow-write`, `--allow-net=unix:<socket>` and `--allow-sys=uid`.
 * {@linkcode Client} and the example of `@taskd/taskd/client` show it.
 *
 * @throws {TaskdError} `daemon_unreachable` when no daemon answers there, `denied` when the socket may not be used or
 * another user could be behind it.
 */
export async function connect(socket: string, options: ConnectOptions = {}): Promise<Client> {
  return new Client(await AnswerLines.connect(socket, options));
}

/**
 * The daemon's events from now on: every event published after the daemon has acknowledged the first `next()`. It ends
 * when the daemon or the signal ends it, and after a `dropped_slow_consumer`: then subscribe again, and read `status`
 * for what was missed.
 *
 * @example Print what a daemon does for a second
 * ```ts
 * import { subscribe } from "@taskd/taskd/client";
 *
 * async function follow(socket: string): Promise<void> {
 *   for await (const { ts, type, db, branch } of subscribe(socket, { signal: AbortSignal.timeout(1_000) })) {
 *     console.log(ts, type, `${db}@${branch}`);
 *   }
 * }
 *
 * await follow("/run/none.sock").catch((error) => console.log(error.code)); // daemon_unreachable
 * ```
 *
 * @throws {TaskdError} `daemon_unreachable` when no daemon answers there or the stream broke.
 */
export async function* subscribe<M extends boolean = false>(
  socket: string,
  options: ConnectOptions & {
    /** Called once the daemon has acknowledged: later events will be seen. */
    onSubscribed?: () => void;
    /** Whether events of the further types come, too. */
    more?: M;
  } = {},
): AsyncGenerator<M extends true ? AnyDaemonEvent : DaemonEvent, void, void> {
  const lines = await AnswerLines.connect(socket, options);
  try {
    const request = { op: "subscribe", ...(options.more ? { more: true } : {}) };
    const silent = Promise.withResolvers<never>();
    silent.promise.catch(() => {});
    lines.expect(silent.reject);
    const unsent = await lines.write(encodeLine(request)).then(unanswered, brokenError);
    const messages = lines.messages();
    const ack = await Promise.race([messages.next(), silent.promise]);
    lines.expectNothing();
    if (ack.done) throw unsent;
    successOf(ack.value);
    options.onSubscribed?.();
    yield* messages as AsyncGenerator<DaemonEvent, void, void>;
  } catch (error) {
    if (!options.signal?.aborted) throw error;
  } finally {
    lines.close();
  }
}

/** The lines of one connection. */
class AnswerLines {
  readonly #conn: Deno.UnixConn;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.close();
  readonly #deadlines: MovingDeadlines;
  readonly #deadline: MovingDeadline;
  readonly #silence_ms: number;
  readonly #socket: string;
  #closed = false;

  private constructor(conn: Deno.UnixConn, socket: string, options: ConnectOptions) {
    const { signal, clock = systemClock, silence_ms = SILENCE_MS } = options;
    this.#conn = conn;
    this.#socket = socket;
    this.#signal = signal;
    this.#silence_ms = silence_ms;
    this.#deadlines = new MovingDeadlines(clock);
    this.#deadline = this.#deadlines.create();
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted) this.close();
  }

  static async connect(socket: string, options: ConnectOptions): Promise<AnswerLines> {
    const { clock = systemClock, silence_ms = SILENCE_MS } = options;
    // Nothing is sent to a socket that another user could have put there.
    requireTrusted(socket, "socket");
    // A daemon that accepts no more has a full queue, where a connection waits.
    const connecting = Deno.connect({ transport: "unix", path: socket });
    try {
      return new AnswerLines(await withDeadline(connecting, clock, silence_ms), socket, options);
    } catch (error) {
      if (!(error instanceof DOMException)) throw connectError(socket, error);
      connecting.then((conn) => conn.close(), () => {});
      throw silentError(socket, silence_ms);
    }
  }

  /** From now on a message has to come within the time for silence, again and again; `failed` gets the error. */
  expect(failed: (error: TaskdError) => void): void {
    this.#deadline.setIdle(this.#silence_ms, () => failed(silentError(this.#socket, this.#silence_ms)));
  }

  /** No message has to come. */
  expectNothing(): void {
    this.#deadline.clear();
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await writeAll(this.#conn, bytes);
    } catch (error) {
      throw this.#explained(error);
    }
  }

  async *messages(): AsyncGenerator<object, void, void> {
    const splitter = new LineSplitter(MAX_ANSWER_BYTES);
    const buffer = new Uint8Array(READ_BUFFER_BYTES);
    for (;;) {
      const count = await this.#conn.read(buffer).catch((error) => {
        throw this.#explained(error);
      });
      if (count === null) return;
      this.#deadline.progress();
      for (const line of splitter.push(buffer.subarray(0, count))) {
        if (line.kind === "too_long") {
          throw new TaskdError("too_large", `The daemon's answer has more than ${MAX_ANSWER_BYTES} bytes`);
        }
        yield readMessage(line.kind === "line" ? decodeLine(line.bytes) : undefined);
      }
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#deadlines.close();
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#conn.close();
  }

  #explained(error: unknown): unknown {
    if (!this.#closed) return error;
    return new TaskdError("interrupted", "The connection to the daemon was closed", { cause: error });
  }
}

function readMessage(text: string | undefined): object {
  const value = parseJson(text ?? "");
  if (typeof value === "object" && value !== null) return value;
  throw new TaskdError("daemon_unreachable", "The daemon sent an invalid answer", {
    hint: "Check that the socket is taskd's",
  });
}

function successOf(message: object): object & { ok: true } {
  const answer = message as { ok: true } | FailureMessage;
  if (answer.ok) return answer;
  const known: ErrorCode = Object.hasOwn(ERROR_CODES, answer.code) ? answer.code : "internal";
  throw new TaskdError(known, answer.error, { hint: answer.hint });
}

function unanswered(): TaskdError {
  return new TaskdError("daemon_unreachable", "The daemon closed the connection before it answered");
}

function silentError(socket: string, silence_ms: number): TaskdError {
  const seconds = silence_ms / 1_000;
  return new TaskdError("daemon_unreachable", `The daemon at ${socket} has been silent for ${seconds} seconds`, {
    hint: "It may be stopped, swapped out or stuck: see its process with ps; kill -CONT resumes it, kill ends it",
  });
}

function brokenError(error: unknown): TaskdError {
  if (error instanceof TaskdError) return error;
  const reason = messageOf(error);
  return new TaskdError("daemon_unreachable", `The connection to the daemon broke: ${reason}`, { cause: error });
}

function connectError(socket: string, error: unknown): unknown {
  if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable) {
    return new TaskdError("denied", `Cannot connect to the daemon at ${socket}: ${error.message}`, { cause: error });
  }
  return new TaskdError("daemon_unreachable", `Cannot connect to the daemon at ${socket}: ${messageOf(error)}`, {
    cause: error,
    hint: "Start it with: taskd serve",
  });
}
