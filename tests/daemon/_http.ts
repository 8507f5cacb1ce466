/**
 * Daemon processes with an HTTP listener, for tests: requests with and without the token, raw
 * connections, and the metrics as values.
 */

import { launchFlags } from "../../cli/table/launch_flags.ts";
import type { HttpListenOptions, ServeOptions } from "../../daemon/serve.ts";
import type { DaemonEvent } from "../../lib/protocol/messages.ts";
import { RawHttp } from "../support/raw_http.ts";
import { DaemonProcess, type Place } from "./daemon_process.ts";

/** The token of every daemon here. */
export const TOKEN = "only-tests-know-this-token";
/** The header that presents it. */
export const BEARER = { authorization: `Bearer ${TOKEN}` };

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;

/** Options of {@linkcode HttpDaemon.start}. */
export type HttpDaemonOptions = Omit<Partial<ServeOptions>, "http"> & { http?: Partial<HttpListenOptions> };

/** A daemon process that listens for HTTP on a free port. */
export class HttpDaemon implements AsyncDisposable {
  readonly daemon: DaemonProcess;
  readonly url: string;
  readonly port: number;

  private constructor(daemon: DaemonProcess) {
    this.daemon = daemon;
    const address = listeningAddress(daemon.log);
    this.url = `http://${address}`;
    this.port = Number(new URL(this.url).port);
  }

  /** Starts one and waits until it serves. */
  static async start(place: Place, { http, ...options }: HttpDaemonOptions = {}): Promise<HttpDaemon> {
    const listen = { address: "127.0.0.1:0", token: TOKEN, ...http };
    return new HttpDaemon(await DaemonProcess.start(place, { ...options, http: listen }));
  }

  /** A request with the token. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const type = init.body === undefined ? {} : { "content-type": "application/json" };
    return await fetch(`${this.url}${path}`, { ...init, headers: { ...BEARER, ...type, ...init.headers } });
  }

  /** The answer to an operation over POST /rpc. */
  // deno-lint-ignore no-explicit-any
  async rpc(request: object): Promise<any> {
    const response = await this.fetch("/rpc", { method: "POST", body: JSON.stringify(request) });
    return await response.json();
  }

  /** What GET /metrics shows now. */
  async metrics(): Promise<Exposition> {
    const response = await this.fetch("/metrics");
    return new Exposition(await response.text());
  }

  /** What GET /metrics shows once `done` holds of it. */
  async metricsOnce(done: (metrics: Exposition) => boolean): Promise<Exposition> {
    for (;;) {
      const metrics = await this.metrics();
      if (done(metrics)) return metrics;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Subscribes over GET /events; resolves once the subscription is registered. */
  async events(): Promise<SseLog> {
    const response = await this.fetch("/events");
    return await SseLog.read(response);
  }

  /** A connection for bytes of one's own, whose requests have the token. */
  connect(): Promise<RawHttp<Deno.TcpConn>> {
    return RawHttp.connect(this.port, [`Authorization: Bearer ${TOKEN}`]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
  }
}

/** `host:port` out of the line that names the listener. */
function listeningAddress(log: readonly string[]): string {
  const line = log.find((line) => line.startsWith("taskd: http listening on "));
  if (line === undefined) throw new Error(`No line names the HTTP listener:\n${log.join("\n")}`);
  return line.split(" ")[4]!;
}

/** The values of a metrics text. */
export class Exposition {
  readonly text: string;
  readonly #values = new Map<string, number>();

  constructor(text: string) {
    this.text = text;
    for (const line of text.split("\n")) {
      const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
      if (match) this.#values.set(keyOf(match[1]!, labelsOf(match[2] ?? "")), Number(match[3]));
    }
  }

  /** The families in their order, `name type`. */
  get families(): string[] {
    return [...this.text.matchAll(/^# TYPE (.+)$/gm)].map((match) => match[1]!);
  }

  /** One value; undefined where there is none. `name` is without its prefix. */
  value(name: string, labels: Record<string, string> = {}): number | undefined {
    return this.#values.get(keyOf(`bstore_${name}`, labels));
  }
}

function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries([...text.matchAll(/([a-z_]+)="([^"]*)"/g)].map((match) => [match[1]!, match[2]!]));
}

function keyOf(name: string, labels: Record<string, string>): string {
  return `${name} ${Object.entries(labels).map(([name, value]) => `${name}=${value}`).sort()}`;
}

/** A stream of Server-Sent Events, read as it comes. */
export class SseLog {
  readonly seen: DaemonEvent[] = [];
  /** The `data:` lines as they came. */
  readonly lines: string[] = [];
  /** Comments that came, pings. */
  readonly comments: string[] = [];
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #more = Promise.withResolvers<void>();

  private constructor(reader: ReadableStreamDefaultReader<string>, first: string) {
    this.#reader = reader;
    this.ended = this.#read(first);
  }

  /** Reads a response from now on. Its first bytes say that the subscription is registered. */
  static async read(response: Response): Promise<SseLog> {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const { value } = await reader.read();
    return new SseLog(reader, value ?? "");
  }

  /** Resolves with the first event of a type and, if given, a branch. */
  async of(type: DaemonEvent["type"], branch?: string): Promise<DaemonEvent> {
    for (;;) {
      const found = this.seen.find((event) => event.type === type && (branch === undefined || event.branch === branch));
      if (found !== undefined) return found;
      await this.#more.promise;
    }
  }

  /** Resolves once so many events have come. */
  async count(events: number): Promise<void> {
    while (this.seen.length < events) await this.#more.promise;
  }

  /** Goes away. */
  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
    await this.ended;
  }

  async #read(first: string): Promise<void> {
    let rest = first;
    for (;;) {
      const blocks = rest.split("\n\n");
      rest = blocks.pop()!;
      for (const block of blocks) this.#take(block);
      const more = this.#more;
      this.#more = Promise.withResolvers();
      more.resolve();
      // A daemon that dies breaks its streams off.
      const { done, value } = await this.#reader.read().catch(() => ({ done: true, value: undefined }));
      if (done) return;
      rest += value;
    }
  }

  #take(block: string): void {
    if (block.startsWith(":")) {
      this.comments.push(block);
      return;
    }
    const data = block.split("\n").find((line) => line.startsWith("data: "))!.slice("data: ".length);
    this.lines.push(data);
    this.seen.push(JSON.parse(data));
  }
}

/** The program's own `serve`, with no more than the permissions of its table. */
export class ServeCommand implements AsyncDisposable {
  readonly pid: number;
  readonly stderr: string[] = [];
  stdout = "";
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<unknown>;
  #more = Promise.withResolvers<void>();
  #over = false;

  /** Starts `taskd serve <words>` in a place, with these variables beside the usual ones. */
  constructor(place: Place, words: string[], env: Record<string, string> = {}) {
    const base = ["serve", "-store", place.store, "-socket", place.socket];
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", ...launchFlags(), MAIN, ...base, ...words],
      env: { NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.pid = this.#child.pid;
    const errors = this.#readErrors();
    const output = new Response(this.#child.stdout).text().then((text) => this.stdout = text);
    this.#reading = Promise.all([errors, output]);
  }

  /** Waits until it serves; rejects with what it said when it does not. */
  async serving(): Promise<void> {
    while (!this.stderr.some((line) => line.includes("serving "))) {
      if (this.#over) throw new Error(`It does not serve:\n${this.stderr.join("\n")}`);
      await this.#more.promise;
    }
  }

  /** Its HTTP listener's URL. */
  get url(): string {
    return `http://${listeningAddress(this.stderr)}`;
  }

  /** Waits for its end; resolves with the exit status. */
  async ended(): Promise<number> {
    const { code } = await this.#child.status;
    await this.#reading;
    return code;
  }

  /** Stops it. */
  async stop(): Promise<number> {
    this.#child.kill("SIGTERM");
    return await this.ended();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.ended();
  }

  async #readErrors(): Promise<void> {
    let rest = "";
    for await (const text of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      this.stderr.push(...lines);
      this.#wake();
    }
    this.#over = true;
    this.#wake();
  }

  #wake(): void {
    const more = this.#more;
    this.#more = Promise.withResolvers();
    more.resolve();
  }
}
