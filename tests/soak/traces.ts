/**
 * What a run has left on the disk, read with nothing of the product's own readers, so that a fault there cannot hide one
 * here.
 */

import { createHash } from "node:crypto";
import { plainGit } from "../broker/git/bench.ts";

/** What a task has spent, as its trace says. */
export interface Spent {
  usd: number;
  requests: number;
  unmetered_requests: number;
}

/** A trace. */
export interface Trace {
  id: string;
  instruction: string;
  repo: string;
  queue_id: string | undefined;
  /** When it was begun, and when it came to its end; where a broker was killed, when that one last wrote. */
  started_ms: number;
  ended_ms: number;
  /** Types of its rows; the first is row 1. */
  rows: string[];
  /** Stages that it came to, `done` included. */
  stages: string[];
  outcomes: string[];
  reason: string;
  /** What was approved. */
  approved_diff: string | undefined;
  /** The tree that the approved diff leads to, as the broker has noted it. */
  tree: string | undefined;
  base_commit: string | undefined;
  pushed: { branch: string; commit: string } | undefined;
  spent: Spent | undefined;
  /** What is wrong with its chain. */
  fault: string | undefined;
}

interface AnyRow {
  seq: number;
  ts: string;
  prev: string;
  type: string;
  task?: { id: string; instruction: string; repo: string; queue_id?: string };
  to?: string;
  outcome?: string;
  reason?: string;
  approval?: { diff_sha256: string };
  pushed?: { branch: string; commit: string };
  name?: string;
  value?: { tree?: string; base_commit?: string };
  spend?: Spent;
}

/** Every trace below `audit_root`. */
export function readTraces(audit_root: string): Trace[] {
  const names = [...Deno.readDirSync(audit_root)].map(({ name }) => name);
  return names.filter((name) => /^[0-9a-f]{32}\.jsonl$/.test(name)).map((name) => {
    return readTrace(name.slice(0, 32), Deno.readFileSync(`${audit_root}/${name}`));
  });
}

function readTrace(id: string, bytes: Uint8Array): Trace {
  const trace: Trace = {
    id,
    instruction: "",
    repo: "",
    queue_id: undefined,
    started_ms: 0,
    ended_ms: 0,
    rows: [],
    stages: [],
    outcomes: [],
    reason: "",
    approved_diff: undefined,
    tree: undefined,
    base_commit: undefined,
    pushed: undefined,
    spent: undefined,
    fault: undefined,
  };
  let prev = "0".repeat(64);
  for (let from = 0, seq = 1; from < bytes.length; seq++) {
    const end = bytes.indexOf(10, from);
    if (end < 0) {
      trace.fault ??= "its last row is torn";
      break;
    }
    const line = bytes.subarray(from, end + 1);
    const row = JSON.parse(new TextDecoder().decode(line)) as AnyRow;
    if (row.seq !== seq || row.prev !== prev) trace.fault ??= `row ${seq} does not follow the one before`;
    prev = createHash("sha256").update(line).digest("hex");
    from = end + 1;
    take(trace, row);
  }
  return trace;
}

function take(trace: Trace, row: AnyRow): void {
  trace.rows.push(row.type);
  const ts_ms = Date.parse(row.ts);
  if (row.type === "created") trace.started_ms = ts_ms;
  // The broker that found it after a kill has written the cut and the end.
  if (row.type !== "cut" && !isCrash(row.reason)) trace.ended_ms = ts_ms;
  if (row.type === "created" && row.task !== undefined) {
    const { instruction, repo, queue_id } = row.task;
    Object.assign(trace, { instruction, repo, queue_id });
    trace.stages.push("admission");
    if (row.task.id !== trace.id) trace.fault ??= "it is another task's";
  }
  if (row.type === "spend") trace.spent = row.spend;
  if (row.type === "evidence" && row.name === "change") trace.tree = row.value?.tree;
  if (row.type === "evidence" && row.name === "staged") trace.base_commit = row.value?.base_commit;
  if (row.type !== "stage") return;
  trace.stages.push(row.to!);
  if (row.outcome !== undefined) trace.outcomes.push(row.outcome);
  trace.reason = row.reason ?? trace.reason;
  trace.approved_diff = row.approval?.diff_sha256 ?? trace.approved_diff;
  trace.pushed = row.pushed ?? trace.pushed;
}

/** Whether a task was under way when its broker was killed, by the reason of its end. */
export function isCrash(reason = ""): boolean {
  return reason.startsWith("the broker stopped while the task was in ");
}

/** An item of the queue. */
export interface Item {
  id: string;
  state: string;
  task_id?: string;
  request: { instruction: string };
}

/** Every item of the queue. */
export function readQueue(directory: string): Item[] {
  return [...Deno.readDirSync(directory)].filter(({ name }) => name.endsWith(".json"))
    .map(({ name }) => JSON.parse(Deno.readTextFileSync(`${directory}/${name}`)));
}

/** What the ledger has of a task: the most that any of its lines knows. */
export function readLedger(audit_root: string): Map<string, number | null> {
  const spent = new Map<string, number | null>();
  for (const line of Deno.readTextFileSync(`${audit_root}/global/ledger.jsonl`).trimEnd().split("\n")) {
    const { kind, task_id, usd } = JSON.parse(line) as { kind: string; task_id: string; usd: number | null };
    if (kind === "damaged") throw new Error("the ledger has damaged lines");
    if (kind !== "start") continue;
    const before = spent.get(task_id) ?? null;
    spent.set(task_id, usd === null ? before : Math.max(before ?? 0, usd));
  }
  return spent;
}

/** A branch of a remote. */
export interface Branch {
  name: string;
  commit: string;
  parents: string;
  tree: string;
  /** What it changes: blob ids by path. */
  changes: Map<string, string>;
}

/** The branches of a bare repository that a broker has pushed. */
export async function readBranches(repository: string): Promise<Branch[]> {
  const format = "--format=%(refname:short) %(objectname) %(tree)";
  const text = await plainGit(repository, "for-each-ref", format, "refs/heads/agent");
  const branches: Branch[] = [];
  for (const line of text.split("\n").filter((line) => line !== "")) {
    const [name = "", commit = "", tree = ""] = line.split(" ");
    const parents = await plainGit(repository, "log", "-1", "--format=%P", commit);
    const raw = await plainGit(repository, "diff-tree", "-r", "--no-renames", "--no-abbrev", `${commit}^`, commit);
    const changes = new Map(
      raw.split("\n").map((line): [string, string] => {
        const [head = "", path = ""] = line.split("\t");
        return [path, head.split(" ")[3] ?? ""];
      }),
    );
    branches.push({ name, commit, parents, tree, changes });
  }
  return branches;
}

/** Git's id of a blob. */
export function blobId(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
}
