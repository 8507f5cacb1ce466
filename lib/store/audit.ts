/**
 * verify: proves what a store holds, and names what it cannot prove.
 *
 * Every head, checkpoint and point of the past is followed to its last object, and each object is read once, however many
 * points share it: histories are trees, and a pass goes down them. Each stored byte is compared with its checksum, each object with the
 * one that it follows, each point with the digest in its ref. Unless `fast`, heads are also rebuilt on the way, from
 * the bytes that are read anyway, and SQLite checks them; of a checkpoint that is asked for by name as well. The content
 * of other checkpoints is proved by the checksums of its pages, which cost nothing to compare.
 *
 * What is read a second time and then is right was not damaged. Local files that would be used as they are (cached
 * copies, shadows) are compared with the pages of their chain. Those that would not be used are not findings.
 */

import { join } from "node:path/posix";
import { hasCode, TaskdError, throwIfInterrupted } from "../errors.ts";
import { integrityCheck } from "../sqlite/integrity.ts";
import { checkpointOf, type Point, type StoreContext } from "./context.ts";
import { chainTo, descendants, History, type HistoryNode, type HistoryPoint } from "./history.ts";
import { neededBy, pastPointsOf, pointsOf } from "./history.ts";
import { chainOf } from "./chain.ts";
import { type Built, checkHeader, corrupt, readError, TreeImage, withKey } from "./materialize.ts";
import { type Address, formatAddress } from "./names.ts";
import { fileProblem, localFilesOf } from "./local_files.ts";
import { readObjectThrough } from "./object_index.ts";
import { ifThere, moveAwayHint, translated, unreadable } from "./errors.ts";
import { DATA_PREFIX, MANIFEST_KEY, parseRefKey, refKey } from "./keys.ts";
import { requireManifest } from "./manifest.ts";
import type { NamedRef, Ref } from "./ref.ts";
import type { AuditResult, Finding, LongOptions, VerifyResult } from "./results.ts";
import { noteDamage } from "./scrub.ts";
import { countSetAside } from "./set_aside.ts";
import { readTombstones, TOMBSTONES_KEY } from "./tombstones.ts";

/** Points that a finding names at most. */
const MAX_NAMED = 20;

/** What verify accepts. */
export interface AuditOptions extends LongOptions {
  /** Compare stored checksums and rebuild nothing. */
  fast?: boolean;
}

/** How a pass over objects works. */
interface PassOptions extends LongOptions {
  /** Names a new file, for a pass that rebuilds heads. */
  imagePath?: () => string;
}

/** Proves one branch, or one of its checkpoints. */
export async function verify(
  context: StoreContext,
  address: Address,
  options: AuditOptions = {},
): Promise<VerifyResult> {
  const { db, branch, checkpoint } = address;
  // What was remembered of the chain is not evidence.
  context.chains.forget();
  let ref: Ref;
  try {
    ({ ref } = await context.refs.read(db, branch));
  } catch (raw) {
    const error = unreadable(raw);
    if (!hasCode(error, "corrupt", "unsupported_format")) throw error;
    return summary({ db, branch }, 0, [refFinding(refKey(db, branch), error)]);
  }
  if (checkpoint !== undefined) checkpointOf(ref, address);
  const points = pointsOf({ db, branch, ref });
  const asked: HistoryPoint[] = checkpoint === undefined
    ? [...points, ...pastPointsOf({ db, branch, ref })]
    : points.filter((point) => point.address.checkpoint === checkpoint);
  const audit = new Audit(context, passOptions(context, options));
  await audit.run(asked, new Set([asked[0]!]));
  await audit.checkFiles(context, [{ db, branch, ref }], options);
  await noteDamage(context, audit.findings);
  return audit.summaryOf(asked[0]!);
}

/** Proves all that a store holds. */
export async function verifyAll(context: StoreContext, options: AuditOptions = {}): Promise<AuditResult> {
  const audit = new Audit(context, passOptions(context, options));
  const unread: Finding[] = [];
  const found = await context.refs.all({
    signal: options.signal,
    onDamaged: (key, error) => unread.push(refFinding(key, error)),
  });
  const points = found.flatMap(pointsOf);
  const heads = points.filter(({ address }) => address.checkpoint === undefined);
  await audit.run([...points, ...found.flatMap(pastPointsOf)], new Set<HistoryPoint>(heads));
  await audit.checkFiles(context, found, options);
  await audit.checkStore(context);
  // Of a branch that cannot be read, what it needs is not known.
  await noteDamage(context, [...unread, ...audit.findings], unread.length === 0);
  const nameOf = (each: VerifyResult) => formatAddress(each);
  const damaged = unread.flatMap((finding) => {
    const name = parseRefKey(finding.where);
    return name ? [summary(name, 0, [finding])] : [];
  });
  const branches = [...heads.map((head) => audit.summaryOf(head)), ...damaged]
    .sort((a, b) => nameOf(a) < nameOf(b) ? -1 : 1);
  const findings = [...unread, ...audit.findings];
  const { objects, bytes } = audit;
  return { ok: findings.length === 0, objects, bytes, branches, findings, set_aside: await countSetAside(context) };
}

function passOptions({ workspace }: StoreContext, { fast, ...long }: AuditOptions): PassOptions {
  if (fast) return long;
  return { ...long, imagePath: () => workspace.beside(join(workspace.root, "tmp", "verify")) };
}

function summary(name: { db: string; branch: string }, txid: number, findings: Finding[]): VerifyResult {
  const { db, branch } = name;
  const problems = findings.map(({ why }) => why);
  return { db, branch, txid, ok: findings.length === 0, objects: 0, pages: 0, problems, findings };
}

/** What is reported of a key below `refs/` that cannot be read. */
export function refFinding(key: string, error: TaskdError): Finding {
  const branch = parseRefKey(key);
  const needed_by = branch ? [formatAddress(branch)] : [];
  const repairable = branch && error.code === "corrupt";
  const hint = moveAwayHint(error) ??
    (repairable ? `Run: taskd repair ${needed_by}` : error.hint ?? "Use the newer program that wrote it");
  return { what: "ref", where: key, why: error.message, hint, needed_by };
}

/** Throws `corrupt` unless every stored byte that a point needs is as it was written. Reads them all, decoding nothing. */
export async function requireSound(
  context: StoreContext,
  { address, lineage, head }: Point,
  attempted: string,
  { signal, onProgress }: LongOptions = {},
): Promise<void> {
  const audit = new Audit(context, { signal, ...(onProgress === undefined ? {} : { onProgress }) });
  await audit.run([{ address, lineage, txid: head.txid, digest: head.digest }]);
  const [damage] = audit.findings;
  if (damage) throw damageError(damage, attempted);
}

/** A finding as an error of what was attempted in spite of it. */
export function damageError({ what, why, hint }: Finding, attempted: string): TaskdError {
  return new TaskdError(what === "gap" ? "chain_gap" : "corrupt", `${attempted}: ${why}`, { hint });
}

export class Audit {
  readonly findings: Finding[] = [];
  /** Objects and bytes that were read. */
  objects = 0;
  bytes = 0;
  readonly history: History;
  /** The objects whose bytes are as they were written, each with what an image that ends there is. */
  readonly proved = new Map<HistoryNode, Built>();
  readonly #context: Pick<StoreContext, "backend" | "refs">;
  readonly #options: PassOptions;
  readonly #ends = new Map<HistoryPoint, HistoryNode>();
  /** The names of all points that cannot be read because of a finding. */
  readonly #needs = new Map<Finding, string[]>();
  /** Nodes behind which a head is rebuilt. */
  readonly #requested = new Set<HistoryNode>();
  #total_bytes = 0;
  #done_bytes = 0;

  constructor(context: Pick<StoreContext, "backend" | "refs">, options: PassOptions) {
    this.#context = context;
    this.#options = options;
    this.history = new History(context.backend);
  }

  /** Reads all that `points` need; those of `checked` are given to SQLite where the pass rebuilds them. */
  async run(points: HistoryPoint[], checked: ReadonlySet<HistoryPoint> = new Set()): Promise<void> {
    this.points = points;
    for (const point of points) await this.history.add(point);
    for (const node of this.history.nodes.values()) {
      this.#total_bytes += node.object.size;
      for (const point of node.points) {
        this.#ends.set(point, node);
        if (!this.#options.imagePath || !checked.has(point)) continue;
        for (let at: HistoryNode | undefined = node; at && !this.#requested.has(at); at = at.parent) {
          this.#requested.add(at);
        }
      }
    }
    for (const { point, error } of this.history.lost) {
      await this.#report(this.#lossOf(error, formatAddress(point.address), [formatAddress(point.address)]), [point]);
    }
    for (const root of this.history.roots) {
      if (root.gap) await this.#report(this.#lossOf(root.gap, root.object.key, neededBy(root, MAX_NAMED)), root);
      const image = root.gap || !this.#requested.has(root)
        ? undefined
        : new TreeImage(this.#context.backend, this.#options.imagePath!());
      await this.#descend(root, image, checked);
    }
  }

  /** What is known of a branch, going by its head or by the checkpoint that was asked for. */
  summaryOf(point: HistoryPoint): VerifyResult {
    const { db, branch } = point.address;
    const prefix = formatAddress({ db, branch });
    // Of damage, all who need it: the finding has the first of them.
    const own = this.findings.filter((finding) =>
      (this.#needs.get(finding) ?? finding.needed_by).some((name) => name === prefix || name.startsWith(`${prefix}@`))
    );
    const end = this.#ends.get(point);
    return {
      ...summary(point.address, point.txid, own),
      objects: end === undefined ? 0 : chainTo(end).length,
      pages: (end && this.proved.get(end))?.page_count ?? 0,
    };
  }

  /** Looks at what is not a branch's. */
  async checkStore(context: StoreContext): Promise<void> {
    await this.#checkPlaces(context);
    await this.#checkRecord(TOMBSTONES_KEY, "tombstones", () => readTombstones(context.backend));
    await this.#checkRecord(MANIFEST_KEY, "manifest", () => requireManifest(context.backend));
  }

  /** Reads a small record; one that cannot be understood is a finding. */
  async #checkRecord(where: string, what: Finding["what"], read: () => Promise<unknown>): Promise<void> {
    try {
      await read();
    } catch (raw) {
      const error = unreadable(raw);
      if (!hasCode(error, "corrupt", "not_a_store")) throw error;
      this.findings.push({
        what,
        where,
        why: error.message,
        hint: error.hint ?? "Run: taskd repair --all",
        needed_by: [],
      });
    }
  }

  /** Finds what lies where objects are, and is none. */
  async #checkPlaces({ backend }: StoreContext): Promise<void> {
    const read = (key: string) => ifThere(`Cannot read ${key}`, () => backend.head(key));
    await translated("Cannot list the objects", async () => {
      for await (const { key, size } of backend.list(DATA_PREFIX)) {
        if (size > 0 || this.findings.some(({ where }) => where === key)) continue;
        await this.#checkRecord(key, "object", () => read(key));
      }
    });
  }

  /** Compares the local files that would be used for these branches with what the store has. */
  async checkFiles(
    context: StoreContext,
    refs: NamedRef[],
    { fast = false }: AuditOptions,
  ): Promise<void> {
    for (const point of this.points) {
      const end = this.#ends.get(point);
      if (!end || !this.#isWhole(end)) continue;
      const { db, branch } = point.address;
      const { ref } = refs.find((each) => each.db === db && each.branch === branch)!;
      const chain = chainOf(chainTo(end), point.txid);
      const { digest = this.proved.get(end)!.digest } = point;
      for (const { what, path } of localFilesOf(context, { ...point, digest }, { ref, chain })) {
        if (this.findings.some(({ where }) => where === path)) continue;
        const why = what === "sidecar"
          ? `Cannot read ${path}: it counts as missing`
          : await fileProblem(context, path, { objects: chain.objects, digest, fast });
        if (why === undefined) continue;
        const name = formatAddress(point.address);
        this.findings.push({ what, where: path, why, hint: `Run: taskd repair ${name}`, needed_by: [name] });
      }
    }
  }

  /** The points that were followed. */
  points: readonly HistoryPoint[] = [];

  /** The last object of a point; undefined where it is missing. */
  endOf(point: HistoryPoint): HistoryNode | undefined {
    return this.#ends.get(point);
  }

  /** Whether all that a point needs is as it was written, and is what its ref promises. */
  isSound(point: HistoryPoint): boolean {
    const end = this.#ends.get(point);
    if (end === undefined || !this.#isWhole(end)) return false;
    return point.digest === undefined || this.proved.get(end)!.digest === point.digest;
  }

  /** Whether all objects up to a node are as they were written. */
  #isWhole(end: HistoryNode): boolean {
    for (let at: HistoryNode | undefined = end; at; at = at.parent) {
      if (!this.proved.has(at) || at.gap) return false;
    }
    return true;
  }

  /** Reads the tree from `start` on; `image` holds what is before it, and is gone afterwards. */
  async #descend(start: HistoryNode, image: TreeImage | undefined, checked: ReadonlySet<HistoryPoint>): Promise<void> {
    let at = image;
    try {
      for (let node = start;;) {
        const proved = await this.#prove(node, at);
        if (proved) this.proved.set(node, proved);
        if (!proved) at = drop(at);
        await this.#checkPoints(node, proved, at, checked);
        // The largest part last and in place: so there are few copies at a time, whatever shape the tree has.
        const [next, ...others] = node.children.toSorted((a, b) => b.size - a.size);
        for (const other of others) {
          await this.#descend(
            other,
            at && this.#requested.has(other) ? at.fork(this.#options.imagePath!()) : undefined,
            checked,
          );
        }
        if (!next) return;
        if (!this.#requested.has(next)) at = drop(at);
        node = next;
      }
    } finally {
      drop(at);
    }
  }

  async #prove(node: HistoryNode, image: TreeImage | undefined): Promise<Built | undefined> {
    throwIfInterrupted(this.#options.signal);
    this.objects++;
    this.bytes += node.object.size;
    const onBytes = (count: number) => {
      throwIfInterrupted(this.#options.signal);
      this.#done_bytes += count;
      this.#options.onProgress?.(Math.min(this.#done_bytes, this.#total_bytes), this.#total_bytes);
    };
    try {
      return image ? await image.apply(node.object, onBytes) : await this.#readThrough(node, onBytes);
    } catch {
      throwIfInterrupted(this.#options.signal);
    }
    try {
      return image ? await image.rebuild(chainTo(node), () => {}) : await this.#readThrough(node, () => {});
    } catch (raw) {
      throwIfInterrupted(this.#options.signal);
      const error = readError(unreadable(raw));
      if (!hasCode(error, "corrupt", "chain_gap", "unsupported_format")) throw error;
      await this.#report(this.#lossOf(error, node.object.key, neededBy(node, MAX_NAMED)), node);
      return undefined;
    }
  }

  async #readThrough({ object, parent }: HistoryNode, onBytes: (count: number) => void): Promise<Built> {
    const before = parent && this.proved.get(parent);
    try {
      const { header, digest } = await readObjectThrough(this.#context.backend, object, onBytes);
      checkHeader(object, header, object.codec === "raw" ? "image-index" : object.kind);
      if (before && header.prev !== before.digest) throw corrupt(object, "it does not follow the object before it");
      if (before && header.page_size !== before.page_size) throw corrupt(object, "its page size is another");
      return { digest, page_size: header.page_size, page_count: header.page_count };
    } catch (error) {
      throw error instanceof TaskdError && !error.message.startsWith("Cannot use") ? withKey(object, error) : error;
    }
  }

  async #checkPoints(
    node: HistoryNode,
    proved: Built | undefined,
    image: TreeImage | undefined,
    checked: ReadonlySet<HistoryPoint>,
  ): Promise<void> {
    if (!proved) return;
    const others = node.points.filter(({ digest = proved.digest }) => digest !== proved.digest);
    if (others.length > 0) {
      const { message } = corrupt(node.object, "it is not the object that the branch was left with");
      const names = others.map(({ address }) => formatAddress(address));
      await this.#report(this.#lossOf(new TaskdError("corrupt", message), names[0]!, names), others);
    }
    const heads = node.points.filter((point) => checked.has(point) && point.digest === proved.digest);
    if (!image || heads.length === 0) return;
    const names = heads.map(({ address }) => formatAddress(address));
    for (const why of integrityCheck(image.path)) {
      const hint = "The stored bytes are as they were written: roll back to a checkpoint from before, or export and " +
        "recover with: sqlite3 file .recover";
      this.findings.push({ what: "content", where: names[0]!, why, hint, needed_by: names });
    }
  }

  #lossOf(error: TaskdError, where: string, needed_by: string[]): Finding {
    const branches = new Set(needed_by.map((point) => point.split("@").slice(0, 2).join("@")));
    const branch = branches.size === 1 ? [...branches][0] : "--all";
    const hint = moveAwayHint(error) ?? `Run: taskd repair ${branch}; add --from <copy of the store> if there is one`;
    const what = error.code === "chain_gap" ? "gap" : where.startsWith("data/") ? "object" : "point";
    return { what, where, why: error.message, hint, needed_by };
  }

  /** Records damage, unless the branches that need what is damaged have been destroyed or moved since. */
  async #report(finding: Finding, from: HistoryNode | HistoryPoint[]): Promise<void> {
    const points = Array.isArray(from) ? from : [...descendants(from)].flatMap(({ points }) => points);
    for (const point of points) {
      if (!await this.#isKept(point)) continue;
      this.findings.push(finding);
      this.#needs.set(finding, points.map(({ address }) => formatAddress(address)));
      return;
    }
  }

  async #isKept({ address, lineage, txid, digest }: HistoryPoint): Promise<boolean> {
    const { db, branch } = address;
    try {
      const found = await this.#context.refs.find(db, branch);
      const named = found && { db, branch, ref: found.ref };
      const kept = named && [...pointsOf(named), ...digest === undefined ? pastPointsOf(named) : []];
      return kept?.some((each) => each.lineage === lineage && each.txid === txid) ?? false;
    } catch (error) {
      // A ref that was pieced together, and is not written yet: nothing says that the branch has gone.
      if (!hasCode(unreadable(error), "corrupt", "unsupported_format")) throw error;
      return true;
    }
  }
}

function drop(image: TreeImage | undefined): undefined {
  image?.[Symbol.dispose]();
}
