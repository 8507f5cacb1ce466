/**
 * The broker's HTTP interface, as the pages use it. The token is held here, in memory, and goes out as a header only.
 */

import type { PendingTask, Problem, TaskEventView, TaskList, TaskView } from "../../api/wire.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../../task/row_pages.ts";
import type { DecideRequest } from "../../task/database_schema.ts";
import type { TrustBrief } from "../../task/schema.ts";
import type { Seen } from "../../task/stages.ts";
import { EventParser, type ServerSentEvent } from "../../../lib/http/server_sent_events.ts";

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
  onLink(up: boolean): void;
}

/** Between attempts to connect again, in milliseconds; the last one is repeated. */
const RETRY_MS = [500, 1_000, 2_000, 5_000];
/** How often a read without an answer is asked again, and after how many milliseconds. */
const READ_RETRIES = 2;
const READ_RETRY_MS = 250;

export class Api {
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
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
    return (await this.#json<{ notes: string[] }>(`/admin/tasks/${id}/bases`, signal)).notes;
  }

  /** A page of the rows that it changed. */
  async databaseDiff(id: string, query: DatabaseDiffQuery, signal: AbortSignal): Promise<DatabaseRows> {
    const text = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
    return await this.#json(`/tasks/${id}/database-diff?${text}`, signal);
  }

  async diff(id: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await (await this.#send(`/tasks/${id}/diff`, { signal })).arrayBuffer());
  }

  async approve(
    id: string,
    request: { diff_sha256: string; acknowledge: string[]; seen: Seen; decide?: DecideRequest },
  ): Promise<void> {
    await this.#post(`/admin/tasks/${id}/approve`, request);
  }

  async end(id: string, how: "deny" | "kill", reason: string): Promise<void> {
    await this.#post(`/admin/tasks/${id}/${how}`, { reason });
  }

  async push(id: string, decide?: DecideRequest): Promise<void> {
    await this.#post(`/admin/tasks/${id}/push`, decide === undefined ? {} : { decide });
  }

  async retry(id: string): Promise<{ id: string }> {
    return await (await this.#post(`/tasks/${id}/retry`, {})).json();
  }

  /** Follows a task until its result, connecting again and going on where it stopped; throws what the broker refuses. */
  async follow(id: string, { after, signal, onEvent, onLink }: FollowEventsOptions): Promise<void> {
    let last = String(after);
    for (let failures = 0; !signal.aborted;) {
      try {
        const headers = { accept: "text/event-stream", "last-event-id": last };
        const { status, body } = await this.#send(`/tasks/${id}/events`, { signal, headers });
        onLink(true);
        // Nothing more is to come.
        if (status === 204) return;
        const events: ServerSentEvent[] = [];
        const parser = new EventParser((event) => events.push(event));
        for await (const chunk of body ?? []) {
          parser.push(chunk);
          for (const event of events.splice(0)) {
            failures = 0;
            if (event.event === "error") throw new ApiError(500, JSON.parse(event.data));
            if (event.id !== undefined) last = event.id;
            const view = { event: event.event, data: JSON.parse(event.data) } as TaskEventView;
            onEvent(view, event.id === undefined ? undefined : Number(event.id));
            if (event.event === "result") return;
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        // The broker cannot serve the events, now or later: another attempt would find the same.
        if (error instanceof ApiError && error.status >= 400 && error.status <= 500) {
          onLink(true);
          throw error;
        }
      }
      if (signal.aborted) return;
      onLink(false);
      await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]!, signal);
    }
  }

  async #json<T>(path: string, signal: AbortSignal): Promise<T> {
    return await (await this.#send(path, { signal })).json();
  }

  async #post(path: string, body: unknown): Promise<Response> {
    return await this.#send(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  async #send(path: string, options: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
    const response = await this.#answer(path, options);
    if (response.ok) return response;
    throw new ApiError(response.status, await response.json().catch(() => ({})));
  }

  /** What the broker answers. A read is asked again: browsers end every request when the machine's network changes. */
  async #answer(path: string, options: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
    for (let attempt = 0;; attempt++) {
      try {
        return await fetch(path, {
          ...options,
          headers: { ...options.headers, authorization: `Bearer ${this.#token}` },
          credentials: "omit",
          redirect: "error",
        });
      } catch (error) {
        if (options.signal?.aborted) throw error;
        if (options.method === undefined && attempt < READ_RETRIES) {
          await pause(READ_RETRY_MS, options.signal);
          continue;
        }
        throw new ApiError(0, { detail: "The broker does not answer", hint: "Start it with taskd start" });
      }
    }
  }
}

async function pause(ms: number, signal?: AbortSignal | null): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

/** SHA-256 in hex. */
export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
