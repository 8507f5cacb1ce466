/**
 * Audit directories as brokers of the past left them: any number of finished tasks with
 * true traces, and their index, made from a seed.
 */

import { newTaskId } from "../../broker/task/ids.ts";
import { summarize } from "../../broker/task/summary.ts";
import type { TaskEvent } from "../../broker/task/rows.ts";
import type { Outcome } from "../../broker/task/stages.ts";
import { saveIndex, stamp, type TraceEntry } from "../../broker/task/task_index.ts";
import { tracePath } from "../../broker/task/trace.ts";
import { foldRows, plantTrace, SHA, someOrder, staged, START_MS, TO_THE_GATE } from "../broker/task/lives.ts";
import { SeededRandom } from "./writers/random.ts";

/** How an audit directory is made. */
export interface AuditDirectoryOptions {
  tasks: number;
  seed?: number;
  /** Whether a broker has closed it in good order. */
  indexed?: boolean;
  /** Milliseconds from one task to the next. */
  every_ms?: number;
}

/** Result of a finished task. */
interface Finished {
  id: string;
  outcome: Outcome;
  usd: number;
  /** Whether the broker metered anything. */
  metered: boolean;
}

const AGENTS = ["agent_a", "agent_b", "agent_c", "agent_d"] as const;

/** Fills `audit_root` with finished tasks, oldest first. */
export async function plantAuditDirectory(audit_root: string, options: AuditDirectoryOptions): Promise<Finished[]> {
  const { tasks, seed = 1, indexed = false, every_ms = 600_000 } = options;
  const random = new SeededRandom(seed);
  Deno.mkdirSync(audit_root, { recursive: true, mode: 0o700 });
  const entries = new Map<string, TraceEntry>();
  const finished: Finished[] = [];
  for (let n = 0; n < tasks; n++) {
    const task = someTask(random);
    finished.push(task);
    const rows = plantTrace(audit_root, lifeOf(task, random), START_MS + n * every_ms);
    if (!indexed) continue;
    const last = rows.at(-1)!;
    const bytes = rows.reduce((sum, { line }) => sum + line.length, 0);
    const record = foldRows(rows.map(({ row }) => row));
    const head = { seq: rows.length, sha256: last.sha256, bytes };
    entries.set(task.id, { head, ...stamp(tracePath(audit_root, task.id))!, summary: summarize(record) });
  }
  if (indexed) await saveIndex(audit_root, entries);
  return finished;
}

function someTask(random: SeededRandom): Finished {
  const outcome = random.pick<Outcome>(["pushed", "pushed", "pushed", "no_diff", "denied", "agent_failed"]);
  // Cents, so that sums in any order are alike.
  return { id: newTaskId(random.bytes), outcome, usd: random.between(0, 512) / 256, metered: random.chance(0.9) };
}

function lifeOf({ id, outcome, usd, metered }: Finished, random: SeededRandom): TaskEvent[] {
  const repo = `https://example.com/team/${random.pick(["shop", "api", "site"])}`;
  const events: TaskEvent[] = [
    { type: "created", task: someOrder(id, { repo, agent: random.pick(AGENTS) }) },
    ...TO_THE_GATE.slice(0, 2).map(staged),
    { type: "claimed", usd: 77 },
  ];
  if (metered) {
    const spend = { usd, requests: 8, unmetered_requests: 0, input_tokens: 9_000, output_tokens: 700, priced: true };
    events.push({ type: "spend", spend });
  }
  const reason = "as it happens";
  if (outcome === "agent_failed") return [...events, staged({ from: "running", to: "done", outcome, reason })];
  events.push(staged(TO_THE_GATE[2]!));
  if (outcome === "no_diff") return [...events, staged({ from: "collecting", to: "done", outcome, reason })];
  events.push(staged({ from: "collecting", to: "awaiting_approval", gate: GATE }));
  if (outcome === "denied") return [...events, staged({ from: "awaiting_approval", to: "done", outcome, reason })];
  const approval = { diff_sha256: SHA, acknowledged: [] };
  events.push(staged({ from: "awaiting_approval", to: "pushing", approval }));
  const pushed = { branch: `agent/${id}`, commit: "c".repeat(40) };
  return [...events, staged({ from: "pushing", to: "done", outcome: "pushed", reason, pushed })];
}

const GATE = { diff_sha256: SHA, second_look: [], timeout_ms: 0 };
