/**
 * The broker's real listeners over a small engine in memory, on a real store of tasks.
 *
 * @module
 */

import { buildBrief } from "../../../broker/brief.ts";
import type { BrokerEngine } from "../../../broker/api/engine.ts";
import { NotAcknowledged } from "../../../broker/api/not_acknowledged.ts";
import type {
  CeilingView,
  Health,
  PendingTask,
  QueueItemView,
  SubmitRequest,
  TaskView,
  TrustBrief,
} from "../../../broker/api/wire.ts";
import { BrokerClient } from "../../../broker/client/client.ts";
import { type RunningHttp, serveHttp, type ServeHttpOptions } from "../../../broker/http/serve.ts";
import { taskLinks } from "../../../broker/http/task_routes.ts";
import type { PolicyView } from "../../../broker/settings/explain.ts";
import type { GateAnswer } from "../../../broker/task/approval.ts";
import type { TaskRecord } from "../../../broker/task/record.ts";
import type { SpendFigures } from "../../../broker/task/rows.ts";
import type { Task } from "../../../broker/task/task.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { TO_THE_GATE } from "../task/lives.ts";

/** A spend of so many cents. */
export function spendOf(cents: number): SpendFigures {
  return {
    usd: cents / 100,
    requests: cents,
    unmetered_requests: 0,
    input_tokens: 1,
    output_tokens: 1,
    priced: true,
  };
}

/** An engine that does nothing by itself: tests move its tasks. */
export class SmallEngine implements BrokerEngine {
  readonly tasks: TaskStore;
  readonly live = new Map<string, SpendFigures>();
  readonly diffs = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly items: QueueItemView[] = [];
  readonly listeners = new Set<(task_id: string, spend: SpendFigures) => void>();
  /** What was asked for, in order. */
  readonly asked: unknown[] = [];
  /** Thrown by whatever is asked next. */
  refusal: unknown;
  /** What a submission waits for. */
  held: Promise<void> = Promise.resolve();

  constructor(tasks: TaskStore) {
    this.tasks = tasks;
  }

  #note(...what: unknown[]): void {
    this.asked.push(what);
    const { refusal } = this;
    this.refusal = undefined;
    if (refusal !== undefined) throw refusal;
  }

  async submit(request: SubmitRequest): Promise<TaskRecord> {
    this.#note("submit", request);
    await this.held;
    const { agent = "agent_a", ...rest } = request;
    return (await this.tasks.create({ agent, ...rest })).record;
  }

  async retry(id: string): Promise<TaskRecord> {
    this.#note("retry", id);
    const { repo, instruction, agent } = this.tasks.read(id);
    return (await this.tasks.create({ repo, instruction, agent, retry_of: id })).record;
  }

  view(id: string): TaskView {
    this.#note("view", id);
    const record = this.tasks.read(id);
    const live = this.live.get(id);
    const trace = { intact: true as const, rows: record.seq };
    const refused_egress = [{ target: "evil.example:443", reason: "not on the list", hint: "egress.yaml" }];
    return { ...record, ...(live && { live }), trace, refused_egress, links: taskLinks(id) };
  }

  liveSpend(id: string): SpendFigures | undefined {
    return this.live.get(id);
  }

  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Meters something. */
  spend(id: string, spend: SpendFigures): void {
    this.live.set(id, spend);
    for (const listener of this.listeners) listener(id, spend);
  }

  // deno-lint-ignore require-await
  async diff(id: string): Promise<Uint8Array<ArrayBuffer>> {
    this.#note("diff", id);
    const diff = this.diffs.get(id);
    if (diff === undefined) throw new TaskdError("not_found", "Cannot show the diff: there is none yet");
    return diff;
  }

  // deno-lint-ignore require-await
  async brief(id: string): Promise<TrustBrief> {
    this.#note("brief", id);
    const { repo, instruction, agent } = this.tasks.read(id);
    return buildBrief({ task_id: id, repo, instruction, agent });
  }

  pending(): PendingTask[] {
    this.#note("pending");
    return this.tasks.list({ stage: "awaiting_approval" }).map(({ id }) => {
      const { repo, instruction, agent, stage_since, gate } = this.tasks.read(id);
      const facts = { files_changed: 1, lines_changed: 2, sensitive: false };
      return { id, repo, instruction, agent, since: stage_since, gate: gate!, ...facts };
    });
  }

  async approve(id: string, request: { diff_sha256: string; acknowledge: readonly string[] }): Promise<void> {
    this.#note("approve", id, request);
    obey(await this.#task(id).approve(request));
  }

  async deny(id: string, reason: string): Promise<void> {
    this.#note("deny", id, reason);
    obey(await this.#task(id).deny(reason));
  }

  async kill(id: string, reason: string): Promise<void> {
    this.#note("kill", id, reason);
    const task = this.#task(id);
    if (task.record.stage !== "running") throw new TaskdError("wrong_state", `It is in ${task.record.stage}`);
    await task.move({ from: "running", to: "done", outcome: "cancelled", reason });
  }

  #task(id: string): Task {
    const task = this.tasks.live(id);
    if (task === undefined) throw new TaskdError("not_found", "There is no such task");
    return task;
  }

  // deno-lint-ignore require-await
  async prune(options: { before_ms: number; dry_run: boolean }): Promise<string[]> {
    this.#note("prune", options);
    return ["aa".repeat(16)];
  }

  policy(): PolicyView {
    this.#note("policy");
    return { fields: [{ setting: "network", value: "taskd-egress", source: "default" }], hash: "0".repeat(64) };
  }

  ceiling(): CeilingView {
    this.#note("ceiling");
    const limb = { blocked: false, reason: "" };
    return {
      enabled: true,
      window: "24h",
      window_ms: 86_400_000,
      budget_usd: 5,
      spent_usd: 1,
      headroom_usd: 4,
      max_tasks: 0,
      recorded_starts: 1,
      in_flight_starts: 0,
      starts: 1,
      headroom_starts: null,
      usd: limb,
      tasks: limb,
      damaged: 0,
      oldest_entry: null,
      newest_entry: null,
    };
  }

  // deno-lint-ignore require-await
  async enqueue({ repo, instruction, agent = "agent_a" }: SubmitRequest): Promise<QueueItemView> {
    this.#note("enqueue");
    const id = `${this.items.length}`.padStart(2, "0") + "c".repeat(30);
    const at = "2026-01-01T00:00:00.000Z";
    const item = { id, state: "queued" as const, repo, instruction, agent, queued_at: at, updated_at: at };
    this.items.push(item);
    return item;
  }

  queue(): QueueItemView[] {
    this.#note("queue");
    return this.items;
  }

  // deno-lint-ignore require-await
  async cancelQueued(id: string): Promise<void> {
    this.#note("cancelQueued", id);
    const at = this.items.findIndex((item) => item.id === id);
    if (at < 0) throw new TaskdError("not_found", "There is no such item");
    this.items.splice(at, 1);
  }

  health(): Health {
    this.#note("health");
    const started_at = "2026-01-01T00:00:00.000Z";
    return { ok: true, version: "1", pid: 1, runtime: "deno", started_at, running: 0, pending: 0 };
  }

  // deno-lint-ignore require-await
  async metrics(): Promise<string> {
    this.#note("metrics");
    return "taskd_tasks 1\n";
  }
}

function obey(answer: GateAnswer): void {
  if (answer.status === 204) return;
  if (answer.status === 422) throw new NotAcknowledged(answer.missing, answer.detail);
  throw new TaskdError(answer.code, answer.detail);
}

/** Options of {@linkcode withBroker}. */
export type TestOptions = Partial<Omit<ServeHttpOptions, "engine" | "socket" | "log">>;

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
    const http = await serveHttp({ ...options, engine, socket, log: (entry) => void log.push(entry) });
    return new TestBroker(root, engine, http, log);
  }

  /** Port of `broker.addr`. */
  get port(): number {
    return Number(this.http.addr!.split(":").at(-1));
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

/** A response, read whole. */
export interface RawAnswer {
  status: number;
  head: string;
  body: string;
}

/** A header of a response. */
export function headerOf({ head }: RawAnswer, name: string): string | undefined {
  return new RegExp(`^${name}: (.*)$`, "im").exec(head)?.[1];
}

/** Status and code of a problem. */
export function verdictOf({ status, body }: RawAnswer): [number, string] {
  return [status, JSON.parse(body).code];
}

/** A connection that sends what it is told and reads what comes. */
export class RawHttp implements Disposable {
  readonly conn: Deno.Conn;
  #rest = "";

  constructor(conn: Deno.Conn) {
    this.conn = conn;
  }

  /** Sends text. */
  async send(text: string): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    for (let offset = 0; offset < bytes.length;) offset += await this.conn.write(bytes.subarray(offset));
  }

  /** Sends a request; a Host of its own stands in `more`. */
  async request(line: string, more: string[] = [], body?: string): Promise<void> {
    const host = more.some((header) => /^host:/i.test(header)) ? [] : ["Host: localhost"];
    const size = body === undefined ? [] : [`Content-Length: ${new TextEncoder().encode(body).length}`];
    const type = body === undefined || more.some((header) => /^content-type:/i.test(header))
      ? []
      : ["Content-Type: application/json"];
    await this.send(`${[`${line} HTTP/1.1`, ...host, ...size, ...type, ...more].join("\r\n")}\r\n\r\n${body ?? ""}`);
  }

  /** Reads one response that has a Content-Length, or no body; undefined when the connection ends first. */
  async response(options: { bodyless?: boolean } = {}): Promise<RawAnswer | undefined> {
    for (;;) {
      const end = this.#rest.indexOf("\r\n\r\n");
      if (end >= 0) {
        const head = this.#rest.slice(0, end);
        const size = options.bodyless === true ? 0 : Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
        const body = this.#rest.slice(end + 4, end + 4 + size);
        if (body.length === size) {
          this.#rest = this.#rest.slice(end + 4 + size);
          return { status: Number(head.split(" ")[1]), head, body };
        }
      }
      if (!await this.#more()) return undefined;
    }
  }

  /** Reads until `text` has come, from where the last reading has ended. */
  async until(text: string): Promise<string> {
    for (;;) {
      const at = this.#rest.indexOf(text);
      if (at >= 0) {
        const found = this.#rest.slice(0, at + text.length);
        this.#rest = this.#rest.slice(at + text.length);
        return found;
      }
      if (!await this.#more()) throw new Error(`the connection ended before ${JSON.stringify(text)}: ${this.#rest}`);
    }
  }

  /** Resolves when the other side has ended the connection. */
  async ended(): Promise<void> {
    while (await this.#more()) this.#rest = "";
  }

  async #more(): Promise<boolean> {
    const buffer = new Uint8Array(1 << 16);
    // A reset is an end, too.
    const count = await this.conn.read(buffer).catch(() => null);
    if (count === null) return false;
    this.#rest += new TextDecoder().decode(buffer.subarray(0, count));
    return true;
  }

  [Symbol.dispose](): void {
    try {
      this.conn.close();
    } catch {
      // It was closed already.
    }
  }
}
