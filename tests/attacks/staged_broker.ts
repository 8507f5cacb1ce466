/**
 * A whole broker of this installation in a home of its own: the real engine, gateway, proxy, git and listeners, a bare
 * repository on the disk, and in the place of a model an endpoint on loopback that answers as an attacker would.
 */

import { walk } from "@std/fs/walk";
import { stringify } from "@std/yaml/stringify";
import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import { BrokerClient } from "../../broker/client/client.ts";
import { Git } from "../../broker/git/git.ts";
import type { ServeBrokerOptions } from "../../broker/serve.ts";
import type { Stage } from "../../broker/task/stages.ts";
import { makeRepository } from "../../cli/redteam/make_repository.ts";
import { type Script, ScriptedModel } from "../../cli/model/scripted_model.ts";
import { HOSTILE_FILES, HOSTILE_SUMMARY } from "./inputs/display.ts";
import { RawClient, type RawResponse, type ReadTimeout } from "./raw_connections.ts";

/** Has the agent write every hostile file and then speak to the terminal. */
const HOSTILE: Script = {
  instruction: "Say hello",
  turns: [
    ...Object.entries(HOSTILE_FILES).map(([path, content]) => ({ tool: "write", args: { path, content } })),
    { tool: "finish", args: { summary: HOSTILE_SUMMARY } },
  ].map((call) => ({ says: HOSTILE_SUMMARY, calls: [call] })),
};

/** Milliseconds between polls of a running task. */
const POLL_MS = 25;

export interface BrokerUnderAttack {
  readonly socket: string;
  /** Another socket of it, which clients of its user trust; absent where they trust that one. */
  readonly own_socket?: string;
  readonly addr?: string;
  readonly ui_url: string;
  stop(): Promise<void>;
}

export interface StagedBrokerOptions {
  /** An empty folder for its home and its repository. */
  root: string;
  clock: Clock;
  random: RandomBytes;
  timeout: ReadTimeout;
  deno_cache_dir: string;
  /** Where the host's programs may be; by default fixed places. */
  programs?: ServeBrokerOptions["programs"];
  serve(options: ServeBrokerOptions): Promise<BrokerUnderAttack>;
}

export class StagedBroker {
  readonly home: string;
  /** The key of the model's endpoint: nothing that the broker writes may have it. */
  readonly key: string;
  readonly git: Git;
  readonly lines: string[] = [];
  readonly #options: StagedBrokerOptions;
  readonly #model = new ScriptedModel([HOSTILE]);
  origin!: string;
  broker!: BrokerUnderAttack;
  client!: BrokerClient;

  private constructor(options: StagedBrokerOptions) {
    const { root, clock, random, programs } = options;
    this.#options = options;
    this.home = `${root}/home`;
    this.key = `sk-redteam-${randomHex(random, 16)}`;
    this.git = new Git({ home: `${root}/empty`, clock, places: programs?.git });
  }

  static async start(options: StagedBrokerOptions): Promise<StagedBroker> {
    const staged = new StagedBroker(options);
    try {
      await staged.#start();
      return staged;
    } catch (error) {
      await staged.#model[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { root, clock, random, deno_cache_dir, programs, serve } = this.#options;
    await Deno.mkdir(`${root}/empty`);
    this.origin = await makeRepository(this.git, root);
    await configure(this.home, { socket: `${root}/s/taskd.sock`, model_url: this.#model.url });
    const env: Record<string, string> = { HOME: this.home, DENO_DIR: deno_cache_dir, REDTEAM_KEY: this.key };
    this.broker = await serve({
      home: this.home,
      env: (name) => env[name],
      write: (line) => void this.lines.push(line),
      clock,
      random,
      programs: { ...programs, gh: [] },
    });
    this.client = new BrokerClient({ socket: this.broker.own_socket ?? this.broker.socket }, { clock });
  }

  get audit(): string {
    return `${this.home}/.taskd/audit`;
  }

  get ports(): { addr: number; ui: number } {
    const { addr, ui_url } = this.broker;
    return { addr: Number(addr?.split(":").at(-1)), ui: Number(new URL(ui_url).port) };
  }

  /** A task whose agent has changed hostile files, at the gate. */
  async taskAtGate(): Promise<TaskView> {
    const { id } = await this.client.submit({ repo: this.origin, instruction: HOSTILE.instruction });
    const task = await this.reaches(id, "awaiting_approval");
    if (task.gate === undefined) throw new Error(`the task did not come to the gate: ${task.reason ?? task.stage}`);
    return task;
  }

  /** Waits until a task has come so far, or has ended. */
  async reaches(id: string, stage: Stage): Promise<TaskView> {
    for (;;) {
      const task = await this.client.task(id);
      if (task.stage === stage || task.stage === "done") return task;
      await this.#options.clock.sleep(POLL_MS);
    }
  }

  /** The object that a name of the bare repository stands for; `-` for nothing. */
  async head(name: string): Promise<string> {
    const repository = { git_dir: this.origin };
    try {
      return await this.git.text(["rev-parse", "--verify", "--quiet", name], {
        repository,
        attempted: "look",
        signal: undefined,
      });
    } catch {
      return "-";
    }
  }

  /** The tree that was collected of a task, as its trace has it. */
  async collectedTree(id: string): Promise<string> {
    const trace = await Deno.readTextFile(`${this.audit}/${id}.jsonl`);
    const rows = trace.trimEnd().split("\n").map((row) => JSON.parse(row));
    const change = rows.find(({ type, name }) => type === "evidence" && name === "change")?.value;
    return String(change?.tree ?? "unknown");
  }

  /** One request over a connection of its own, to the socket or to a port; `fields` may have a Host. */
  async ask(
    line: string,
    fields: readonly string[] = [],
    { port, body }: { port?: number; body?: string } = {},
  ): Promise<RawResponse> {
    const conn = port === undefined
      ? await Deno.connect({ transport: "unix", path: this.broker.socket })
      : await Deno.connect({ hostname: "127.0.0.1", port });
    await using raw = new RawClient<Deno.Conn>(conn, this.#options.timeout);
    const has = (name: string) => fields.some((field) => field.toLowerCase().startsWith(`${name}:`));
    const bytes = new TextEncoder().encode(body ?? "");
    const head = [
      `${line} HTTP/1.1`,
      ...(has("host") ? [] : [port === undefined ? "Host: localhost" : `Host: 127.0.0.1:${port}`]),
      ...(body === undefined || has("transfer-encoding") ? [] : [`Content-Length: ${bytes.length}`]),
      ...(body === undefined || has("content-type") ? [] : ["Content-Type: application/json"]),
      "Connection: close",
      ...fields,
    ];
    try {
      await raw.send(`${head.join("\r\n")}\r\n\r\n`);
      // A refusal may come, and the connection end, before all of the body is taken.
      await raw.send(bytes).catch(() => {});
      return await raw.response();
    } catch {
      return { status: 0, head: "closed", body: "" };
    }
  }

  async status(...request: Parameters<StagedBroker["ask"]>): Promise<number> {
    return (await this.ask(...request)).status;
  }

  /** Status of the answer to {@linkcode ask} and the code of its problem; `-` where there is none. */
  async verdict(...request: Parameters<StagedBroker["ask"]>): Promise<string> {
    const { status, body } = await this.ask(...request);
    return `${status} ${/"code": ?"([a-z_]+)"/.exec(body)?.[1] ?? "-"}`;
  }

  /** Every file below the home, and the log, as text. */
  async written(): Promise<string> {
    const texts = [...this.lines];
    for await (const { path, isFile } of walk(this.home, { includeDirs: false })) {
      // A character for each byte.
      if (isFile) texts.push(new TextDecoder("latin1").decode(await Deno.readFile(path)));
    }
    return texts.join("\n");
  }

  async stop(): Promise<void> {
    await this.broker.stop();
    await this.#model[Symbol.asyncDispose]();
  }
}

async function configure(home: string, { socket, model_url }: { socket: string; model_url: string }): Promise<void> {
  await Deno.mkdir(`${home}/.taskd`, { recursive: true, mode: 0o700 });
  const config = stringify({
    runtime: "deno",
    default_agent: "agent_d",
    notifications: false,
    max_concurrent_tasks: 4,
    broker: { socket, addr: `127.0.0.1:${freePort()}` },
    compat: {
      base_url: model_url,
      model: "attacker",
      api_key_env: "REDTEAM_KEY",
      prices: { attacker: { input: 1, output: 1 } },
    },
  });
  await Deno.writeTextFile(`${home}/.taskd/config.yaml`, config, { mode: 0o600 });
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
