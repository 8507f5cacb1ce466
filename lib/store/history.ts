/**
 * All objects that some points of branches need, as a forest: each object once, below the one that it follows, however
 * many points share it. So a pass over it reads each object once.
 */

import type { Backend } from "../backend/backend.ts";
import { TaskdError } from "../errors.ts";
import { type Base, type ChainObject, placeOf, viewsOf, walkBack } from "./chain.ts";
import { unreadable } from "./errors.ts";
import { type Address, formatAddress } from "./names.ts";
import { type LoggedPoint, loggedPoints } from "./point_log.ts";
import type { NamedRef, Ref } from "./ref.ts";
import { type KeepLevel, retained } from "./retention.ts";
import type { Ages } from "./timeline.ts";

/** A head, a checkpoint or a point of the past. */
export interface HistoryPoint extends Base {
  address: Address;
  /** The content that its ref promises; a ref promises none of the past. */
  digest?: string;
}

/** A head or checkpoint. */
export interface PromisedPoint extends HistoryPoint {
  digest: string;
}

export interface HistoryNode {
  object: ChainObject;
  parent: HistoryNode | undefined;
  children: HistoryNode[];
  /** The points that end with it. */
  points: HistoryPoint[];
  /** Objects from here on, itself among them. */
  size: number;
  /** Why nothing is known of what it follows; only without a parent, and not of a snapshot. */
  gap?: TaskdError;
}

/** The points that a ref keeps: its head, then its checkpoints. */
export function pointsOf({ db, branch, ref }: NamedRef): PromisedPoint[] {
  const { txid, digest, lineage } = ref;
  return [
    { address: { db, branch }, txid, digest, lineage },
    ...ref.checkpoints.map((kept) => ({
      address: { db, branch, checkpoint: kept.name },
      txid: kept.txid,
      digest: kept.digest,
      lineage: kept.lineage ?? lineage,
    })),
  ];
}

/** The points of its past that a ref names and does not keep otherwise. */
export function pastPointsOf({ db, branch, ref }: NamedRef): HistoryPoint[] {
  const seen = new Set(pointsOf({ db, branch, ref }).map(placeOf));
  return loggedPoints(ref).slice(1).flatMap(({ lineage, txid }) => {
    if (seen.size === seen.add(placeOf({ lineage, txid })).size) return [];
    return [{ address: { db, branch, checkpoint: `txid:${txid}` }, lineage, txid }];
  });
}

/**
 * The points of a ref's past that are kept, for as long as its own levels or else `keep` say. Where one's objects are gone,
 * it is kept no more: nothing else goes by them.
 */
export function keptPoints(ref: Ref, keep: readonly KeepLevel[], ages: Ages): LoggedPoint[] {
  const logged = loggedPoints(ref);
  return retained(logged.slice(1), ref.keep ?? keep, ages.ofPoints(logged).slice(1));
}

export class History {
  /** Objects that follow no other. */
  readonly roots: HistoryNode[] = [];
  /** Points at which no object ends, and why. */
  readonly lost: { point: HistoryPoint; error: TaskdError }[] = [];
  readonly nodes = new Map<string, HistoryNode>();
  readonly #view: ReturnType<typeof viewsOf>;

  constructor(backend: Backend) {
    this.#view = viewsOf(backend);
  }

  /**
   * Adds a point with all that it needs. What is missing or cannot be understood is recorded; a point of the past of which
   * something is missing is kept no more, and left out.
   */
  async add(point: HistoryPoint): Promise<void> {
    const objects: ChainObject[] = [];
    let gap: TaskdError | undefined;
    try {
      for await (const object of walkBack(point, this.#view)) {
        objects.push(object);
        if (this.nodes.has(object.key)) break;
      }
    } catch (raw) {
      const error = unreadable(raw);
      if (!(error instanceof TaskdError) || !["chain_gap", "corrupt"].includes(error.code)) throw error;
      if (point.digest === undefined && error.code === "chain_gap") return;
      if (objects.length === 0) this.lost.push({ point, error });
      gap = error;
    }
    let child: HistoryNode | undefined;
    for (const object of objects) {
      const known = this.nodes.get(object.key);
      const node = known ?? { object, parent: undefined, children: [], points: [], size: 1 };
      this.nodes.set(object.key, node);
      if (child) attach(child, node);
      else node.points.push(point);
      if (known) return;
      child = node;
    }
    if (child) this.roots.push(gap === undefined ? child : Object.assign(child, { gap }));
  }
}

function attach(child: HistoryNode, parent: HistoryNode): void {
  child.parent = parent;
  parent.children.push(child);
  for (let at: HistoryNode | undefined = parent; at; at = at.parent) at.size += child.size;
}

/** The objects up to a node, the first one first. */
export function chainTo(node: HistoryNode): ChainObject[] {
  const objects: ChainObject[] = [];
  for (let at: HistoryNode | undefined = node; at; at = at.parent) objects.push(at.object);
  return objects.reverse();
}

export function* descendants(node: HistoryNode): Generator<HistoryNode> {
  const rest = [node];
  for (let next = rest.pop(); next; next = rest.pop()) {
    yield next;
    rest.push(...next.children);
  }
}

/** The names of the points that need a node, at most `most` of them, those of the past last. */
export function neededBy(node: HistoryNode, most = 20): string[] {
  const [names, past]: [string[], string[]] = [[], []];
  for (const { points } of descendants(node)) {
    for (const { address, digest } of points) {
      const of = digest === undefined ? past : names;
      if (of.length < most) of.push(formatAddress(address));
    }
    if (names.length >= most) break;
  }
  return [...names, ...past].slice(0, most);
}
