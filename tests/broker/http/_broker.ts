/**
 * The broker's real listeners over a small engine in memory, on a real store of tasks.
 */

import { BrokerClient } from "../../../broker/client/client.ts";
import { type RunningHttp, serveHttp, type ServeHttpOptions } from "../../../broker/http/serve.ts";
import type { Task } from "../../../broker/task/task.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { type RawAnswer, RawHttp } from "../../support/raw_http.ts";
import { TO_THE_GATE } from "../task/lives.ts";
import { SmallEngine } from "./small_engine.ts";

/** Options of {@linkcode withBroker}. */
export type TestOptions = Partial<Omit<ServeHttpOptions, "engine" | "socket" | "tokens" | "log">>;

/** A running server and what it stands on. */
export class TestBroker {
  readonly root: string;
  readonly engine: SmallEngine;
  readonly http: RunningHttp;
  readonly client: BrokerClient;
  readonly log: string[];

  private constructor(root: string, engine: SmallEngine, http: RunningHttp, log: string[]) {
    this.root = root;
    this.engine = engine;
    this.http = http;
    this.log = log;
    this.client = new BrokerClient({ socket: http.socket });
  }

  static async start(root: string, options: TestOptions): Promise<TestBroker> {
    const engine = new SmallEngine(await TaskStore.open(`${root}/audit`));
    const log: string[] = [];
    const socket = `${root}/run/taskd.sock`;
    const tokens = `${root}/api-tokens.json`;
    const http = await serveHttp({ ...options, engine, socket, tokens, log: (entry) => void log.push(entry) });
    return new TestBroker(root, engine, http, log);
  }

  /** Port of `broker.addr`. */
  get port(): number {
    return portOf(this.http.addr!);
  }

  /** Port of `broker.api_addr`. */
  get api_port(): number {
    return portOf(this.http.api_addr!);
  }

  /** Port of `broker.metrics_addr`. */
  get metrics_port(): number {
    return portOf(this.http.metrics_addr!);
  }

  /** Port of the web pages. */
  get ui_port(): number {
    return Number(new URL(this.http.ui_url).port);
  }

  /** A task that waits for approval. */
  async taskAtGate(): Promise<Task> {
    const task = await this.engine.tasks.create({ repo: "example.com/o/r", instruction: "Fix it", agent: "agent_a" });
    for (const move of TO_THE_GATE) await task.move(move);
    return task;
  }

  /** A task whose agent runs. */
  async runningTask(): Promise<Task> {
    const task = await this.engine.tasks.create({ repo: "example.com/o/r", instruction: "Fix it", agent: "agent_a" });
    for (const move of TO_THE_GATE.slice(0, 2)) await task.move(move);
    return task;
  }

  /** A connection to the socket, or to a port. */
  async connect(port?: number): Promise<RawHttp> {
    return new RawHttp(
      port === undefined
        ? await Deno.connect({ transport: "unix", path: this.http.socket })
        : await Deno.connect({ hostname: "127.0.0.1", port }),
    );
  }

  /** One request over a connection of its own; `more` are header lines. */
  async ask(line: string, more: string[] = [], options: { port?: number; body?: string } = {}): Promise<RawAnswer> {
    using raw = await this.connect(options.port);
    await raw.request(line, more, options.body);
    const answer = await raw.response({ bodyless: line.startsWith("HEAD ") });
    if (answer === undefined) throw new Error(`no answer to ${line}`);
    return answer;
  }
}

function portOf(address: string): number {
  return Number(address.split(":").at(-1));
}

/** Runs `test` with a broker, and without a trace afterwards. */
export async function withBroker(
  test: (broker: TestBroker) => Promise<void>,
  options: TestOptions = {},
): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    const broker = await TestBroker.start(root, options);
    try {
      await test(broker);
    } finally {
      await broker.http.close();
      await broker.engine.tasks.close();
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** Status and code of a problem. */
export function verdictOf({ status, body }: RawAnswer): [number, string] {
  return [status, JSON.parse(body).code];
}
