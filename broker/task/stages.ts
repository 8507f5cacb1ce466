/**
 * The way of a task as one table: its stages, the moves between them, the outcomes it
 * may end with from each, and what a broker does that finds a task there when it starts.
 * The types of moves come from the table, so that a move which the table does not have
 * does not compile; {@linkcode assertMove} says the same of rows that are read back.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { COUNT, SHA256, WORD, WORDS } from "./values.ts";

/** The outcomes of a task, with their meaning. */
export const OUTCOMES = {
  pushed: "the change is on the code host",
  promoted: "the change to databases is in the branch store; no file was changed",
  no_diff: "the agent changed nothing",
  denied: "the change was refused at the gate, by a person or by approval_timeout",
  cancelled: "a person ended the task",
  timed_out: "the task ran longer than task_timeout",
  setup_failed: "the task could not be prepared; the agent never ran",
  agent_failed: "the agent, or what it ran in, failed",
  policy_blocked: "the change breaks the diff policy",
  push_failed: "the change was approved and could not be pushed",
} as const;

/** The outcome of a task. */
export type Outcome = keyof typeof OUTCOMES;

/** What a starting broker does with a task that it finds in a stage. */
export type AtRestart =
  /** What was under way is lost: the task ends so. */
  | { kind: "fail"; outcome: "setup_failed" | "agent_failed" }
  /** Nothing was under way: it stays as it is. */
  | { kind: "keep" }
  /** Whether it happened is known by looking at the remote. */
  | { kind: "look" }
  /** The watch goes on. */
  | { kind: "resume" };

interface StageRow {
  readonly meaning: string;
  /** Where it may go next, except `done`. */
  readonly next: readonly string[];
  /** What it may end with from here. */
  readonly ends: readonly Outcome[];
  readonly at_restart: AtRestart;
}

export const STAGES = {
  admission: {
    meaning: "accepted, not begun",
    next: ["staging"],
    ends: ["setup_failed", "cancelled"],
    at_restart: { kind: "fail", outcome: "setup_failed" },
  },
  staging: {
    meaning: "the repository is being cloned",
    next: ["setting_up", "running"],
    ends: ["setup_failed", "cancelled", "timed_out"],
    at_restart: { kind: "fail", outcome: "setup_failed" },
  },
  setting_up: {
    meaning: "the commands of the repository's profile run",
    next: ["running"],
    ends: ["setup_failed", "cancelled", "timed_out"],
    at_restart: { kind: "fail", outcome: "setup_failed" },
  },
  running: {
    meaning: "the agent works",
    next: ["collecting"],
    ends: ["agent_failed", "cancelled", "timed_out"],
    at_restart: { kind: "fail", outcome: "agent_failed" },
  },
  collecting: {
    meaning: "the broker computes the change and holds it against the policy",
    next: ["awaiting_approval"],
    ends: ["no_diff", "policy_blocked", "agent_failed", "cancelled", "timed_out"],
    at_restart: { kind: "fail", outcome: "agent_failed" },
  },
  awaiting_approval: {
    meaning: "a person has to approve or deny the change",
    next: ["pushing"],
    ends: ["denied", "cancelled"],
    at_restart: { kind: "keep" },
  },
  pushing: {
    meaning: "the approved change is being pushed",
    next: ["awaiting_ci"],
    ends: ["pushed", "promoted", "push_failed"],
    at_restart: { kind: "look" },
  },
  awaiting_ci: {
    meaning: "the change is pushed and its checks are watched",
    next: [],
    ends: ["pushed"],
    at_restart: { kind: "resume" },
  },
  done: {
    meaning: "ended, with an outcome",
    next: [],
    ends: [],
    at_restart: { kind: "keep" },
  },
} as const satisfies Readonly<Record<string, StageRow>>;

/** The stage of a task. */
export type Stage = keyof typeof STAGES;

/** What a person decides on at the gate. */
export const GATE = v.strictObject({
  /** SHA-256 of the diff, in hex: what is approved is this and nothing else. */
  diff_sha256: SHA256,
  /** Categories that the approver has to acknowledge. */
  second_look: WORDS,
  /** Milliseconds until the task is denied without an answer; 0 is never. */
  timeout_ms: COUNT,
});
/** See {@linkcode GATE}. */
export type Gate = v.InferOutput<typeof GATE>;

/** A person's consent, with the categories that they acknowledged. */
export const APPROVAL = v.strictObject({ diff_sha256: SHA256, acknowledged: WORDS });
export type Approval = v.InferOutput<typeof APPROVAL>;

/** What was pushed. */
export const PUSHED = v.strictObject({
  branch: WORD,
  commit: WORD,
  /** URL of the pull request, when one was opened. */
  pull_request: v.exactOptional(WORD),
});
/** See {@linkcode PUSHED}. */
export type Pushed = v.InferOutput<typeof PUSHED>;

type Next<S extends Stage> = (typeof STAGES)[S]["next"][number];
type Ending<S extends Stage> = (typeof STAGES)[S]["ends"][number];

/** What a move has to carry. */
type Cargo<T extends Stage> = T extends "awaiting_approval" ? { gate: Gate }
  : T extends "awaiting_ci" ? { pushed: Pushed }
  : T extends "pushing" ? { approval: Approval }
  : unknown;

type Step<S extends Stage, T extends Next<S>> = T extends Stage ? { from: S; to: T } & Cargo<T> : never;
type End<S extends Stage, O extends Ending<S>> = O extends "pushed"
  ? { from: S; to: "done"; outcome: O; reason: string; pushed: Pushed }
  : O extends Outcome ? { from: S; to: "done"; outcome: O; reason: string }
  : never;

/** A move that the table allows. */
export type Move = { [S in Stage]: Step<S, Next<S>> | End<S, Ending<S>> }[Stage];

/** A move as it is read back: any of them, checked by {@linkcode assertMove}. */
export interface LooseMove {
  from: Stage;
  to: Stage;
  outcome?: Outcome | undefined;
  reason?: string | undefined;
  gate?: Gate | undefined;
  approval?: Approval | undefined;
  pushed?: Pushed | undefined;
}

/** Whether `text` is a stage. */
export function isStage(text: string): text is Stage {
  return Object.hasOwn(STAGES, text);
}

/** The rule that `move` breaks, from a task in `stage`; undefined when it breaks none. */
export function moveProblem(stage: Stage, move: LooseMove): string | undefined {
  if (move.from !== stage) return `the task is in ${stage}, not in ${move.from}`;
  const row: StageRow = STAGES[stage];
  const required: Set<string> = new Set();
  if (move.to === "done") {
    if (move.outcome === undefined || !row.ends.includes(move.outcome)) {
      return `a task in ${stage} cannot end as ${move.outcome ?? "nothing"}`;
    }
    required.add("outcome").add("reason");
    if (move.outcome === "pushed") required.add("pushed");
  } else {
    if (!row.next.includes(move.to)) return `there is no way from ${stage} to ${move.to}`;
    if (move.to === "awaiting_approval") required.add("gate");
    if (move.to === "awaiting_ci") required.add("pushed");
    if (move.to === "pushing") required.add("approval");
  }
  for (const name of ["outcome", "reason", "gate", "approval", "pushed"] as const) {
    if ((move[name] !== undefined) !== required.has(name)) {
      return `the move from ${stage} to ${move.to} ${required.has(name) ? "needs" : "takes no"} ${name}`;
    }
  }
  return undefined;
}

/**
 * Refuses a move that the table does not have.
 *
 * @throws {TaskdError} `conflict`, naming the task's stage.
 */
export function assertMove(task_id: string, stage: Stage, move: LooseMove): void {
  const problem = moveProblem(stage, move);
  if (problem === undefined) return;
  throw new TaskdError("conflict", `Cannot move the task ${task_id} to ${move.outcome ?? move.to}: ${problem}`, {
    hint: `Look at it with \`taskd inspect ${task_id.slice(0, 12)}\``,
  });
}
