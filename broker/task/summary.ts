/**
 * What lists show of a task: a few hundred bytes of its record, so that a hundred thousand fit in memory.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { SpendFigures, TaskRecord, TaskSummary } from "./schema.ts";

const LISTED_CHARS = 160;

function listed(text: string): string {
  const line = sanitizeLine(text.slice(0, LISTED_CHARS));
  return text.length > LISTED_CHARS ? `${line}…` : line;
}

function withoutTokens(
  { input_tokens: _in, output_tokens: _out, ...spend }: SpendFigures,
): NonNullable<TaskSummary["spend"]> {
  return spend;
}

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
    ...(spend === undefined ? {} : { spend: withoutTokens(spend) }),
    ...(claimed_usd === undefined || spend !== undefined ? {} : { claimed_usd }),
    ...(retry_of === undefined ? {} : { retry_of }),
    ...(ci_attempt === undefined ? {} : { ci_attempt }),
    ...(queue_id === undefined ? {} : { queue_id }),
  };
}
