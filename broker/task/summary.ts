/**
 * What lists show of a task: a few hundred bytes of its record, so that a hundred
 * thousand fit in memory.
 *
 * @module
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { TaskRecord } from "./record.ts";
import type { Outcome, Stage } from "./stages.ts";

/** The most characters of a text in a list. */
const LISTED_CHARS = 160;

/** A task in a list. */
export interface TaskSummary {
  id: string;
  repo: string;
  /** The beginning of the instruction, on one line, safe to show. */
  instruction: string;
  agent: string;
  model?: string;
  stage: Stage;
  outcome?: Outcome;
  /** The beginning of the reason, on one line, safe to show. */
  reason?: string;
  /** ISO 8601 UTC. */
  created_at: string;
  updated_at: string;
  /** Metered by the broker; absent when nothing was metered. */
  spend?: { usd: number; requests: number; unmetered_requests: number; priced: boolean };
  /** The agent's own claim; absent where the broker has metered. */
  claimed_usd?: number;
  retry_of?: string;
  /** As in the order. */
  ci_attempt?: number;
  /** As in the order. */
  queue_id?: string;
}

function listed(text: string): string {
  const line = sanitizeLine(text.slice(0, LISTED_CHARS));
  return text.length > LISTED_CHARS ? `${line}…` : line;
}

/** What lists show of `record`. */
export function summarize(record: TaskRecord): TaskSummary {
  const { id, repo, agent, model, stage, outcome, reason, created_at, updated_at, spend, claimed_usd } = record;
  const { retry_of, ci_attempt, queue_id } = record;
  return {
    id,
    repo: listed(repo),
    instruction: listed(record.instruction),
    agent,
    ...(model === undefined ? {} : { model: listed(model) }),
    stage,
    ...(outcome === undefined ? {} : { outcome }),
    ...(reason === undefined ? {} : { reason: listed(reason) }),
    created_at,
    updated_at,
    ...(spend === undefined ? {} : {
      spend: {
        usd: spend.usd,
        requests: spend.requests,
        unmetered_requests: spend.unmetered_requests,
        priced: spend.priced,
      },
    }),
    ...(claimed_usd === undefined || spend !== undefined ? {} : { claimed_usd }),
    ...(retry_of === undefined ? {} : { retry_of }),
    ...(ci_attempt === undefined ? {} : { ci_attempt }),
    ...(queue_id === undefined ? {} : { queue_id }),
  };
}
