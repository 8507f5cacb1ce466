/**
 * A whole broker for tests: the real runtime, gateway, proxy, git and listeners, a bare repository to clone from and push
 * to, and a model that answers from a script.
 */

import { join } from "@std/path/join";
import type { SubmitRequest, TaskRecord } from "../../../broker/task/schema.ts";
import { stagedTasks } from "../../../broker/engine/task_paths.ts";
import { textsBelow } from "../../support/texts_below.ts";
import {
  type BrokerOverrides,
  type RunningBroker,
  serveBroker,
  type ServeBrokerOptions,
} from "../../../broker/serve.ts";
import type { ReadHostView } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import type { RuntimeName } from "../../../broker/settings/settings.ts";
import type { Stage } from "../../../broker/task/stages.ts";
import { type Clock, systemClock } from "../../../lib/clock.ts";
import { type Asked, ModelServer, type Scripted } from "../../support/model_server.ts";
import { type Files, GitBench, plainGit } from "../git/bench.ts";

/** Deno's own cache, as the sandboxes are to use it. */
const CACHE_DIR = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;

/** A secret of the operator's; nothing that is written may have it. */
export const ENDPOINT_KEY = "sk-endpoint-0123456789abcdef";

/** What {@linkcode BrokerBench.start} takes. */
export interface BenchOptions {
  /** The model's answers. */
  script?: (Scripted | ((asked: Asked) => Scripted | Promise<Scripted>))[];
  /** A model's server in the place of the one that answers from the script. */
  compat_url?: string;
  /** More lines of config.yaml. */
  config?: string;
  /** The embedded one by default. */
  runtime?: RuntimeName;
  /** What sandboxes see of the host, where its own programs run in them. */
  view?: ReadHostView;
  /** Files of the first commit. */
  files?: Files;
  overrides?: BrokerOverrides;
  clock?: Clock;
  env?: Record<string, string>;
  /** Where the host's programs may be; by default there is no gh, and bubblewrap for its runtime alone. */
  programs?: ServeBrokerOptions["programs"];
  /** Whether the repository's own hooks run: by default none of a repository at a path does. */
  runs_hooks?: boolean;
}

/** Writes one file and ends, once. */
export const ONE_CHANGE: Scripted[] = [
  { calls: [["write", { path: "hello.txt", content: "hello\n" }]] },
  { calls: [["finish", { summary: "done" }]] },
];

/** The same for any number of tasks: what the model says when a test has no script of its own. */
export function oneChange({ body }: Asked): Scripted {
  const wrote = body.messages.some(({ role }) => role === "tool");
  return {
    calls: [wrote ? ["finish", { summary: "done" }] : ["write", { path: "hello.txt", content: "hello\n" }]],
  };
}

/** A broker and all that it works with. */
export class BrokerBench implements AsyncDisposable {
  readonly root: string;
  readonly home: string;
  readonly git: GitBench;
  readonly model: ModelServer;
  readonly lines: string[] = [];
  readonly #options: BenchOptions;
  #broker: RunningBroker | undefined;

  private constructor(git: GitBench, model: ModelServer, options: BenchOptions) {
    this.git = git;
    this.root = git.root;
    this.home = join(git.root, "op");
    this.model = model;
    this.#options = options;
  }

  /** Prepares everything and starts the broker. */
  static async start(options: BenchOptions = {}): Promise<BrokerBench> {
    const bench = await BrokerBench.prepare(options);
    try {
      await bench.serve();
    } catch (error) {
      await bench[Symbol.asyncDispose]();
      throw error;
    }
    return bench;
  }

  /** Prepares everything but the broker. */
  static async prepare(options: BenchOptions = {}): Promise<BrokerBench> {
    const git = await GitBench.start(options.files === undefined ? {} : { files: options.files });
    const bench = new BrokerBench(git, new ModelServer(options.script ?? [oneChange]), options);
    await Deno.mkdir(join(bench.home, ".taskd"), { recursive: true, mode: 0o700 });
    bench.configure(options.config ?? "");
    return bench;
  }

  /** Writes config.yaml. */
  configure(config: string): void {
    const text = `runtime: ${this.#options.runtime ?? "deno"}
default_agent: agent_d
push_retry_backoff: 0s
run_hooks_of: [${this.#options.runs_hooks === true ? this.git.origin : ""}]
broker:
  socket: ${this.root}/s/taskd.sock
compat:
  base_url: ${this.#options.compat_url ?? this.model.url}
  model: test-model
  api_key_env: ENDPOINT_KEY
  prices:
    test-model: { input: 100, output: 100 }
${config}`;
    Deno.writeTextFileSync(join(this.home, ".taskd", "config.yaml"), text, { mode: 0o600 });
  }

  /** The operator's environment. */
  readonly env = (name: string): string | undefined => {
    return { HOME: this.home, DENO_DIR: CACHE_DIR, ENDPOINT_KEY, ...this.#options.env }[name];
  };

  /** Starts the broker, or another one. */
  async serve(own: ServeBrokerOptions["programs"] = {}, signal?: AbortSignal): Promise<RunningBroker> {
    const { overrides = {}, clock, programs, runtime, view } = this.#options;
    return this.#broker = await serveBroker({
      home: this.home,
      env: this.env,
      write: (line) => this.lines.push(line),
      overrides,
      programs: { gh: [], ...(runtime === "bubblewrap" ? {} : { bubblewrap: [] }), ...programs, ...own },
      signal,
      view,
      ...(clock === undefined ? {} : { clock }),
    });
  }

  /** The broker that runs. */
  get broker(): RunningBroker {
    if (this.#broker === undefined) throw new Error("no broker was started");
    return this.#broker;
  }

  get engine() {
    return this.broker.engine;
  }

  /** Submits a task of the repository. */
  submit(request: Partial<SubmitRequest> = {}): Promise<TaskRecord> {
    return this.engine.submit({ repo: this.git.origin, instruction: "Say hello", ...request });
  }

  /**
   * Resolves with the record once the task has come to one of `stages` or ended, by default also when it waits after its
   * approval; the test has a deadline of its own.
   */
  async reaches(id: string, ...stages: Stage[]): Promise<TaskRecord> {
    if (stages.length === 0) stages = ["push_failed", "data_waits"];
    const { tasks } = this.engine;
    const { promise, resolve } = Promise.withResolvers<void>();
    const isThere = () => [...stages, "done"].includes(tasks.read(id).stage);
    const forget = tasks.onChange(({ record }) => record.id === id && isThere() && resolve());
    if (!isThere()) await promise;
    forget();
    return tasks.read(id);
  }

  /** Submits, waits for the gate, approves and waits for the end. */
  async pushed(request: Partial<SubmitRequest> = {}): Promise<TaskRecord> {
    const { id } = await this.submit(request);
    const { gate } = await this.reaches(id, "awaiting_approval");
    await this.engine.approve(id, { diff_sha256: gate?.diff_sha256 ?? "", acknowledge: gate?.second_look ?? [] });
    return await this.reaches(id);
  }

  /** Tasks that have scratch. */
  staged(): string[] {
    return stagedTasks(join(this.home, ".taskd", "stage"));
  }

  /** Branches of the bare repository, with their commits. */
  async branches(): Promise<Map<string, string>> {
    const text = await plainGit(
      this.git.origin,
      "for-each-ref",
      "--format=%(refname:short) %(objectname)",
      "refs/heads",
    );
    return new Map(text.split("\n").map((line) => line.split(" ") as [string, string]));
  }

  /** Every file below the operator's home and what was logged, as text. */
  async written(): Promise<string> {
    return [...this.lines, ...await textsBelow(this.home)].join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.model[Symbol.asyncDispose]();
    await this.#broker?.stop();
    await this.git[Symbol.asyncDispose]();
  }
}

/** Real waiting for a condition that nothing announces. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!await condition()) await systemClock.sleep(20);
}

/** A server that accepts connections and never says a word. */
export function silentServer(): Disposable & { url: string } {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const held: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const conn of listener) held.push(conn);
  })();
  accepting.catch(() => {});
  return {
    url: `http://127.0.0.1:${listener.addr.port}/acme/app`,
    [Symbol.dispose]() {
      for (const conn of held) conn.close();
      listener.close();
    },
  };
}
