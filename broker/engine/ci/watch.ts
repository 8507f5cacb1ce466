/**
 * Watches the checks of a pushed change: one look at its pull request each interval, until they conclude or the
 * deadline passes. The deadline is absolute and counts from the push, also across restarts and when the wall clock is
 * set back. The task ends as pushed whatever the checks say; what they said is in its trace, and a failure may begin a
 * bounded chain of retries, each at most once however often the broker dies.
 */

import { type Clock, type RandomBytes, systemRandom } from "../../../lib/clock.ts";
import { hasCode, messageWithHint } from "../../../lib/errors.ts";
import type { CiWatch, EngineOperations } from "../engine_deps.ts";
import { parseRepo } from "../../git/repo_url.ts";
import type { CheckRun } from "../../git/pull_request_checks.ts";
import type { Gh } from "../../git/gh.ts";
import type { Log } from "../../../lib/log.ts";
import { NO_CI_CONCLUSION } from "../../task/recover.ts";
import type { CiObservation } from "../../task/schema.ts";
import type { Task } from "../../task/task.ts";
import type { TaskStore } from "../../task/task_store.ts";
import { dispatchFloor, evaluateChecks } from "./evaluate_checks.ts";
import { retryRequest } from "./retry.ts";

export interface WatchOptions {
  poll_interval_ms: number;
  watch_timeout_ms: number;
  max_attempts: number;
  code_host: Pick<Gh, "viewPullRequest">;
  tasks: Pick<TaskStore, "list" | "read">;
  engine: Pick<EngineOperations, "submit">;
  log: Log;
  clock: Clock;
  random?: RandomBytes;
}

interface Seen {
  observation: CiObservation;
  checks: readonly CheckRun[];
}

export class CheckWatch implements CiWatch {
  readonly #options: WatchOptions;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Stays with a task in `awaiting_ci` until it has ended, or until `signal`; what goes wrong is logged. */
  async watch(task: Task, signal: AbortSignal): Promise<void> {
    const { log, clock, poll_interval_ms } = this.#options;
    while (!signal.aborted) {
      try {
        return await this.#watch(task, signal);
      } catch (error) {
        if (signal.aborted) return;
        log("error", "ci_watch_failed", `Cannot go on watching: ${messageWithHint(error)}`, { task_id: task.id });
        // A disk that is full for a while must not leave the task in the air; anything else is the next broker's.
        if (!hasCode(error, "no_space", "denied", "unavailable")) return;
        await clock.sleep(poll_interval_ms, signal).catch(() => {});
      }
    }
  }

  async #watch(task: Task, signal: AbortSignal): Promise<void> {
    const seen = await this.#conclude(task, signal);
    if (seen === undefined) return;
    if (seen.observation.state === "failed") await this.#retry(task, seen, signal);
    if (!signal.aborted) await this.#end(task, seen.observation);
  }

  /** Looks until there is a conclusion; undefined on `signal`. A conclusion in the trace is taken from there. */
  async #conclude(task: Task, signal: AbortSignal): Promise<Seen | undefined> {
    const { record } = task;
    const { poll_interval_ms, watch_timeout_ms, clock } = this.#options;
    if (record.ci !== undefined && record.ci.state !== "pending") return { observation: record.ci, checks: [] };
    const place = placeOf(task);
    if (typeof place === "string") return await this.#note(task, { state: "no_conclusion", detail: place }, []);
    const begun_ms = Date.parse(record.push_begun_at ?? record.stage_since);
    const opened_ms = clock.monotonic();
    // The wall clock counts through restarts; the monotonic one too, so that setting the clock back gains no time.
    const age = () => Math.max(clock.now() - begun_ms, clock.monotonic() - opened_ms);
    let complaint: string | undefined;
    for (;;) {
      const left_ms = watch_timeout_ms - age();
      if (left_ms <= 0) return await this.#note(task, { state: "no_conclusion", detail: NO_CI_CONCLUSION }, []);
      try {
        await clock.sleep(Math.min(poll_interval_ms, left_ms), signal);
      } catch (error) {
        if (signal.aborted) return undefined;
        throw error;
      }
      if (age() >= watch_timeout_ms) continue;
      const seen = await this.#look(place, age(), signal);
      if (signal.aborted) return undefined;
      if (typeof seen === "string") {
        // Once, and not at every look: a gh that is too old stays so.
        if (seen !== complaint) this.#options.log("warn", "ci_look_failed", seen, { task_id: task.id });
        complaint = seen;
        continue;
      }
      complaint = undefined;
      const noted = await this.#note(task, seen.observation, seen.checks);
      if (seen.observation.state !== "pending") return noted;
    }
  }

  /** One call of the code host; its complaint when it did not answer, which proves nothing. */
  async #look(place: Place, age_ms: number, signal: AbortSignal): Promise<Seen | string> {
    const { code_host, poll_interval_ms } = this.#options;
    try {
      const view = await code_host.viewPullRequest(place.repo, place.number, signal);
      const floor_ms = dispatchFloor(poll_interval_ms);
      return {
        observation: evaluateChecks(view, { commit: place.commit, age_ms, floor_ms }),
        checks: view.checks,
      };
    } catch (error) {
      return messageWithHint(error);
    }
  }

  async #note(task: Task, observation: CiObservation, checks: readonly CheckRun[]): Promise<Seen> {
    const known = task.record.ci;
    if (known?.state !== observation.state || known.detail !== observation.detail) {
      await task.append({ type: "ci", ...observation });
    }
    return { observation, checks };
  }

  async #end(task: Task, { state, detail }: CiObservation): Promise<void> {
    const { pushed } = task.record;
    if (pushed === undefined || task.record.stage !== "awaiting_ci") return;
    const reason = state === "no_conclusion" ? detail ?? NO_CI_CONCLUSION : `checks: ${state.replace("_", " ")}`;
    await task.move({ from: "awaiting_ci", to: "done", outcome: "pushed", reason, pushed });
  }

  /** Begins another attempt, unless the chain has had its share or there is one already. */
  async #retry(task: Task, { observation, checks }: Seen, signal: AbortSignal): Promise<void> {
    const { max_attempts, tasks, engine, clock, poll_interval_ms, random = systemRandom } = this.#options;
    const { record } = task;
    const ci_attempt = (record.ci_attempt ?? 0) + 1;
    if (ci_attempt > max_attempts) return;
    // Begun by a broker that died before it could end this task.
    const begun = tasks.list({ limit: Infinity }).some(({ retry_of, ci_attempt: attempt }) => {
      return retry_of === record.id && attempt === ci_attempt;
    });
    if (begun) return;
    const pull_request = record.pushed?.pull_request ?? "";
    const { detail = "" } = observation;
    const request = retryRequest(record, { instruction: this.#first(task), pull_request, checks, detail }, random);
    while (!signal.aborted) {
      let text: string | undefined;
      try {
        const { id } = await engine.submit(request, {
          retry_of: record.id,
          ci_attempt,
          ...(record.over_network && { over_network: true }),
          ...(record.submitted_by && { submitted_by: record.submitted_by }),
        });
        text = `retry ${ci_attempt} of ${max_attempts} began as ${id}`;
      } catch (error) {
        if (!hasCode(error, "at_capacity")) text = `retry ${ci_attempt} was refused: ${messageWithHint(error)}`;
      }
      if (text !== undefined) return void await task.append({ type: "note", text });
      await clock.sleep(poll_interval_ms, signal).catch(() => {});
    }
  }

  /** What was asked for at the head of the chain: a retry has the evidence of one attempt alone. */
  #first({ record }: Task): string {
    let at: { instruction: string; ci_attempt?: number; retry_of?: string } = record;
    for (let hops = at.ci_attempt ?? 0; hops > 0 && at.retry_of !== undefined; hops--) {
      try {
        at = this.#options.tasks.read(at.retry_of);
      } catch (error) {
        if (hasCode(error, "not_found")) break;
        throw error;
      }
    }
    return at.instruction;
  }
}

interface Place {
  repo: ReturnType<typeof parseRepo>;
  number: number;
  commit: string;
}

function placeOf({ record }: Task): Place | string {
  const { pushed } = record;
  const number = /\/pull\/([1-9]\d{0,9})$/.exec(pushed?.pull_request ?? "")?.[1];
  if (pushed === undefined || number === undefined) return "there is no pull request whose checks could be watched";
  return { repo: parseRepo(record.repo), number: Number(number), commit: pushed.commit };
}
