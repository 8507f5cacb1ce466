/**
 * The way of a task as one table: its stages, the moves between them, the outcomes it may end with from each, and what
 * a broker does that finds a task there when it starts. The types of moves come from the table, so that a move which
 * the table does not have does not compile; {@linkcode assertMove} says the same of rows that are read back.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { BINDING } from "./binding.ts";
import { DATABASE_CONFLICTS, type Decision, DECISIONS } from "./database_schema.ts";
import { COUNT, SHA256, TEXT, WORD, WORDS } from "./value_schemas.ts";

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
  push_failed: "the change was approved and could not be pushed; brokers up to 0.1.0 gave up so",
} as const;

/** The outcome of a task. */
export type Outcome = keyof typeof OUTCOMES;

/** What a starting broker does with a task that it finds in a stage. */
export type AtRestart =
  /** What was under way is lost: the task ends so. */
  | { kind: "fail"; outcome: "setup_failed" | "agent_failed" }
  /** Nothing was under way: it stays as it is. */
  | { kind: "keep" }
  /** It was approved: what the remote and the branch store do not have yet goes there. */
  | { kind: "push" }
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
    next: ["awaiting_approval", "push_failed", "data_waits", "awaiting_ci"],
    ends: ["pushed", "promoted", "push_failed"],
    at_restart: { kind: "push" },
  },
  push_failed: {
    meaning: "the approved change could not be pushed; it is kept, and waits for another round",
    next: ["pushing"],
    ends: ["cancelled"],
    at_restart: { kind: "push" },
  },
  data_waits: {
    meaning: "the change is pushed; its databases are kept, and wait for another round",
    next: ["pushing"],
    ends: ["pushed"],
    at_restart: { kind: "push" },
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
  /** The digest of `binding`: what is approved is this and nothing else. */
  diff_sha256: SHA256,
  /** Categories that the approver has to acknowledge. */
  second_look: WORDS,
  /** Milliseconds until the task is denied without an answer; 0 is never. */
  timeout_ms: COUNT,
  /** What was found in conflict when the change was approved before and was to land; decided with the next approval. */
  conflicts: v.exactOptional(v.array(DATABASE_CONFLICTS)),
  /** Everything that the digest covers; absent from gates of versions up to 0.1.0. */
  binding: v.exactOptional(BINDING),
});
export type Gate = v.InferOutput<typeof GATE>;

/** What was shown: the brief, files in the order of the diff, rows of a table in the order of the brief. */
export const SEEN = v.pipe(
  v.array(v.strictObject({
    part: v.picklist(["brief", "files", "rows"]),
    /** Of rows: `<db>@<base> <table>`. */
    name: v.exactOptional(v.pipe(v.string(), v.maxLength(512))),
    /** The first and the last, from 1, and how many there are in all. */
    from: COUNT,
    to: COUNT,
    of: COUNT,
  })),
  v.maxLength(512),
);
export type Seen = v.InferOutput<typeof SEEN>;

/** A person's consent, with the categories that they acknowledged. */
export const APPROVAL = v.strictObject({
  diff_sha256: SHA256,
  acknowledged: WORDS,
  /** What was shown before, as the client reports it. */
  seen: v.exactOptional(SEEN),
  /** What they decided of the gate's conflicts, one by one. */
  decisions: v.exactOptional(DECISIONS),
});
export type Approval = v.InferOutput<typeof APPROVAL>;

/** Who decided, and from where: as far as a listener knows of its clients. */
export const DECIDER = v.strictObject({
  /** The command line is one of the clients of the unix socket, by what it says it is. */
  via: v.picklist(["command line", "socket", "HTTP", "page", "approval_timeout"]),
  /** Who can come in there. */
  who: v.pipe(v.string(), v.maxLength(256)),
});
export type Decider = v.InferOutput<typeof DECIDER>;

/** What was pushed. */
export const PUSHED = v.strictObject({
  branch: WORD,
  commit: WORD,
  /** URL of the pull request, when one was opened. */
  pull_request: v.exactOptional(WORD),
});
export type Pushed = v.InferOutput<typeof PUSHED>;

/** Stages in which an approved change is kept until it has landed or a person gives it up. */
export type WaitingStage = "push_failed" | "data_waits";

/** Whether an approved change waits in `stage` for another round. */
export function isWaiting(stage: Stage): stage is WaitingStage {
  return stage === "push_failed" || stage === "data_waits";
}

type Next<S extends Stage> = (typeof STAGES)[S]["next"][number];
type Ending<S extends Stage> = (typeof STAGES)[S]["ends"][number];

/** What a move has to carry. */
type Cargo<S extends Stage, T extends Stage> = T extends "awaiting_approval"
  ? S extends "pushing" ? { gate: Gate; reason: string } : { gate: Gate }
  : T extends "awaiting_ci" ? { pushed: Pushed }
  : T extends "data_waits" ? { pushed: Pushed; reason: string }
  : T extends "push_failed" ? { reason: string }
  : T extends "pushing"
    ? S extends "awaiting_approval" ? { approval: Approval } : { reason: string; decisions?: Decision[] }
  : unknown;

type Step<S extends Stage, T extends Next<S>> = T extends Stage ? { from: S; to: T } & Cargo<S, T> : never;
type End<S extends Stage, O extends Ending<S>> = O extends "pushed"
  ? { from: S; to: "done"; outcome: O; reason: string; pushed: Pushed }
  : O extends Outcome ? { from: S; to: "done"; outcome: O; reason: string }
  : never;

/** A move that the table allows; with who decided on it, where a person did. */
export type Move = { [S in Stage]: Step<S, Next<S>> | End<S, Ending<S>> }[Stage] & { by?: Decider };

export const STAGE = v.picklist(Object.keys(STAGES) as Stage[]);
export const OUTCOME = v.picklist(Object.keys(OUTCOMES) as Outcome[]);

/** A move as it is read back: any of them, checked by {@linkcode assertMove}. */
export const LOOSE_MOVE = v.strictObject({
  from: STAGE,
  to: STAGE,
  outcome: v.exactOptional(OUTCOME),
  reason: v.exactOptional(TEXT),
  gate: v.exactOptional(GATE),
  approval: v.exactOptional(APPROVAL),
  pushed: v.exactOptional(PUSHED),
  by: v.exactOptional(DECIDER),
  decisions: v.exactOptional(DECISIONS),
});
export type LooseMove = v.InferOutput<typeof LOOSE_MOVE>;

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
    if (move.to === "awaiting_ci" || move.to === "data_waits") required.add("pushed");
    if (isWaiting(move.to) || isWaiting(stage) || stage === "pushing" && move.to === "awaiting_approval") {
      required.add("reason");
    }
    if (move.to === "pushing" && !isWaiting(stage)) required.add("approval");
  }
  for (const name of ["outcome", "reason", "gate", "approval", "pushed"] as const) {
    if ((move[name] !== undefined) !== required.has(name)) {
      return `the move from ${stage} to ${move.to} ${required.has(name) ? "needs" : "takes no"} ${name}`;
    }
  }
  const decided = stage === "awaiting_approval" || isWaiting(stage) || move.outcome === "cancelled";
  if (move.by !== undefined && !decided) return `no one decides in ${stage}`;
  if (move.decisions !== undefined && !isWaiting(stage)) return `no conflict is decided in ${stage}`;
  return undefined;
}

/** Refuses a move that the table does not have; throws `conflict`, naming the task's stage. */
export function assertMove(task_id: string, stage: Stage, move: LooseMove): void {
  const problem = moveProblem(stage, move);
  if (problem === undefined) return;
  throw new TaskdError("conflict", `Cannot move the task ${task_id} to ${move.outcome ?? move.to}: ${problem}`, {
    hint: `Look at it with \`taskd inspect ${task_id.slice(0, 12)}\``,
  });
}
