/**
 * What a store has acknowledged, and so has to hold after a cut. Two names have the same content number exactly when they
 * have to hold the same; of an operation that was not answered either side may be there.
 */

import type { Findings } from "../support/writers/oracle.ts";

/** What each merge brings, as the commits of a writer of its own: all of them, or none. */
export const MERGED = { first: 10_000, rows: [1, 2, 3] };

/** Commits by writer. */
export type Commits = Map<number, readonly number[]>;

/** What is known of a branch without a session, or of a checkpoint. */
export interface Point {
  branch: string;
  checkpoint?: string;
  /** Numbers of the contents that it may have. */
  contents: number[];
  /** `maybe`: an operation that makes or removes it was not answered. */
  there: "yes" | "maybe" | "no";
  /** An operation on it is under way, or its content is not known any more. */
  taken?: boolean;
  protected?: boolean;
}

/** A branch with a session and writers. */
export interface LiveBranch {
  branch: string;
  checkout: string;
  /** Of the writers of the branch; `mixed`: each its own. */
  synchronous: "OFF" | "NORMAL" | "FULL" | "mixed";
  /** Acknowledged to its writers: grows. */
  acknowledged: Map<number, number[]>;
  /** Of these, those that an acknowledged flush, checkpoint, fork, promotion or close has to include. */
  flushed: Commits;
  /** Operations on it that are not answered. */
  under_way: number;
  /** Its session is being closed and opened again. */
  bouncing?: boolean;
}

/** Everything that was acknowledged. */
export class StoreModel {
  readonly live: LiveBranch[] = [];
  readonly points: Point[] = [];
  /** What each content has to include. */
  readonly contents: Commits[] = [];
  /** Databases whose making was answered. */
  readonly databases: string[] = [];
  /** Branches that a destroy was to keep: each is there, or a branch that keeps it is. */
  readonly destroyed: { branch: string; content: number }[] = [];
  /** Merges that were begun. */
  merges = 0;
  /** Acknowledgements of operations. */
  readonly acks: string[] = [];

  /** A content that includes at least these commits. */
  content(commits: Commits): number {
    return this.contents.push(commits) - 1;
  }

  /** Branches at rest that an operation may take. */
  resting(): Point[] {
    return this.points.filter(({ there, taken, checkpoint, contents }) =>
      there === "yes" && !taken && checkpoint === undefined && contents.length === 1
    );
  }

  /** Checkpoints of a branch that are certainly there. */
  checkpointsOf(branch: string): Point[] {
    return this.points.filter((point) =>
      point.branch === branch && point.checkpoint !== undefined && point.there === "yes"
    );
  }

  /** Whether an operation may have made a branch of this name. */
  knows(branch: string): boolean {
    return [...this.live, ...this.points].some((known) => known.branch === branch);
  }
}

/** The commits that are acknowledged now. */
export function soFar({ acknowledged }: LiveBranch): Commits {
  return new Map([...acknowledged].map(([writer, list]) => [writer, [...list]]));
}

/** Notes that everything in `commits` is flushed. */
export function noteFlushed(live: LiveBranch, commits: Commits): void {
  const flushed = new Map(live.flushed);
  for (const [writer, list] of commits) {
    if (list.length > (flushed.get(writer)?.length ?? 0)) flushed.set(writer, list);
  }
  live.flushed = flushed;
}

/** Merges of which a part is there, for a message; empty when there is none. */
export function torn({ acknowledged }: Findings): string {
  return [...acknowledged].filter(([id, found]) => id > MERGED.first && found.size !== MERGED.rows.length)
    .map(([id, found]) => `${found.size} rows of merge ${id - MERGED.first}`).join(", ");
}

/** Commits that are in none of `found`, for a message; empty when nothing is missing. */
export function missingFrom(found: readonly Findings[], commits: Commits): string {
  return [...commits].flatMap(([writer, list]) => {
    const missing = list.filter((seq) => !found.some(({ acknowledged }) => acknowledged.get(writer)?.has(seq)));
    return missing.length === 0 ? [] : [`${missing.length} commits of writer ${writer} (${missing.slice(0, 5)}...)`];
  }).join(", ");
}
