/**
 * Points in the past of a branch: which there are, which are still kept, and which one a transaction, a time or an age
 * means. A point is kept while every object of its chain is there: what a head or checkpoint needs, and what garbage
 * collection has not deleted yet.
 */

import type { Backend } from "../backend/backend.ts";
import type { Clock } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { inParallel } from "../in_parallel.ts";
import { type Base, type ChainObject, viewsOf, walkBack } from "./chain.ts";
import { translated } from "./errors.ts";
import { type Address, formatAddress, requireBranch } from "./names.ts";
import { readObjectIndex } from "./object_index.ts";
import { type LoggedPoint, loggedPoints } from "./point_log.ts";
import { parsePoint, type PointText } from "./point_text.ts";
import type { ContentPoint, Ref, Refs } from "./ref.ts";
import type { LogResult, PointInfo } from "./results.ts";

/** Points of a part of the log where no number is asked for, and at most. */
export const LOG_POINTS = { default: 50, most: 1000 };
const PARALLEL_READS = 16;
/** A database is created with it. */
const FIRST_TXID = 1;

interface PointsContext {
  backend: Backend;
  clock: Clock;
  refs: Refs;
}

/** A point of the log; one of a store of version 0.1.0 has no time. */
type Known = Omit<LoggedPoint, "at_ms"> & { at_ms?: number };

/** What is there of a branch's past: each lineage is listed once, each object looked at once. */
class Past {
  readonly #view: ReturnType<typeof viewsOf>;
  /** By its key, whether an object and all that it follows are there. */
  readonly #whole = new Map<string, boolean>();

  constructor(backend: Backend) {
    this.#view = viewsOf(backend);
  }

  /** The object that ends at a point; undefined when the point is not kept. */
  async lastObject(point: Base): Promise<ChainObject | undefined> {
    const walked = await this.walk(point);
    return this.isWhole(walked) ? walked[0] : undefined;
  }

  /** Whether all objects of the chain that was walked are there. */
  isWhole([last]: readonly ChainObject[]): boolean {
    return last !== undefined && this.#whole.get(last.key) === true;
  }

  /** Lists lineages that are about to be walked through, some at a time. */
  async look(lineages: Iterable<string>): Promise<void> {
    await inParallel(new Set(lineages), PARALLEL_READS, async (lineage) => {
      await this.#view(lineage);
    });
  }

  /** The objects of the chain that ends at a point, the last one first, up to a gap or to one that was walked before. */
  async walk(point: Base): Promise<ChainObject[]> {
    const walked: ChainObject[] = [];
    let whole: boolean | undefined;
    try {
      for await (const object of walkBack(point, this.#view)) {
        walked.push(object);
        whole = this.#whole.get(object.key);
        if (whole !== undefined) break;
      }
    } catch (error) {
      if (!hasCode(error, "chain_gap")) throw error;
      whole = false;
    }
    for (const { key } of walked) this.#whole.set(key, whole ?? true);
    return walked;
  }
}

/** All points that a branch knows of, kept or not, the newest first. Those without a time come last. */
async function knownPoints(past: Past, ref: Ref): Promise<Known[]> {
  const logged: Known[] = loggedPoints(ref);
  const seen = new Set(logged.map(({ txid }) => txid));
  const named = ref.checkpoints.map(({ lineage = ref.lineage, txid, created_at }) => ({
    lineage,
    txid,
    at_ms: Date.parse(created_at),
  }));
  // What an older program wrote, and what a fork has of its parent.
  const chain = (await past.walk(ref)).map(({ lineage, last }) => ({ lineage, txid: last }));
  const older: Known[] = [...named, ...chain].filter(({ txid }) => {
    const fresh = !seen.has(txid);
    seen.add(txid);
    return fresh;
  });
  return [...logged, ...older.sort((a, b) => b.txid - a.txid)];
}

/**
 * The point that an address names beside checkpoints; undefined for the name of a checkpoint. A
 * time means where the branch stood then. The result's address names the same whenever it is read.
 *
 * @throws {TaskdError} `not_found` when that is not kept, with the nearest before and after.
 */
export async function resolvePoint(
  { backend, clock }: Pick<PointsContext, "backend" | "clock">,
  address: Address,
  ref: Ref,
): Promise<(ContentPoint & { address: Address }) | undefined> {
  const asked = parsePoint(address.checkpoint ?? "");
  if (asked === undefined) return undefined;
  const past = new Past(backend);
  const points = await knownPoints(past, ref);
  const sought = "age_ms" in asked ? { time_ms: clock.now() - asked.age_ms } : asked;
  const index = points.findIndex((point) => isAt(point, sought));
  const object = index < 0 ? undefined : await past.lastObject(points[index]!);
  if (!object) throw await notKept(past, { address, points, sought });
  const { lineage, txid, at_ms = 0 } = points[index]!;
  // After a rollback a later transaction may have the number.
  const unique = points.find((point) => point.txid === txid) === points[index];
  const name = unique ? `txid:${txid}` : `time:${new Date(at_ms).toISOString()}`;
  const { digest } = await translated(`Cannot read ${object.key}`, () => readObjectIndex(backend, object));
  return { lineage, txid, digest, address: { ...address, checkpoint: name } };
}

/**
 * Does what reads points of the past: once more where one is folded or removed meanwhile, to find it where it is by then or
 * to answer that it is not kept.
 *
 * @throws {TaskdError} `conflict` when that happens again.
 */
export async function readingPoints<T>(addresses: readonly Address[], work: () => Promise<T>): Promise<T> {
  const past = addresses.find(({ checkpoint = "" }) => parsePoint(checkpoint) !== undefined);
  try {
    return await work();
  } catch (error) {
    if (past === undefined || !hasCode(error, "chain_gap")) throw error;
  }
  try {
    return await work();
  } catch (cause) {
    if (!hasCode(cause, "chain_gap")) throw cause;
    throw new TaskdError("conflict", `Cannot read ${formatAddress(past)}: what it needs is being removed`, {
      cause,
      hint: "Try again; taskd verify shows whether the store is damaged",
    });
  }
}

type Sought = Exclude<PointText, { age_ms: number }>;

function isAt({ txid, at_ms }: Known, sought: Sought): boolean {
  return "txid" in sought ? txid === sought.txid : at_ms !== undefined && at_ms <= sought.time_ms;
}

async function notKept(
  past: Past,
  { address, points, sought }: { address: Address; points: Known[]; sought: Sought },
): Promise<TaskdError> {
  const order = (point: Known) => "txid" in sought ? point.txid - sought.txid : (point.at_ms ?? NaN) - sought.time_ms;
  const { db, branch } = address;
  // The newest first: the first one before is the nearest, and the last one after.
  const before = points.filter((point) => order(point) <= 0).sort((a, b) => order(b) - order(a));
  const after = points.filter((point) => order(point) > 0).sort((a, b) => order(a) - order(b));
  const near: string[] = [];
  for (const [side, candidates] of [["before", before], ["after", after]] as const) {
    let found: Known | undefined;
    for (const each of candidates) {
      if (!await past.lastObject(each)) continue;
      found = each;
      break;
    }
    near.push(found ? `the nearest ${side} is ${pointText(found)}` : `none is kept ${side} that`);
  }
  return new TaskdError("not_found", `${formatAddress(address)} is not kept: ${near.join(", ")}`, {
    hint: `taskd log ${db}@${branch} lists the points that are kept`,
  });
}

function pointText({ txid, at_ms }: Known): string {
  return `txid:${txid}${at_ms === undefined ? "" : ` of ${new Date(at_ms).toISOString()}`}`;
}

/** What log accepts. */
export interface LogOptions {
  /** How many points at most; 50 when absent, 1000 at most. */
  limit?: number;
  /** `next` of the part before. */
  after?: string;
}

/**
 * The points of a branch that are kept, the newest first.
 *
 * @throws {TaskdError} `not_found`; `invalid_request` for a place that no part ended at.
 */
export async function log(
  { backend, refs }: Pick<PointsContext, "backend" | "refs">,
  address: Address,
  { limit = LOG_POINTS.default, after }: LogOptions = {},
): Promise<LogResult> {
  requireBranch(address, "list the points of");
  const { db, branch } = address;
  const { ref } = await refs.read(db, branch);
  const past = new Past(backend);
  const points = await knownPoints(past, ref);
  const start = after === undefined ? 0 : points.findIndex((point) => placeOf(point) === after) + 1;
  if (after !== undefined && start === 0) {
    throw new TaskdError("invalid_request", `Cannot go on with the log of ${formatAddress(address)} after that place`, {
      hint: "Begin again without it",
    });
  }
  const shown: { point: Known; object: ChainObject }[] = [];
  let next: string | undefined;
  for (const point of points.slice(start)) {
    const object = await past.lastObject(point);
    if (!object) continue;
    if (shown.length === Math.min(limit, LOG_POINTS.most)) {
      next = placeOf(shown.at(-1)!.point);
      break;
    }
    shown.push({ point, object });
  }
  const found = new Map<Known, PointInfo>();
  await inParallel(shown, PARALLEL_READS, async ({ point, object }) => {
    const { pages } = await translated(`Cannot read ${object.key}`, () => readObjectIndex(backend, object));
    found.set(point, { ...infoOf(ref, point), kind: object.kind, pages, bytes: object.size });
  });
  return {
    db,
    branch,
    points: shown.map(({ point }) => found.get(point)!),
    ...(next === undefined ? {} : { next }),
  };
}

/**
 * How many points of a branch's past are there, and the bytes of the stored objects that they need and neither its head
 * nor a checkpoint.
 */
export async function historyOf(
  { backend }: Pick<PointsContext, "backend">,
  ref: Ref,
): Promise<{ history_points: number; history_bytes: number }> {
  const past = new Past(backend);
  const points = loggedPoints(ref).slice(1);
  await past.look([ref.lineage, ...points.map(({ lineage }) => lineage)]);
  const counted = new Set<string>();
  for (const { lineage = ref.lineage, txid } of [ref, ...ref.checkpoints]) {
    for (const { key } of await past.walk({ lineage, txid })) counted.add(key);
  }
  let [history_points, history_bytes] = [0, 0];
  for (const point of points) {
    const walked = await past.walk(point);
    if (!past.isWhole(walked)) continue;
    history_points++;
    for (const { key, size } of walked) {
      if (!counted.has(key)) history_bytes += size;
      counted.add(key);
    }
  }
  return { history_points, history_bytes };
}

/** Where a part of the log ends. Folding changes the lineage of a point, and nothing else. */
function placeOf({ txid, at_ms = 0 }: Known): string {
  return `${txid}/${at_ms}`;
}

/** What a point was, as the branch's log is to say it once the point lies elsewhere; undefined for a flush. */
export function opOf(ref: Ref, point: LoggedPoint): string | undefined {
  const { op } = infoOf(ref, point);
  return op === "flush" ? undefined : op;
}

function infoOf(
  ref: Ref,
  { lineage, txid, at_ms, op, folded }: Known,
): Pick<PointInfo, "txid" | "at" | "op" | "checkpoints" | "merge"> {
  // A folded point has another place than what was recorded of it, and says itself what it was.
  const is = (at: Base, ...what: string[]) =>
    at.txid === txid && (at.lineage === lineage || folded !== undefined && what.includes(op ?? ""));
  const checkpoints = ref.checkpoints.filter(({ txid, lineage = ref.lineage }) => is({ txid, lineage }, "checkpoint"));
  const merge = ref.merges?.find(({ onto }) => is(onto, "merge", "revert"));
  const merged = merge && (merge.reverts === undefined ? "merge" : "revert");
  return {
    txid,
    ...(at_ms === undefined ? {} : { at: new Date(at_ms).toISOString() }),
    op: op ?? merged ?? (checkpoints.length > 0 ? "checkpoint" : txid === FIRST_TXID ? "create" : "flush"),
    ...(checkpoints.length === 0 ? {} : { checkpoints: checkpoints.map(({ name }) => name) }),
    ...(merge === undefined ? {} : { merge: merge.id }),
  };
}
