/**
 * What a torture run counts, and what it holds against a database that was read.
 */

import { EXPECTED_MONEY, type Findings } from "../support/writers/oracle.ts";

/** What was done, for the report. */
export interface TortureSummary {
  rounds: number;
  acknowledged: number;
  writers_killed: number;
  daemons_killed: number;
  bounces: number;
  /** Checkpoints and VACUUMs of applications beside their writers that succeeded. */
  maintained: number;
  flushes: number;
  checkpoints: number;
  forks: number;
  destroyed: number;
  merges: number;
  /** Read-only checkouts. */
  checkouts: number;
  /** Compactions, rollbacks and promotions between rounds. */
  moves: number;
  /** Calls that had to be repeated because writers left no gap. */
  busy: number;
  /** Calls that had to be repeated because garbage was collected under them. */
  conflicts: number;
}

/** Nothing yet. */
export function emptySummary(): TortureSummary {
  return {
    rounds: 0,
    acknowledged: 0,
    writers_killed: 0,
    daemons_killed: 0,
    bounces: 0,
    maintained: 0,
    flushes: 0,
    checkpoints: 0,
    forks: 0,
    destroyed: 0,
    merges: 0,
    checkouts: 0,
    moves: 0,
    busy: 0,
    conflicts: 0,
  };
}

/** The file is intact, and no transaction is in it by half. */
export function sound(findings: Findings, what: string): void {
  if (findings.integrity !== "ok") throw new Error(`${what}: integrity_check says ${findings.integrity}`);
  if (findings.money !== EXPECTED_MONEY) {
    throw new Error(`${what}: a transaction was torn, accounts sum ${findings.money}`);
  }
}

/** Every acknowledged commit is in it. */
export function holds(findings: Findings, acknowledged: Map<number, number[]>, what: string): void {
  for (const [writer, list] of acknowledged) {
    const missing = list.filter((seq) => !findings.acknowledged.get(writer)?.has(seq));
    if (missing.length > 0) throw new Error(`${what} lacks acknowledged commits ${missing} of writer ${writer}`);
  }
}

/** A checkpoint holds, of each writer, everything up to some commit and nothing after it. */
export function prefix(early: Findings, late: Findings): void {
  for (const [writer, set] of early.acknowledged) {
    const last = Math.max(...set);
    const expected = [...late.acknowledged.get(writer) ?? []].filter((seq) => seq <= last);
    if (expected.length !== set.size) throw new Error(`a checkpoint has a hole in the commits of writer ${writer}`);
  }
}
