/**
 * Tries promises one after the other and reports the result of each. Each has a deadline; one that does not end, throws,
 * or tries nothing is reported as a hole, because then it is unknown whether it holds.
 */

import type { Clock } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import type { RedteamContext } from "./context.ts";
import { ControlFailed, type SecurityPromise, Skipped, Trial } from "./security_promise.ts";

/** How long the attempts at one promise may take; a container on a slow disk is the slowest of them. */
const PROMISE_DEADLINE_MS = 60_000;
const MAX_HOLES = 20;

export type PromiseVerdict = "held" | "hole" | "skipped";

export interface TriedPromise {
  id: string;
  group: string;
  promise: string;
  verdict: PromiseVerdict;
  attempts: number;
  /** What went through; the first {@linkcode MAX_HOLES}. */
  holes: string[];
  why?: string;
}

export interface RedteamReport {
  promises: TriedPromise[];
  held: number;
  holes: number;
  skipped: number;
  attempts: number;
  duration_ms: number;
}

export interface RunOptions<Context = RedteamContext> {
  promises: readonly SecurityPromise<Context>[];
  context: Context;
  clock: Clock;
  signal?: AbortSignal | undefined;
  onBegin?: (promise: SecurityPromise<Context>) => void;
  onResult?: (tried: TriedPromise) => void;
  /** Other than {@linkcode PROMISE_DEADLINE_MS}. */
  deadline_ms?: number;
}

/** Tries them in order; throws `interrupted` when aborted. */
export async function runRedteam<Context>(options: RunOptions<Context>): Promise<RedteamReport> {
  const { promises, clock, signal, onBegin, onResult } = options;
  const began = clock.monotonic();
  const tried: TriedPromise[] = [];
  for (const promise of promises) {
    if (signal?.aborted) throw new TaskdError("interrupted", "Interrupted: not every promise was tried");
    onBegin?.(promise);
    const result = await tryPromise(promise, options);
    tried.push(result);
    onResult?.(result);
  }
  const count = (verdict: PromiseVerdict) => tried.filter((result) => result.verdict === verdict).length;
  return {
    promises: tried,
    held: count("held"),
    holes: count("hole"),
    skipped: count("skipped"),
    attempts: tried.reduce((sum, { attempts }) => sum + attempts, 0),
    duration_ms: Math.round(clock.monotonic() - began),
  };
}

export function groupOf({ id }: { id: string }): string {
  return id.slice(0, id.indexOf("."));
}

async function tryPromise<Context>(
  promise: SecurityPromise<Context>,
  options: RunOptions<Context>,
): Promise<TriedPromise> {
  const { context, clock, deadline_ms = PROMISE_DEADLINE_MS } = options;
  const trial = new Trial();
  const result = (verdict: PromiseVerdict, more: { holes?: string[]; why?: string } = {}): TriedPromise => ({
    id: promise.id,
    group: groupOf(promise),
    promise: promise.promise,
    verdict,
    attempts: trial.attempts,
    holes: [],
    ...more,
  });
  try {
    await withDeadline(Promise.resolve().then(() => promise.run(trial, context)), clock, deadline_ms);
  } catch (error) {
    if (error instanceof Skipped) return result("skipped", { why: error.message });
    return result("hole", { holes: [...reported(trial), unknown(error)] });
  }
  if (trial.holes.length > 0) return result("hole", { holes: reported(trial) });
  if (trial.attempts === 0) return result("hole", { holes: ["nothing was tried"] });
  return result("held");
}

function reported({ holes }: Trial): string[] {
  if (holes.length <= MAX_HOLES) return holes;
  return [...holes.slice(0, MAX_HOLES), `and ${holes.length - MAX_HOLES} more`];
}

function unknown(error: unknown): string {
  const text = messageOf(error);
  return error instanceof ControlFailed ? text : `it could not be tried to the end: ${text}`;
}
