/**
 * Starts daemon processes for tests, and talks to them.
 */

import { join } from "@std/path/join";
import { type Client, connect, subscribe } from "../../lib/client/client.ts";
import type { AnyDaemonEvent, AnyEventType } from "../../lib/protocol/messages.ts";
import type { ServeOptions } from "../../daemon/serve.ts";
import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { COMMON_ERRORS, OPS } from "../../lib/protocol/operations.ts";

const MAIN = import.meta.resolve("./_serve_main.ts");

/** A folder with a store and a socket, removed at the end. */
export class Place implements AsyncDisposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "taskd-" });
  readonly store = join(this.directory, "store");
  readonly socket = join(this.directory, "d.sock");

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.directory, { recursive: true });
  }
}

/** A daemon process. */
export class DaemonProcess implements AsyncDisposable {
  readonly place: Place;
  readonly pid: number;
  readonly log: string[] = [];
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  #code: number | undefined;

  private constructor(place: Place, options: Partial<ServeOptions>) {
    this.place = place;
    const args = JSON.stringify({ store: place.store, socket: place.socket, ...options });
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", MAIN, args],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.pid = this.#child.pid;
    this.#reading = this.#readLog();
  }

  /** Starts one and waits until it serves; rejects with its log when it does not. */
  static async start(place: Place, options: Partial<ServeOptions> = {}): Promise<DaemonProcess> {
    const daemon = new DaemonProcess(place, options);
    const ended = daemon.#reading.then(() => {
      throw new Error(`The daemon did not start:\n${daemon.log.join("\n")}`);
    });
    ended.catch(() => {});
    await Promise.race([daemon.logged("taskd: serving"), ended]);
    return daemon;
  }

  /** Resolves with the first line of the log that contains `text`, also one that was there before. */
  async logged(text: string): Promise<string> {
    for (let next = 0;; await this.#line.promise) {
      for (; next < this.log.length; next++) if (this.log[next]!.includes(text)) return this.log[next]!;
    }
  }
  #line = Promise.withResolvers<void>();

  /** Connects a client whose calls fail only with codes that the table of operations lists. */
  async connect(): Promise<Client> {
    const client = await connect(this.place.socket);
    const call = client.call.bind(client);
    client.call = async (op, args) => {
      try {
        return await call(op, args);
      } catch (error) {
        const listed: readonly ErrorCode[] = [...OPS[op].errors, ...COMMON_ERRORS, "daemon_unreachable", "interrupted"];
        if (!(error instanceof TaskdError) || listed.includes(error.code)) throw error;
        throw new Error(`${op} failed with ${error.code}, which its errors do not list`, { cause: error });
      }
    };
    return client;
  }

  /** Subscribes; events are collected from now on. */
  async events(options: { more?: boolean } = {}): Promise<EventLog> {
    const subscribed = Promise.withResolvers<void>();
    const log = new EventLog(subscribe(this.place.socket, { onSubscribed: subscribed.resolve, ...options }));
    await Promise.race([subscribed.promise, log.ended]);
    return log;
  }

  /** Sends a signal and waits for the end; resolves with the exit code. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<number> {
    if (this.#code !== undefined) return this.#code;
    this.#child.kill(signal);
    return await this.ended();
  }

  /** Waits for the end; resolves with the exit code. */
  async ended(): Promise<number> {
    await this.#reading;
    this.#code = (await this.#child.status).code;
    return this.#code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }

  async #readLog(): Promise<void> {
    let rest = "";
    for await (const text of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      this.log.push(...lines);
      const line = this.#line;
      this.#line = Promise.withResolvers();
      line.resolve();
    }
  }
}

/** The events of one subscription, in order. */
export class EventLog {
  readonly seen: AnyDaemonEvent[] = [];
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>;
  #more = Promise.withResolvers<void>();

  constructor(events: AsyncIterable<AnyDaemonEvent>) {
    this.ended = (async () => {
      for await (const event of events) {
        this.seen.push(event);
        const more = this.#more;
        this.#more = Promise.withResolvers();
        more.resolve();
      }
    })();
  }

  /** Resolves with the `count`-th event of a type. */
  async of<T extends AnyEventType>(type: T, count = 1): Promise<AnyDaemonEvent & { type: T }> {
    for (;;) {
      const found = this.seen.filter((event) => event.type === type)[count - 1] as AnyDaemonEvent & { type: T };
      if (found !== undefined) return found;
      await this.#more.promise;
    }
  }
}
