/**
 * A client of the task broker: submit tasks to coding agents, follow them, read what they did, approve or deny it.
 *
 * It speaks to a broker that runs (`taskd start`), over its unix socket (`taskd doctor` names it) or over TCP, and does
 * what the commands do. Every failure is a `TaskdError` with a code to act on.
 *
 * @example Ask a broker, or learn that none runs
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 * import { hasCode } from "@taskd/taskd";
 *
 * const broker = new BrokerClient({ socket: "/run/user/1000/taskd/taskd.sock" });
 * try {
 *   const { tasks } = await broker.tasks({ limit: 10 });
 *   for (const { id, stage } of tasks) console.log(id, stage);
 * } catch (error) {
 *   if (!hasCode(error, "broker_unreachable")) throw error;
 *   console.log("no broker runs: taskd start");
 * }
 * ```
 *
 * @example A task from its submission to its push, on a broker of its own
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * // A model that writes a file and is done; any OpenAI-compatible server can stand here.
 * const calls = [
 *   { name: "write", arguments: JSON.stringify({ path: "hello.txt", content: "hello\n" }) },
 *   { name: "finish", arguments: JSON.stringify({ summary: "It says hello" }) },
 * ];
 * const model = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
 *   const tool_calls = [{ id: "call", type: "function", function: calls.shift() }];
 *   return Response.json({
 *     choices: [{ message: { role: "assistant", content: null, tool_calls }, finish_reason: "tool_calls" }],
 *     usage: { prompt_tokens: 100, completion_tokens: 10 },
 *   });
 * });
 *
 * // A repository of one commit.
 * const home = await Deno.makeTempDir();
 * const repo = `${home}/repo`;
 * const author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
 * await new Deno.Command("git", { args: ["init", "--initial-branch=main", repo] }).output();
 * await new Deno.Command("git", { args: ["-C", repo, ...author, "commit", "--allow-empty", "-m", "First"] }).output();
 *
 * // A home directory with settings, and a broker in it: it prints one line as soon as it serves.
 * const settings = {
 *   runtime: "deno",
 *   default_agent: "agent_d",
 *   broker: { socket: `${home}/run/taskd.sock` },
 *   compat: { base_url: `http://127.0.0.1:${model.addr.port}`, model: "scripted" },
 * };
 * await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
 * await Deno.writeTextFile(`${home}/.taskd/config.yaml`, JSON.stringify(settings));
 * const process = new Deno.Command(Deno.execPath(), {
 *   args: [
 *     ...["run", "--quiet", "-A", "--no-prompt", "--unstable-worker-options"],
 *     ...[import.meta.resolve("@taskd/taskd/cli"), "start", "--json"],
 *   ],
 *   env: { HOME: home, DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno` },
 *   stdout: "piped",
 *   stderr: "null",
 * }).spawn();
 * const reader = process.stdout.getReader();
 * await reader.read();
 *
 * try {
 *   const broker = new BrokerClient(settings.broker);
 *   const { id } = await broker.submit({ repo, instruction: "Say hello in a file" });
 *   for await (const { event, data } of broker.events(id)) {
 *     if (event === "result") console.log(data.outcome, data.pushed?.branch); // pushed agent/…
 *     if (event !== "stage" || data.gate === undefined) continue;
 *     console.log(new TextDecoder().decode((await broker.diff(id)).bytes)); // … +hello
 *     await broker.approve(id, { diff_sha256: data.gate.diff_sha256, acknowledge: data.gate.second_look });
 *   }
 *   console.log((await broker.stats()).tasks, (await broker.health()).ok); // 1 true
 * } finally {
 *   process.kill();
 *   await process.status;
 *   await reader.cancel();
 *   await model.shutdown();
 *   await Deno.remove(home, { recursive: true });
 * }
 * ```
 *
 * @example Decide what waits for approval
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * async function decide(broker: BrokerClient): Promise<void> {
 *   for (const { id, gate, lines_changed } of await broker.pending()) {
 *     const { flags, databases = [] } = await broker.brief(id);
 *     for (const { db, tables } of databases) {
 *       for (const { table } of tables) console.log((await broker.databaseDiff(id, { database: db, table })).rows);
 *     }
 *     console.log((await broker.bases(id)).notes, (await broker.verification(id)).checks);
 *     if (flags.length > 0) await broker.deny(id, "it is flagged");
 *     else if (lines_changed > 500) console.log((await broker.diff(id)).bytes.length);
 *     else await broker.approve(id, { diff_sha256: gate.diff_sha256, acknowledge: gate.second_look });
 *   }
 * }
 *
 * const broker = new BrokerClient({ socket: "/run/none.sock" });
 * await decide(broker).catch((error) => console.log(error.code, error.hint)); // broker_unreachable …
 * ```
 *
 * @example Follow tasks and the queue
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * async function work(broker: BrokerClient): Promise<void> {
 *   await broker.enqueue({ repo: "https://example.com/o/r.git", instruction: "Fix the test" });
 *   for (const { id, state } of await broker.queue()) if (state === "queued") await broker.cancelQueued(id);
 *
 *   const [newest] = (await broker.tasks({ limit: 1 })).tasks;
 *   if (newest === undefined) return;
 *   for await (const text of broker.log(newest.id)) console.log(text);
 *   const { outcome } = await broker.task(newest.id);
 *   if (outcome === undefined) await broker.kill(newest.id, "no longer needed");
 *   else if (outcome === "agent_failed") await broker.retry(newest.id);
 *   for (const { id } of (await broker.tasks({ stage: "push_failed" })).tasks) await broker.push(id);
 *   for (const { id } of (await broker.tasks({ stage: "running" })).tasks) {
 *     await broker.grantEgress(id, { host: "registry.example.com", port: 443, for_ms: 600_000, uses: 3 });
 *   }
 * }
 *
 * const broker = new BrokerClient({ socket: "/run/none.sock" });
 * await work(broker).catch((error) => console.log(error.code)); // broker_unreachable
 * ```
 *
 * @example Watch a broker
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * async function watch(broker: BrokerClient): Promise<void> {
 *   console.log((await broker.health()).pid, (await broker.policy()).hash, await broker.uiUrl());
 *   console.log((await broker.ceiling()).headroom_usd, (await broker.stats({ by: "agent" })).groups);
 *   console.log(await broker.metrics());
 *   await broker.prune({ before: "2026-01-01T00:00:00Z", dry_run: true });
 * }
 *
 * async function renew(broker: BrokerClient): Promise<string> {
 *   for (const { name } of (await broker.apiTokens()).tokens) if (name === "ci") await broker.revokeApiToken(name);
 *   return (await broker.createApiToken({ role: "submit", ttl_ms: 30 * 86_400_000, name: "ci" })).token;
 * }
 *
 * const broker = new BrokerClient({ socket: "/run/none.sock" });
 * await renew(broker).catch((error) => console.log(error.code)); // broker_unreachable
 * await watch(broker).catch((error) => console.log(error.code)); // broker_unreachable
 * ```
 *
 * @module
 */

/**
 * Asks one broker.
 *
 * Ids may be any unique prefix; one of several is refused with `usage`. Times are ISO 8601 in UTC, money is USD, sizes are bytes.
 *
 * Every method throws a `TaskdError`. Beside the codes that it names: `broker_unreachable` when no broker answers or the
 * answer is not understood, `denied` when the socket may not be used, `interrupted` on the signal, and `stopping`,
 * `overloaded` or `timed_out`, after which the call can be made again.
 */
export declare class BrokerClient {
  /** Where the broker is. */
  readonly place: BrokerAddress;

  /** Nothing is connected before something is asked. */
  constructor(place: BrokerAddress, options?: ClientOptions);

  /**
   * Submits a task.
   *
   * @throws {TaskdError} `invalid_request`, `at_capacity`, `ceiling_reached`, `auth_failed`, `no_space`, `unavailable`.
   */
  submit(request: SubmitRequest): Promise<Submitted>;

  /**
   * Submits a task again, as a new one.
   *
   * @throws {TaskdError} `not_found`, and as {@linkcode submit}.
   */
  retry(id: string): Promise<Submitted>;

  /**
   * Tasks, newest first.
   *
   * @param options `limit`: at most so many, 1-1000; `before`: the `next` of the page before; `stage`: those in it alone.
   * @throws {TaskdError} `invalid_request`, `not_found` (`before`).
   */
  tasks(options?: {
    limit?: undefined | number;
    before?: undefined | string;
    stage?: Stage | undefined;
  }): Promise<TaskList>;

  /**
   * The whole record of a task.
   *
   * @throws {TaskdError} `not_found`, `corrupt` (its trace).
   */
  task(id: string): Promise<TaskView>;

  /**
   * What happens to a task, up to its result. A connection that breaks off is taken up again after the last event.
   *
   * @param options `after`: the id of an event, to get only those behind it.
   * @throws {TaskdError} `not_found`, `invalid_request`, `corrupt` (its trace).
   */
  events(
    id: string,
    options?: { after?: undefined | number; signal?: undefined | AbortSignal },
  ): AsyncGenerator<StreamedEvent, void>;

  /**
   * The diff as a person reads it, cut at 4 MiB; the digest that is approved is of the whole change, not of this text.
   *
   * @throws {TaskdError} `not_found`, also before there is one.
   */
  diff(id: string): Promise<TaskDiff>;

  /**
   * What the broker itself established about a task.
   *
   * @throws {TaskdError} `not_found`, also before there is anything.
   */
  brief(id: string): Promise<TrustBrief>;

  /**
   * A page of the rows that a task changed in a table of a database.
   *
   * @param query `kind` and `search` leave rows out, `cursor` is `next` of the page before, `limit` at most 1000.
   * @throws {TaskdError} `not_found`, `invalid_request`.
   */
  databaseDiff(id: string, query: DatabaseDiffQuery): Promise<DatabaseRows>;

  /**
   * What a task has printed, as it comes.
   *
   * @param options `follow`: go on until the task has ended.
   * @throws {TaskdError} `not_found`.
   */
  log(
    id: string,
    options?: { follow?: undefined | boolean; signal?: undefined | AbortSignal },
  ): AsyncGenerator<string, void>;

  /**
   * Puts a task into the queue.
   *
   * @throws {TaskdError} `invalid_request`, `overloaded` (the queue is full), `no_space`, `unavailable`.
   */
  enqueue(request: SubmitRequest): Promise<QueueItemView>;

  /**
   * The queue, oldest first.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  queue(): Promise<QueueItemView[]>;

  /**
   * Takes an item off the queue, or ends its task.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`.
   */
  cancelQueued(id: string): Promise<void>;

  /**
   * What a task's approval bound and led to, verified from its record alone.
   *
   * @throws {TaskdError} `not_found`.
   */
  verification(id: string): Promise<Verification>;

  /**
   * What has happened to what a change that waits was made from. The broker asks the code host and the branch store.
   *
   * @throws {TaskdError} `not_found`.
   */
  bases(id: string): Promise<BasesView>;

  /**
   * Tasks that wait for approval, oldest first.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  pending(): Promise<PendingTask[]>;

  /**
   * Approves what has the digest `gate.diff_sha256`.
   *
   * @param request `diff_sha256`: the gate's, in hex; `acknowledge`: every category of its `second_look`;
   * `seen`: what was shown, for the record.
   * @throws {TaskdError} `not_found`, `wrong_state`, `stale_diff`, `altered`, `expired`, `not_acknowledged` (`NotAcknowledged`, with what is missing).
   */
  approve(id: string, request: {
    diff_sha256: string;
    acknowledge: readonly string[];
    seen?: Seen | undefined;
    decide?: DecideRequest | undefined;
  }): Promise<void>;

  /**
   * Refuses what waits for approval.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`, `expired`.
   */
  deny(id: string, reason?: string): Promise<void>;

  /**
   * Begins another round for an approved change that could not be pushed, or whose data could not be promoted.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`.
   */
  push(
    id: string,
    request?: { decide?: DecideRequest | undefined; conflicts_read_sha256?: undefined | string },
  ): Promise<void>;

  /**
   * Ends a task in any stage before its push, or gives up an approved change that waits to land.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`.
   */
  kill(id: string, reason?: string): Promise<void>;

  /**
   * Opens a host to a running task beside the egress list: for `for_ms` milliseconds, and for `uses` connections or plain
   * requests where it is given.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`, `invalid_request`.
   */
  grantEgress(id: string, request: EgressGrantRequest): Promise<void>;

  /**
   * Removes the records of tasks that ended before `before`, in ISO 8601.
   *
   * @throws {TaskdError} `invalid_request`.
   */
  prune(request: { before: string; dry_run: boolean }): Promise<Pruned>;

  /**
   * The settings in force.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  policy(): Promise<PolicyView>;

  /**
   * The headroom of the global ceiling.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  ceiling(): Promise<CeilingView>;

  /**
   * Outcomes and cost in USD of the tasks since `since`, in ISO 8601; of all without it.
   *
   * @throws {TaskdError} `invalid_request`.
   */
  stats(options?: { since?: undefined | string; by?: Grouping | undefined }): Promise<StatsView>;

  /**
   * The address of the web pages, with a code that begins one session within 60 s: a secret.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  uiUrl(): Promise<string>;

  /**
   * The tokens of `broker.api_addr`, without the tokens themselves.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  apiTokens(): Promise<TokenList>;

  /**
   * Makes a token of a role, which no later answer has again.
   *
   * @throws {TaskdError} `invalid_request`, `already_exists`, `wrong_state` when there are 64.
   */
  createApiToken(request: CreateTokenRequest): Promise<CreatedToken>;

  /**
   * Ends a token, by its name, and what is open over it.
   *
   * @throws {TaskdError} `not_found`.
   */
  revokeApiToken(name: string): Promise<void>;

  /**
   * That the broker is there.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  health(): Promise<Health>;

  /**
   * The metrics in Prometheus text format.
   *
   * @throws {TaskdError} `broker_unreachable`.
   */
  metrics(): Promise<string>;
}

/** Where a broker is. */
export type BrokerAddress = { socket: string } | { addr: string };

/** Options of a client. */
export type ClientOptions = {
  /** Ends every call that is under way with `interrupted`. */
  signal?: undefined | AbortSignal;
  /** Time, by default the system's. */
  clock?: undefined | Clock;
  /** How long the head of an answer is waited for, in milliseconds. */
  head_deadline_ms?: undefined | number;
  /** What the client says it is. */
  user_agent?: undefined | string;
};

/** What a person asks for. It travels as one value, from the command line to the sandbox and the pull request. */
export type SubmitRequest = {
  /** A URL, `host/owner/repo`, or a path of this machine. */
  repo: string;
  instruction: string;
  /** By either of its names; `default_agent` when absent. */
  agent?: undefined | string;
  model?: undefined | string;
  /** The branch or commit to start from. */
  base?: undefined | string;
  /** Hosts and ports in addition to those of egress.yaml. */
  egress_extra?: undefined | ({ host: string; ports: number[] })[];
  /** Whether a person must acknowledge it in any case. */
  sensitive?: undefined | boolean;
  /** Whether the pull request is opened as a draft. */
  draft?: undefined | boolean;
  /** `os/arch` of the sandbox, when it is not the host's own. */
  platform?: undefined | string;
  /** Most that the task may spend, in US dollars, in the place of `task_budget_usd`, which it may not exceed. */
  budget_usd?: undefined | number;
  /** Databases of the branch store that the task gets a branch of. */
  databases?: undefined | string[];
};

/** Answer of `POST /tasks` and `/retry`. */
export type Submitted = { id: string; stage: Stage; links: TaskLinks };

/** The stage of a task. */
export type Stage =
  | "push_failed"
  | "admission"
  | "staging"
  | "setting_up"
  | "running"
  | "collecting"
  | "awaiting_approval"
  | "pushing"
  | "data_waits"
  | "awaiting_ci"
  | "done";

/** Answer of `GET /tasks`. */
export type TaskList = {
  tasks: TaskListItem[];
  /** The value of `before` for the next page; absent on the last. */
  next?: undefined | string;
};

/** Answer of `GET /tasks/<id>`; `<id>` may be any unique prefix. */
export type TaskView = {
  /** As in a list. */
  live?: SpendFigures | undefined;
  /** Whether the trace is what the broker wrote; with what is wrong when not. */
  trace: { intact: true; rows: number } | { intact: false; fault: string };
  refused_egress: RefusedEgress;
  /** Present when a person opened hosts to it while it ran. */
  egress_grants?: EgressGrants | undefined;
  /** Present once its disk space was counted. */
  disk?: DiskUse | undefined;
  links: TaskLinks;
  stage: Stage;
  /** Present once it is done. */
  outcome?: Outcome | undefined;
  /** Why it ended so, or waits. */
  reason?: undefined | string;
  created_at: string;
  /** Of the last row. */
  updated_at: string;
  /** When it came to its stage. */
  stage_since: string;
  /** Metered by the broker; absent when nothing was metered. */
  spend?: SpendFigures | undefined;
  /** USD that the agent claims to have spent, never added to anything. */
  claimed_usd?: undefined | number;
  /** Of the change that is or was at the gate. */
  diff_sha256?: undefined | string;
  /** What the gate asks for; stays after it was passed. */
  gate?: Gate | undefined;
  /** Categories that the approver has acknowledged; present once it was approved. */
  acknowledgements?: undefined | string[];
  /** The approval, once there is one, when it was, and whose. */
  approval?: undefined | {
    at: string;
    by?: Decider | undefined;
    diff_sha256: string;
    acknowledged: string[];
    /** What was shown before, as the client reports it. */
    seen?: Seen | undefined;
    /** What they decided of the gate's conflicts, one by one. */
    decisions?: undefined | Decision[];
  };
  /** Who denied it, gave it up, or ended it before the gate. */
  ended_by?: Decider | undefined;
  /** The last time that a person asked for another round of the push, and who. */
  push_asked?: undefined | { at: string; by: Decider };
  /** What was decided last of conflicts that were met between the push and the data. */
  decisions?: undefined | Decision[];
  /** Branches that pushes were begun to, the last one last; each may have arrived. */
  push_attempts: PushAttempt[];
  /** When the last of them was begun. */
  push_begun_at?: undefined | string;
  /** What is known to be pushed. */
  pushed?: Pushed | undefined;
  /** The last thing seen of the pushed change's checks. */
  ci?: CiObservation | undefined;
  /** Facts for the trust brief, by name; without a prototype. */
  evidence: { [key: string]: Json };
  /** Number of its last row. */
  seq: number;
  id: string;
  /** `agent_a` to `agent_d`. */
  agent: string;
  /** The task that this one repeats. */
  retry_of?: undefined | string;
  /** Which retry after a failed check this is, from 1; absent when a person asked for the task. */
  ci_attempt?: undefined | number;
  /** The item of the queue that it was made of. */
  queue_id?: undefined | string;
  /** Present when it was submitted over `broker.addr` or `broker.api_addr`, or repeats a task that was: its repository has to be public. */
  over_network?: undefined | true;
  /** Whose API token it was submitted with; that of the first task for a retry after a failed check. */
  submitted_by?: Decider | undefined;
  instruction: string;
  /** A URL, `host/owner/repo`, or a path of this machine. */
  repo: string;
  model?: undefined | string;
  /** The branch or commit to start from. */
  base?: undefined | string;
  /** Hosts and ports in addition to those of egress.yaml. */
  egress_extra?: undefined | ({ host: string; ports: number[] })[];
  /** Whether a person must acknowledge it in any case. */
  sensitive?: undefined | boolean;
  /** Whether the pull request is opened as a draft. */
  draft?: undefined | boolean;
  /** `os/arch` of the sandbox, when it is not the host's own. */
  platform?: undefined | string;
  /** Most that the task may spend, in US dollars, in the place of `task_budget_usd`, which it may not exceed. */
  budget_usd?: undefined | number;
  /** Databases of the branch store that the task gets a branch of. */
  databases?: undefined | string[];
};

/** An event, with the number of its row; live spend has none. */
export type StreamedEvent = TaskEventView & {
  /** The number of its row: give it as `after` to go on behind it. */
  id?: undefined | number;
};

/** The text of a diff. {@linkcode BrokerClient.approve} takes the digest of all that would happen: `gate.diff_sha256`. */
export type TaskDiff = {
  bytes: Uint8Array<ArrayBuffer>;
  /** What the broker says the SHA-256 of these bytes is. */
  shown_sha256: string;
};

/** What the broker established. Strings may hold anything that a task can write: sanitise to show them. */
export type TrustBrief = {
  version: 1;
  task_id: string;
  /** SHA-256 of the instruction's UTF-8. */
  instruction_sha256: string;
  repo: string;
  base_commit: null | string;
  runtime: null | string;
  image: null | string;
  image_digest: null | string;
  agent: string;
  model: null | string;
  policy_hash: null | string;
  budget_usd: null | number;
  spend: SpendFigures | null;
  diff: BriefDiff | null;
  flags: BriefFlag[];
  violations: ({
    rule: "max_files_changed" | "max_lines_changed";
    limit: number;
    found: number;
    message: string;
  } | {
    rule: "blocked_paths";
    glob: string;
    paths: string[];
    found: number;
    message: string;
  } | { rule: "checks"; check: string; message: string })[];
  setup: SetupEvidence | null;
  /** Absent when the task has no databases. */
  databases?: undefined | BriefDatabase[];
  /** Present when a person opened hosts to it while it ran. */
  egress_grants?: EgressGrants | undefined;
  /** What could not be established, one sentence each. */
  missing_evidence: string[];
};

/** What is asked of a task's changed rows. */
export type DatabaseDiffQuery = { database: string; table: string } & {
  kind?: undefined | "added" | "removed" | "changed";
  limit?: undefined | number;
  search?: undefined | string;
  cursor?: undefined | string;
  value_bytes?: undefined | number;
};

/** Answer of `GET /tasks/<id>/database-diff`. A filtered page may be short, or empty, and have a next one. */
export type DatabaseRows = {
  rows: RowChange[];
  /** The value of `cursor` for the next page; absent on the last. */
  next?: undefined | string;
  /** That it belongs to the change that the gate binds; of a page of its rows alone, see `isProvable`. */
  proof?: PageProof | undefined;
};

/** An item of the queue. */
export type QueueItemView = {
  id: string;
  state: QueueState;
  repo: string;
  instruction: string;
  agent: string;
  queued_at: string;
  updated_at: string;
  /** The task that was made of it. */
  task_id?: undefined | string;
  /** Why it ended as it did. */
  reason?: undefined | string;
};

/** Answer of `GET /tasks/<id>/verification`. */
export type Verification = {
  id: string;
  /** Whether every check holds. */
  verified: boolean;
  /** Of what there is: a task that was not approved, or has not landed, has fewer. */
  checks: ({
    what: "rows" | "commit" | "brief" | "approval" | "diff" | "trace" | "digest" | "data";
    holds: boolean;
    /** What was found. */
    detail: string;
  })[];
};

/** Answer of `GET /admin/tasks/<id>/bases`. */
export type BasesView = {
  /** Sentences, one for each base that is not where it was; may hold any name. */
  notes: string[];
};

/** A task at the gate. */
export type PendingTask = {
  id: string;
  repo: string;
  instruction: string;
  agent: string;
  /** Since when it waits. */
  since: string;
  /** Milliseconds until it expires; absent when it waits without end. */
  expires_in_ms?: undefined | number;
  gate: Gate;
  /** The gateway's figure. */
  spend?: SpendFigures | undefined;
  files_changed: number;
  lines_changed: number;
  sensitive: boolean;
};

/** What was shown: the brief, files in the order of the diff, rows of a table in the order of the brief. */
export type Seen = ({
  part: "rows" | "brief" | "files";
  /** Of rows: `<db>@<base> <table>`. */
  name?: undefined | string;
  /** The first and the last, from 1, and how many there are in all. */
  from: number;
  to: number;
  of: number;
})[];

/** How a person decides conflicts: single ones, then all the others. */
export type DecideRequest = {
  prefer?: undefined | "ours" | "theirs";
  /** Without `db` of whichever database has it; without `column` of the whole row. With `ours`, as the conflict was read (null for nothing), it is refused where the database has another value by now. */
  resolve?: undefined | ({
    take: "ours" | "theirs";
    ours?: undefined | null | { [key: string]: StoredValue };
    table: string;
    key?: undefined | { [key: string]: StoredValue };
    column?: undefined | string;
    db?: undefined | string;
  })[];
};

/** Body of `POST /admin/tasks/<id>/egress`. */
export type EgressGrantRequest = {
  /** A name; not `*.` and a name. */
  host: string;
  port: number;
  /** For how many milliseconds, a day at most. */
  for_ms: number;
  /** For how many connections or plain requests; without it there is no bound. */
  uses?: undefined | number;
};

/** The answer to `POST /admin/prune`. */
export type Pruned = {
  /** Ids of the tasks that were removed, or would be. */
  pruned: string[];
  /** Mirrors of repositories that were removed, or would be, the longest unused first. */
  mirrors: ({ repo: string; bytes: number; last_used_at: string })[];
  dry_run: boolean;
};

/** Every setting. */
export type PolicyView = {
  fields: PolicyField[];
  /** SHA-256 in hex over the compared fields. */
  hash: string;
};

/** Answer of `GET /admin/ceiling`, and `global_ceiling` of `stats --json`. */
export type CeilingView = {
  enabled: boolean;
  /** As configured: `24h`, or `0s` for the total. */
  window: string;
  window_ms: number;
  budget_usd: number;
  spent_usd: number;
  /** Null without a USD limb. */
  headroom_usd: null | number;
  max_tasks: number;
  recorded_starts: number;
  in_flight_starts: number;
  starts: number;
  /** Null without a task limb. */
  headroom_starts: null | number;
  usd: LimbView;
  tasks: LimbView;
  /** Lines of the ledger that could not be read. */
  damaged: number;
  oldest_entry: null | string;
  newest_entry: null | string;
};

/** What figures of tasks are grouped by. */
export type Grouping = "agent" | "repo" | "vendor" | "day";

/** Answer of `GET /admin/stats`: as `stats --json`. */
export type StatsView = Tally & {
  global_ceiling: CeilingView;
  /** Tasks whose trace cannot be followed; they are in no other figure. */
  damaged: number;
  /** Only tasks that were started from then on; null for all. */
  since: null | string;
  by?: Grouping | undefined;
  /** The dearest first; days in their order. */
  groups?: undefined | GroupTally[];
  /** Every day from the first task's to the last one's, of at most a year. */
  days: DayFigures[];
};

/** Answer of `GET /admin/tokens`, oldest first. */
export type TokenList = { tokens: ApiTokenView[]; api_addr: null | string };

/** Body of `POST /admin/tokens`. */
export type CreateTokenRequest = {
  role: ApiRole;
  /** Milliseconds until it expires, a year at most. */
  ttl_ms: number;
  /** By default the role with a few random digits. */
  name?: undefined | string;
};

/** Answer of `POST /admin/tokens`: the token itself is in no other answer. */
export type CreatedToken = {
  token: string;
  api_addr: null | string;
  name: string;
  role: ApiRole;
  /** The first 8 hex digits of its SHA-256. */
  fingerprint: string;
  created_at: string;
  expires_at: string;
  expired: boolean;
};

/** Answer of `GET /healthz`. */
export type Health = {
  ok: true;
  version: string;
  pid: number;
  runtime: string;
  started_at: string;
  /** Tasks that hold a slot. */
  running: number;
  /** Tasks at the gate. */
  pending: number;
};

/** A source of time. */
export type Clock = {
  /** Whole wall-clock milliseconds since 1970; may jump. For stamps people read, and in records. */
  now: () => number;
  /** Monotonic milliseconds; never goes back. For leases, deadlines and durations. */
  monotonic: () => number;
  /** Resolves after `ms`; an abort rejects with its reason. */
  sleep: (ms: number, signal: undefined | AbortSignal) => Promise<void>;
};

/** Paths of what belongs to a task. */
export type TaskLinks = { self: string; events: string; diff: string; brief: string; log: string };

/** A task in `GET /tasks`. */
export type TaskListItem = {
  /** What the gateway lease has metered so far; only while the task is under way. */
  live?: SpendFigures | undefined;
  id: string;
  repo: string;
  /** The beginning of the instruction, on one line, safe to show. */
  instruction: string;
  agent: string;
  model?: undefined | string;
  stage: Stage;
  outcome?: Outcome | undefined;
  /** The beginning of the reason, on one line, safe to show. */
  reason?: undefined | string;
  created_at: string;
  updated_at: string;
  /** Metered by the broker; absent when nothing was metered. */
  spend?: undefined | { usd: number; requests: number; unmetered_requests: number; priced: boolean };
  /** The agent's own claim; absent where the broker has metered. */
  claimed_usd?: undefined | number;
  retry_of?: undefined | string;
  ci_attempt?: undefined | number;
  queue_id?: undefined | string;
};

/** What a task has spent. */
export type SpendFigures = {
  usd: number;
  requests: number;
  /** Requests whose cost is not known, or not all of it. */
  unmetered_requests: number;
  input_tokens: number;
  output_tokens: number;
  /** Whether `usd` covers every request. */
  priced: boolean;
};

/** Names that the egress proxy refused to a task, with why; the last ones. */
export type RefusedEgress = ({ target: string; reason: string; hint?: undefined | string })[];

/** Hosts that a person opened to a task while it ran, beside the egress list, the first one first. */
export type EgressGrants = ({
  /** `host:port`. */
  target: string;
  at: string;
  /** Milliseconds from then on. */
  for_ms: number;
  /** The most uses; absent when there is no bound. */
  uses?: undefined | number;
  /** Connections and plain requests that it let through, as they stood when the row was written. */
  used: number;
  by?: Decider | undefined;
})[];

/** The disk space that a task was found to take at its most, in bytes, and what it may take. */
export type DiskUse = { peak_bytes: number; limit_bytes: number };

/** The outcome of a task. */
export type Outcome =
  | "denied"
  | "timed_out"
  | "pushed"
  | "promoted"
  | "no_diff"
  | "cancelled"
  | "setup_failed"
  | "agent_failed"
  | "policy_blocked"
  | "push_failed";

/** What a person decides on at the gate. */
export type Gate = {
  /** The digest of `binding`: what is approved is this and nothing else. */
  diff_sha256: string;
  /** Categories that the approver has to acknowledge. */
  second_look: string[];
  /** Milliseconds until the task is denied without an answer; 0 is never. */
  timeout_ms: number;
  /** What was found in conflict when the change was approved before and was to land; decided with the next approval. */
  conflicts?: undefined | DatabaseConflicts[];
  /** Everything that the digest covers; absent from gates of versions up to 0.1.0. */
  binding?: Binding | undefined;
};

/** Who decided, and from where: as far as a listener knows of its clients. */
export type Decider = {
  /** The command line is one of the clients of the unix socket, by what it says it is. */
  via: "command line" | "socket" | "HTTP" | "page" | "approval_timeout";
  /** Who can come in there. */
  who: string;
};

/** The decision of one conflict, which holds while the base has what was seen: `ours`, null for nothing. */
export type Decision = {
  take: "ours" | "theirs";
  ours: null | { [key: string]: StoredValue };
  table: string;
  key?: undefined | { [key: string]: StoredValue };
  column?: undefined | string;
  db: string;
};

/** A push that is about to be tried. */
export type PushAttempt = {
  /** URL without credentials. */
  remote: string;
  branch: string;
  commit: string;
};

/** What was pushed. */
export type Pushed = {
  branch: string;
  commit: string;
  /** URL of the pull request, when one was opened. */
  pull_request?: undefined | string;
};

/** The result of the watch of a pushed change, or what it has seen so far. */
export type CiObservation = {
  state: "pending" | "passed" | "failed" | "no_checks" | "no_conclusion";
  detail?: undefined | string;
};

/** A value of JSON. */
export type Json = null | string | number | Json[] | { [key: string]: Json } | boolean;

/** Something that has happened to a task, as `GET /tasks/<id>/events` says it. */
export type TaskEventView =
  | {
    event: "output";
    data: {
      channel: "setup" | "stdout" | "stderr";
      text: string;
      cut_chars?: undefined | number;
      ts: string;
    };
  }
  | {
    event: "result";
    data: { ts: string; outcome: Outcome; reason: string; pushed?: Pushed | undefined };
  }
  | { event: "spend"; data: SpendFigures & { live: boolean; ts: string } }
  | {
    event: "ci";
    data: {
      state: "pending" | "passed" | "failed" | "no_checks" | "no_conclusion";
      detail?: undefined | string;
      ts: string;
    };
  }
  | { event: "evidence"; data: { name: string; value: Json; ts: string } }
  | {
    event: "stage";
    data: {
      ts: string;
      stage: Stage;
      reason?: undefined | string;
      gate?: Gate | undefined;
      pushed?: Pushed | undefined;
    };
  }
  | { event: "note"; data: { text: string; ts: string } };

/** The change, as far as a person needs it. */
export type BriefDiff = {
  tree: string;
  files_changed: number;
  lines_changed: number;
  /** Files of the diff's text, in which a rename is one and a change of type two; absent from older briefs. */
  diff_files?: undefined | number;
  /** The first thousand. */
  files: ({
    path: string;
    status: "added" | "modified" | "deleted" | "type_changed";
    added: number;
    deleted: number;
    binary: boolean;
    /** What an added file was made from; both paths count for the policy. */
    from?: undefined | { kind: "renamed" | "copied"; path: string; similarity: number };
  })[];
};

/** One category that has to be acknowledged. */
export type BriefFlag = {
  category: string;
  reason: string;
  /** How many paths. */
  count: number;
  /** The first hundred, with more on each where there is more to say. */
  paths: ({ path: string; detail?: undefined | string })[];
};

/** The result of the setup phase. */
export type SetupEvidence = {
  commands: CommandEvidence[];
  cache: {
    participation: "hit" | "miss" | "disabled" | "disabled: no lockfile";
    /** First digits of the entry's key. */
    key_prefix?: undefined | string;
  };
};

/** A database of the task: its branch, and how it ended. */
export type BriefDatabase = {
  db: string;
  /** The branch that it was forked from and is promoted onto. */
  base: string;
  /** False: the agent left it as it was, and nothing is promoted. */
  changed: boolean;
  /** At most a hundred, with the first rows of each kind. */
  tables: ({
    rows?: undefined | RowChange[];
    /** Of 200 rows or more: on which values of its first columns they fall. */
    spread?: undefined | ({
      column: string;
      /** Rows from one value to another, or of one: numbers, dates, then the most frequent texts, then NULL. */
      bins: ({ from: StoredValue; to?: StoredValue | undefined; rows: number })[];
      /** Rows that are in none. */
      other: number;
      /** Its texts were too many to count: a bin of one has this many rows or more. */
      at_least?: undefined | true;
    })[];
    table: string;
    /** `schema` in briefs of earlier versions, which compared no rows where columns differ. */
    change: "schema" | "added" | "removed" | "changed";
    internal?: undefined | true;
    rows_added: number;
    rows_removed: number;
    rows_changed: number;
    /** Of a full-text table, in the tables that it is kept in; in briefs of earlier versions. */
    storage_rows?: undefined | number;
    columns?: undefined | ({
      name: string;
      change: "added" | "removed" | "renamed";
      from?: undefined | string;
      values: number;
    })[];
    unread?: undefined | string;
  })[];
  /** Tables beyond those listed. */
  more_tables: number;
  /** Definitions of tables, indexes, views and triggers that are not what they were. */
  schema: ({
    type: string;
    name: string;
    change: "added" | "removed" | "changed";
    table?: undefined | string;
    table_before?: undefined | string;
    /** The SQL, as far as there was room for it. */
    before?: StoredValue | undefined;
    after?: StoredValue | undefined;
  })[];
  more_schema: number;
  /** Settings of the file. */
  settings?: undefined | ({ setting: string; before: string; after: string })[];
  /** Pages that differ and hold nothing of all this, and where; at most a hundred. */
  other_pages?: undefined | ({
    where: "table" | "index" | "definitions" | "free" | "pointer map" | "unused";
    name?: undefined | string;
    pages: number;
  })[];
  /** Something differs that is neither a row nor a definition: a setting, or pages. */
  other_changes: boolean;
  /** Present where the repository's profile has some for a database that was changed. */
  checks?: undefined | BriefCheck[];
};

/** A row that differs. */
export type RowChange = {
  change: "added" | "removed" | "changed";
  key: { [key: string]: StoredValue };
  rowid?: undefined | { before?: StoredValue | undefined; after?: StoredValue | undefined };
  before?: undefined | { [key: string]: StoredValue };
  after?: undefined | { [key: string]: StoredValue };
  /** Of a changed one, where pages of rows are asked for, its other columns. */
  same?: undefined | { [key: string]: StoredValue };
};

/** The place of a page among the leaves of its changeset, and the hashes beside its way up. */
export type PageProof = { index: number; path: string[] };

/** The state of a queue item. */
export type QueueState =
  | "cancelled"
  | "running"
  | "awaiting_approval"
  | "awaiting_ci"
  | "queued"
  | "completed"
  | "ci_failed"
  | "dead_letter";

/**
 * A value of a row, or SQL. Integers and reals that JSON cannot hold are text; a long text and a blob come as a part, with
 * its place, the size of the whole and its SHA-256.
 */
export type StoredValue = null | string | number | { integer: string } | { real: string } | {
  bytes: number;
  at?: undefined | number;
  sha256?: undefined | string;
  text: string;
  hex?: undefined | string;
} | {
  bytes: number;
  at?: undefined | number;
  sha256?: undefined | string;
  hex: string;
};

/** A setting; another version of the program may have others. */
export type PolicyField = { setting: string; value: ShownValue; source: string };

/** One limb of the global ceiling. */
export type LimbView = {
  /** Whether it refuses starts now. */
  blocked: boolean;
  /** Why; empty when it does not. */
  reason: string;
};

/** Figures over some tasks. */
export type Tally = {
  tasks: number;
  /** Those that have not ended. */
  under_way: number;
  /** Of these: approved changes that could not be pushed, and wait. */
  push_failed: number;
  /** Of these: changes that are pushed, whose databases could not be promoted, and wait. */
  data_waits: number;
  /** Of those that have. */
  outcomes: {
    denied: number;
    timed_out: number;
    pushed: number;
    promoted: number;
    no_diff: number;
    cancelled: number;
    setup_failed: number;
    agent_failed: number;
    policy_blocked: number;
    push_failed: number;
  };
  /** What the broker metered. */
  spend: {
    usd: number;
    requests: number;
    /** Tasks of which every request was metered. */
    metered_tasks: number;
    /** Tasks that cost more than `usd` has of them, by an unknown amount. */
    unmetered_tasks: number;
    /** Their requests without a figure. */
    unmetered_requests: number;
  };
  /** Claims of agents, for tasks of which the broker has metered nothing; in no other figure. */
  agent_reported: { tasks: number; usd: number };
};

/** The tally of one agent, vendor, repository or day. */
export type GroupTally = Tally & { name: string };

/** One day in UTC, `2026-01-31`; `usd` is metered by the broker. */
export type DayFigures = { day: string; tasks: number; usd: number };

/** A token of `broker.api_addr`, without the token itself. */
export type ApiTokenView = {
  name: string;
  role: ApiRole;
  /** The first 8 hex digits of its SHA-256. */
  fingerprint: string;
  created_at: string;
  expires_at: string;
  expired: boolean;
};

/** A role of an API token. */
export type ApiRole = "read" | "submit" | "approve";

/** What keeps the change to a database from landing. */
export type DatabaseConflicts = {
  db: string;
  base: string;
  /** Where the base stood. */
  txid: number;
  /** The first of them. */
  conflicts: Conflict[];
  /** How many there are. */
  total: number;
};

/** The fields are those of docs/explanation/approval.md. */
export type Binding = {
  format: "taskd approval 1";
  task_id: string;
  /** The trace up to the gate: its rows, and the SHA-256 of the last one, which names the one before. */
  record: { rows: number; sha256: string };
  /** Where it is pushed. */
  repository: string;
  base: { commit: string; tree: string; branch: null | string };
  tree: string;
  /** Of base, both trees and git's list of the changed entries. */
  change_sha256: string;
  /** Without its last line, which has the digest. */
  commit_message: string;
  /** Its body is without its last line, which has the digest. */
  pull_request: { title: string; body_sha256: string; draft: boolean };
  databases: ({
    db: string;
    /** The branch that it was forked from and is promoted onto. */
    base: string;
    /** Where that branch stood: the content of a transaction in a lineage never changes. */
    base_lineage: string;
    base_txid: number;
    /** What is promoted; null where nothing was changed. */
    result: null | {
      lineage: string;
      txid: number;
      /** Of the whole file, schema, rows and every other byte, in the mode of a rollback journal. */
      image_sha256: string;
      /** Of what differs from the base: absent at gates of earlier versions. */
      changeset?: ChangesetRoot | undefined;
    };
  })[];
  second_look: string[];
  /** Of every flag of every path. */
  flags_sha256: string;
  /** Of the brief, as canonical JSON: so it is kept. */
  brief_sha256: string;
  /** Of the bytes of the diff as it is shown. */
  shown_sha256: string;
  policy_sha256: string;
  egress_sha256: string;
  settings_sha256: string;
  /** Of the gate's conflicts, where it has some. */
  conflicts_sha256?: undefined | string;
};

/** How one command of a profile ended, by its exit code alone. */
export type CommandEvidence = {
  phase: "setup" | "readiness";
  command: readonly string[];
  status: "timed_out" | "passed" | "failed" | "not_run";
  /** Absent when it was ended. */
  exit_code?: undefined | number;
  duration_ms: number;
};

/** A check of the repository's profile, with its answers before and after. */
export type BriefCheck = {
  name: string;
  sql: string;
  expect?: undefined | "same" | "empty";
  /** Whether what is expected is so; absent where nothing is. */
  holds?: undefined | boolean;
  before: CheckAnswer;
  after: CheckAnswer;
};

/** A setting's value as it is shown and compared. */
export type ShownValue = string | number | ShownValue[] | { [key: string]: ShownValue } | boolean;

/** One thing that the task and its base have changed differently; `ours` is the base's, `theirs` the task's. */
export type Conflict = {
  kind:
    | "changed_twice"
    | "changed_and_deleted"
    | "deleted_and_changed"
    | "inserted_twice"
    | "constraint"
    | "foreign_key"
    | "definition"
    | "setting";
  table: string;
  key?: undefined | { [key: string]: StoredValue };
  column?: undefined | string;
  base?: undefined | { [key: string]: StoredValue };
  ours?: undefined | { [key: string]: StoredValue };
  theirs?: undefined | { [key: string]: StoredValue };
  detail?: undefined | string;
};

/** Of the tree of hashes over definitions, settings and pages of rows that differ. */
export type ChangesetRoot = { root: string; leaves: number };

/** What a check's query returned on one side, or why it returned nothing. */
export type CheckAnswer = {
  columns: string[];
  /** The first twenty at most. */
  rows: (StoredValue[])[];
  count: number;
  /** Over all rows. */
  sha256: string;
} | { error: string };
