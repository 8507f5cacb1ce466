/**
 * The broker's HTTP interface, as the pages use it. The token goes out as a header only.
 *
 * Every request has a deadline. A read is asked again until the broker answers; what decides something is sent once, and
 * is an {@linkcode ApiError} of the status 0 when its outcome is unknown.
 */

import type { PendingTask, Problem, TaskEventView, TaskList, TaskView } from "../../api/wire.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../../task/row_pages.ts";
import type { DecideRequest } from "../../task/database_schema.ts";
import type { TrustBrief } from "../../task/schema.ts";
import type { Seen } from "../../task/stages.ts";
import { EventParser, PING_MS, type ServerSentEvent } from "../../../lib/http/server_sent_events.ts";
import type { Link } from "./link.ts";

/** A refusal of the broker, or no answer at all. */
export class ApiError extends Error {
  /** 0 when there was no answer. */
  readonly status: number;
  readonly problem: Partial<Problem>;

  constructor(status: number, problem: Partial<Problem>) {
    super(problem.detail ?? problem.title ?? `The broker answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

export interface FollowEventsOptions {
  /** Number of the last row that is known. */
  after: number;
  signal: AbortSignal;
  /** With the number of its row, for those that have one. */
  onEvent(event: TaskEventView, seq?: number): void;
}

export interface ApiOptions {
  link: Link;
  /** The broker does not know the session, or no longer. */
  onEnded(): void;
}

/** Between attempts to read, in milliseconds; the last one is repeated. */
const RETRY_MS = [250, 500, 1_000, 2_000, 3_000];
/** Milliseconds for the whole answer to a read. That the broker is frozen is known earlier, by the pulse. */
const READ_MS = 60_000;
/** The same where the broker asks a code host. */
const BASES_MS = 300_000;
const PULSE_MS = 4_000;
/** A stream on which nothing comes for so long is dead: the broker sends pings. */
const STREAM_IDLE_MS = 2 * PING_MS + 10_000;
/** Milliseconds for the answer to a decision, and how long the broker may be silent to other requests meanwhile. */
const DECIDE_MS = 60_000;
const SILENT_MS = 2_000;
/** Refusals of a moment. */
const PASSING: ReadonlySet<string | undefined> = new Set(["overloaded", "stopping"]);

interface AskOptions extends RequestInit {
  headers?: Record<string, string>;
  deadline_ms: number;
  /** Stands in the place of the session's token. */
  bearer?: string;
  /** Gives up when the broker is silent to other requests too. */
  unless_silent?: boolean;
}

export class Api {
  /** Of the session; none before there is one. */
  token: string | undefined;
  readonly #link: Link;
  readonly #onEnded: () => void;

  constructor({ link, onEnded }: ApiOptions) {
    this.#link = link;
    this.#onEnded = onEnded;
  }

  /** Begins a session with the code of an address; throws 401 when it is no longer valid. */
  async begin(code: string): Promise<string> {
    const options = { method: "POST", bearer: code, deadline_ms: READ_MS };
    const { token } = await again(() => this.#ask<{ token: string }>("/session", options, (answer) => answer.json()));
    return token;
  }

  async endSession(): Promise<void> {
    await this.#ask("/session/end", { method: "POST", deadline_ms: PULSE_MS }, () => Promise.resolve());
  }

  /** How many tasks wait, asked once: throws when the broker does not answer at once. */
  async pulse(): Promise<number> {
    const options = { deadline_ms: PULSE_MS };
    const { tasks } = await this.#ask<{ tasks: unknown[] }>("/admin/pending", options, (answer) => answer.json());
    return tasks.length;
  }

  async pending(signal: AbortSignal): Promise<PendingTask[]> {
    return (await this.#json<{ tasks: PendingTask[] }>("/admin/pending", signal)).tasks;
  }

  async tasks(options: { limit: number; before?: string; signal: AbortSignal }): Promise<TaskList> {
    const before = options.before === undefined ? "" : `&before=${encodeURIComponent(options.before)}`;
    return await this.#json(`/tasks?limit=${options.limit}${before}`, options.signal);
  }

  async task(id: string, signal: AbortSignal): Promise<TaskView> {
    return await this.#json(`/tasks/${id}`, signal);
  }

  /** What the broker established; undefined before there is anything. */
  async brief(id: string, signal: AbortSignal): Promise<TrustBrief | undefined> {
    try {
      return await this.#json(`/tasks/${id}/brief`, signal);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** What has happened to what the change was made from. */
  async bases(id: string, signal: AbortSignal): Promise<string[]> {
    return (await this.#json<{ notes: string[] }>(`/admin/tasks/${id}/bases`, signal, BASES_MS)).notes;
  }

  /** A page of the rows that it changed. */
  async databaseDiff(id: string, query: DatabaseDiffQuery, signal: AbortSignal): Promise<DatabaseRows> {
    const text = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
    return await this.#json(`/tasks/${id}/database-diff?${text}`, signal);
  }

  async diff(id: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = await this.#read(
      `/tasks/${id}/diff`,
      { signal, deadline_ms: READ_MS },
      (answer) => answer.arrayBuffer(),
    );
    return new Uint8Array(bytes);
  }

  async approve(
    id: string,
    request: { diff_sha256: string; acknowledge: string[]; seen: Seen; decide?: DecideRequest },
  ): Promise<void> {
    await this.#post(`/admin/tasks/${id}/approve`, request, nothing);
  }

  async end(id: string, how: "deny" | "kill", reason: string): Promise<void> {
    await this.#post(`/admin/tasks/${id}/${how}`, { reason }, nothing);
  }

  async push(id: string, decide?: DecideRequest): Promise<void> {
    await this.#post(`/admin/tasks/${id}/push`, decide === undefined ? {} : { decide }, nothing);
  }

  async retry(id: string): Promise<{ id: string }> {
    return await this.#post<{ id: string }>(`/tasks/${id}/retry`, {}, (answer) => answer.json());
  }

  /** Follows a task until its result, connecting again and going on where it stopped; throws what the broker refuses. */
  async follow(id: string, { after, signal, onEvent }: FollowEventsOptions): Promise<void> {
    let last = String(after);
    const take = async ({ status, body }: Response, progress: () => void): Promise<boolean> => {
      // Nothing more is to come.
      if (status === 204) return true;
      const events: ServerSentEvent[] = [];
      const parser = new EventParser((event) => events.push(event));
      progress();
      for await (const chunk of body ?? []) {
        progress();
        parser.push(chunk);
        for (const event of events.splice(0)) {
          if (event.event === "error") throw new ApiError(500, JSON.parse(event.data));
          if (event.id !== undefined) last = event.id;
          const view = { event: event.event, data: JSON.parse(event.data) } as TaskEventView;
          onEvent(view, event.id === undefined ? undefined : Number(event.id));
          if (event.event === "result") return true;
        }
      }
      return false;
    };
    for (let ended = 0; !signal.aborted; ended++) {
      const ask = () => {
        const headers = { accept: "text/event-stream", "last-event-id": last };
        return this.#ask(`/tasks/${id}/events`, { signal, headers, deadline_ms: STREAM_IDLE_MS }, take);
      };
      if (await again(ask, signal)) return;
      // A stream that ends is one of a broker that stops.
      await pause(retryMs(ended), signal);
    }
  }

  async #json<T>(path: string, signal: AbortSignal, deadline_ms = READ_MS): Promise<T> {
    return await this.#read<T>(path, { signal, deadline_ms }, (answer) => answer.json());
  }

  async #read<T>(
    path: string,
    options: AskOptions & { signal: AbortSignal },
    take: (answer: Response) => Promise<T>,
  ): Promise<T> {
    return await again(() => this.#ask(path, options, take), options.signal);
  }

  async #post<T>(path: string, body: unknown, take: (answer: Response) => Promise<T>): Promise<T> {
    return await this.#ask(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      deadline_ms: DECIDE_MS,
      unless_silent: true,
    }, take);
  }

  /** Asks once. `take` reads the answer, and may call `progress` to begin the deadline anew. */
  async #ask<T>(
    path: string,
    options: AskOptions,
    take: (answer: Response, progress: () => void) => Promise<T>,
  ): Promise<T> {
    const { deadline_ms, bearer = this.token, unless_silent = false, signal, ...init } = options;
    const late = new AbortController();
    let timer = setTimeout(() => late.abort(), deadline_ms);
    const progress = () => {
      this.#link.answered();
      clearTimeout(timer);
      timer = setTimeout(() => late.abort(), deadline_ms);
    };
    const silent = unless_silent
      ? setInterval(() => (this.#link.silence?.lost_ms ?? 0) > SILENT_MS && late.abort(), SILENT_MS / 4)
      : undefined;
    try {
      const answer = await fetch(path, {
        ...init,
        headers: { ...init.headers, ...bearer === undefined ? {} : { authorization: `Bearer ${bearer}` } },
        signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
        credentials: "omit",
        redirect: "error",
      });
      if (answer.ok) {
        const taken = await take(answer, progress);
        this.#link.answered();
        return taken;
      }
      const problem = await answer.json().catch(() => ({}));
      this.#link.answered();
      if (answer.status === 401 && bearer === this.token) this.#onEnded();
      throw new ApiError(answer.status, problem);
    } catch (error) {
      if (error instanceof ApiError || signal?.aborted) throw error;
      this.#link.failed(late.signal.aborted ? "no answer" : "no connection");
      throw new ApiError(0, { detail: "The broker did not answer" });
    } finally {
      clearTimeout(timer);
      clearInterval(silent);
    }
  }
}

const nothing = () => Promise.resolve();

function retryMs(attempt: number): number {
  return RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]!;
}

/** What `ask` comes to once the broker answers it. */
async function again<T>(ask: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 0;; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== 0 && !PASSING.has(error.problem.code)) throw error;
      await pause(retryMs(attempt), signal);
      signal?.throwIfAborted();
    }
  }
}

async function pause(ms: number, signal?: AbortSignal | null): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}

/** SHA-256 in hex. */
export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
