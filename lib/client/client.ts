/**
 * A client of the branch-store daemon, over its unix socket.
 *
 * Calls may be made without waiting for one another; the daemon answers them in
 * order. Every failure is a {@linkcode TaskdError} with the daemon's own code. The module loads
 * next to nothing, since a command line starts with it.
 */

import { ERROR_CODES, type ErrorCode, messageOf, TaskdError } from "../errors.ts";
import { writeAll } from "../fs.ts";
import { decodeLine, encodeLine, LineSplitter } from "../protocol/lines.ts";
import type { CallableOp, DaemonEvent, FailureMessage, OpAnswer, OpArgs } from "../protocol/messages.ts";
import { parseJson } from "../text/json.ts";

/** The longest answer a client takes, in bytes: a listing of some hundred thousand branches. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
const READ_BUFFER_BYTES = 64 * 1024;

/** Options of {@linkcode connect} and {@linkcode subscribe}. */
export interface ConnectOptions {
  /** Ends the connection: calls that wait fail with `interrupted`, a subscription ends. */
  signal?: AbortSignal | undefined;
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
  readonly #waiting: PromiseWithResolvers<object>[] = [];
  #sending: Promise<unknown> = Promise.resolve();
  #reading: Promise<void> | undefined;
  #unsent: unknown;
  #failure: TaskdError | undefined;

  /** Use {@linkcode connect}. */
  constructor(lines: AnswerLines) {
    this.#lines = lines;
  }

  /**
   * Runs an operation.
   *
   * @param op Its name; {@linkcode OpTypes} lists them with what they take and answer.
   * @throws {TaskdError} with the code the daemon gave, or `daemon_unreachable` when the connection ends first.
   */
  async call<O extends CallableOp>(op: O, args: OpArgs<O>): Promise<OpAnswer<O>> {
    if (this.#failure !== undefined) throw this.#failure;
    const waiting = Promise.withResolvers<object>();
    this.#waiting.push(waiting);
    const line = encodeLine({ ...args, op });
    // A daemon that ends the connection may have sent the reason before: that is read first.
    this.#sending = this.#sending.then(() => this.#lines.write(line)).catch((error) => this.#unsent ??= error);
    this.#reading ??= this.#read();
    const { ok: _ok, ...answer } = successOf(await waiting.promise);
    return answer as OpAnswer<O>;
  }

  /** Resolves when the daemon has ended the connection, as it does at the end of a shutdown. */
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
      for await (const message of this.#lines.messages()) this.#waiting.shift()?.resolve(message);
      this.#fail(this.#unsent ?? unanswered());
    } catch (error) {
      this.#fail(error);
    }
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
 * Requires `--allow-read`, `--allow-write` and `--allow-net=unix:<socket>`. {@linkcode Client} and the example of
 * `@taskd/taskd/client` show it.
 *
 * @throws {TaskdError} `daemon_unreachable` when no daemon answers there, `denied` when the socket may not be used.
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
export async function* subscribe(
  socket: string,
  options: ConnectOptions & {
    /** Called once the daemon has acknowledged: later events will be seen. */
    onSubscribed?: () => void;
  } = {},
): AsyncGenerator<DaemonEvent, void, void> {
  const lines = await AnswerLines.connect(socket, options);
  try {
    const unsent = await lines.write(encodeLine({ op: "subscribe" })).then(unanswered, brokenError);
    const messages = lines.messages();
    const ack = await messages.next();
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
  #closed = false;

  private constructor(conn: Deno.UnixConn, signal: AbortSignal | undefined) {
    this.#conn = conn;
    this.#signal = signal;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted) this.close();
  }

  static async connect(socket: string, { signal }: ConnectOptions): Promise<AnswerLines> {
    try {
      return new AnswerLines(await Deno.connect({ transport: "unix", path: socket }), signal);
    } catch (error) {
      throw connectError(socket, error);
    }
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
