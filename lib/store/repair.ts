/**
 * repair: brings back what can be proved, and says what cannot.
 *
 * 0. A manifest that cannot be read is made anew (manifest.ts), if there is a branch: without one it may not be a store.
 * 1. A ref that cannot be read is put together from its own bytes; it counts when the object that it names as its head
 *    has the digest that it names.
 * 2. Every damaged or missing object is recovered from what proves itself (rebuild.ts, or `from`). A damaged base
 *    pointer is taken from the refs that mirror it, or from `from`; the digests of the points behind it prove it.
 * 3. Points of which an object is lost come from whole files of that content (page_sources.ts).
 * 4. A branch whose head is still not sound goes back to its newest sound point, and checkpoints and points of the past
 *    that are not sound leave it. What it was stays as a branch of its own where its objects are all there, else below `damaged/`: garbage
 *    collection fails on a ref with a gap.
 * 5. Cached files that are damaged are moved below `damaged/`; they are made again when they are needed. Damaged records
 *    beside a checkout are made anew where its files prove that it holds the head, or continues it.
 * 6. What was done is verified: what is still damaged is reported as left.
 *
 * Whatever is replaced is kept below `damaged/`. Content that is not proved is never made a head.
 */

import { hasCode, messageOf, TaskdError } from "../errors.ts";
import { damagedFolder, setFileAside, setObjectAside } from "./set_aside.ts";
import { Audit, refFinding } from "./audit.ts";
import type { Backend, Body, ObjectBody } from "../backend/backend.ts";
import { type ChainObject, correctBase, encodeBase, placeOf, readBase } from "./chain.ts";
import { type Point, pointIn, type StoreContext } from "./context.ts";
import { ifThere, translated, unreadable } from "./errors.ts";
import { chainTo, descendants, type HistoryNode, type HistoryPoint } from "./history.ts";
import { pastPointsOf, pointsOf, type PromisedPoint } from "./history.ts";
import { baseKey, DATA_PREFIX, MANIFEST_KEY, parseRefKey, refKey } from "./keys.ts";
import { isLeased, type Lease, withLease } from "./lease.ts";
import { type BranchName, formatAddress, parseAddress } from "./names.ts";
import { readObjectThrough } from "./object_index.ts";
import { beginLineage } from "./ops/lineage.ts";
import { keepContent, type KeptBranch } from "./ops/keep.ts";
import { proveCheckout } from "./ops/recover.ts";
import { moveTo, recordPendingLineage, repointToFile } from "./ops/repoint.ts";
import { rebuildManifest, requireManifest } from "./manifest.ts";
import { localSources, type RecordedContents, recordedContents, wholePoint } from "./page_sources.ts";
import {
  keysInCopy,
  type LostObject,
  type Recoverable,
  recoverFromCopy,
  recoverFromPages,
  recoverMisplaced,
} from "./rebuild.ts";
import { loggedPoints, withPoints } from "./point_log.ts";
import { newestSound } from "./newest_sound.ts";
import { Promises } from "./promises.ts";
import { OWN_BYTES } from "./records.ts";
import { encodeRef, type NamedRef, type Ref } from "./ref.ts";
import type { Finding, LongOptions, RepairedBranch, RepairResult, Restored } from "./results.ts";
import { noteDamage } from "./scrub.ts";
import { salvageRef } from "./salvage_ref.ts";
import { listVersion, readTombstones, TOMBSTONES_KEY } from "./tombstones.ts";
import { endless } from "./time_to_live.ts";

/** What repair accepts. */
export interface RepairOptions extends LongOptions {
  /** The branch; all of them when absent. */
  branch?: BranchName;
  /** Location of another copy of the store, for what this one has lost. Nothing is written there. */
  from?: string;
  /** Find out what would be done, and change nothing: not what can be brought back only after something else is. */
  dry_run?: boolean;
}

export async function repair(context: StoreContext, options: RepairOptions = {}): Promise<RepairResult> {
  const copy = options.from === undefined ? undefined : await openCopy(context, options.from);
  return await new Repair(context, options, copy).run();
}

async function openCopy(context: StoreContext, location: string): Promise<Backend> {
  const copy = await context.openOther(location);
  const objects = copy.list(DATA_PREFIX)[Symbol.asyncIterator]();
  if (!(await translated(`Cannot read ${location}`, () => objects.next())).done) return copy;
  throw new TaskdError("not_a_store", `Cannot repair from ${location}: no store is there`, {
    hint: "Name the directory or bucket and prefix that hold the copy's folders data and refs",
  });
}

class Repair {
  readonly #context: StoreContext;
  readonly #options: RepairOptions;
  readonly #copy: Backend | undefined;
  readonly #folder: string;
  readonly #result: RepairResult;
  /** Findings that were tried; those that a recovery was found for are true. */
  readonly #tried = new Map<string, boolean>();
  /** Points that come from whole files. */
  readonly #whole = new Set<HistoryPoint>();
  /** Damaged objects of points of the past that are kept below `damaged/`. */
  readonly #aside = new Set<string>();

  constructor(context: StoreContext, options: RepairOptions, copy: Backend | undefined) {
    this.#context = context;
    this.#options = options;
    this.#copy = copy;
    this.#folder = damagedFolder(context.clock.now());
    this.#result = { dry_run: options.dry_run === true, restored: [], moved: [], left: [], folder: this.#folder };
  }

  async run(): Promise<RepairResult> {
    const { branch } = this.#options;
    const refs = await this.#readRefs();
    if (!await this.#restoreManifest(refs)) return this.#result;
    let audit = await this.#audit(refs);
    // What is whole again shows what lies behind it.
    for (let changed = true; changed;) {
      changed = false;
      for (const finding of audit.findings) {
        if (this.#tried.get(finding.where)) continue;
        const node = audit.history.nodes.get(finding.where);
        const fill = () => this.#fillGap(finding, refs);
        const found = node && !node.gap ? await this.#restoreObject(audit, node, fill) : await fill();
        this.#tried.set(finding.where, found);
        changed ||= found && !this.#options.dry_run;
      }
      if (changed) audit = await this.#audit(refs);
    }
    const recorded = recordedContents(this.#context);
    for (const each of refs) await this.#restorePoints(each, audit, recorded);
    if (this.#whole.size > 0 && !this.#options.dry_run) audit = await this.#audit(refs);
    const promised = new Map(refs.map((each) => [each, new Set(pointsOf(each).map(({ txid }) => txid))]));
    for (const each of refs) await this.#settle(each, audit);
    if (this.#result.moved.length > 0 && !this.#options.dry_run) {
      for (const each of refs) each.ref = (await this.#context.refs.find(each.db, each.branch))?.ref ?? each.ref;
      audit = await this.#audit(refs);
    }
    for (const each of refs) await this.#settlePast(each, audit, promised.get(each)!);
    await this.#restoreFiles(refs, audit);
    if (branch === undefined) await this.#dropTombstones();
    await this.#verify();
    return this.#result;
  }

  async #audit(refs: NamedRef[]): Promise<Audit> {
    this.#context.chains.forget();
    const { signal, onProgress } = this.#options;
    const audit = new Audit(this.#context, { signal, ...(onProgress === undefined ? {} : { onProgress }) });
    await audit.run([...refs.flatMap(pointsOf), ...refs.flatMap(pastPointsOf)]);
    return audit;
  }

  async #readRefs(): Promise<NamedRef[]> {
    const { refs, backend } = this.#context;
    const { branch, signal } = this.#options;
    const damaged: { key: string; error: TaskdError }[] = [];
    const onDamaged = (key: string, error: TaskdError) => {
      damaged.push({ key, error });
    };
    let read: NamedRef[] = [];
    if (branch === undefined) read = await refs.all({ signal, onDamaged });
    else {
      try {
        // One that is named has to exist.
        const { ref } = await refs.read(branch.db, branch.branch);
        this.#refuseLeased(branch, ref);
        read.push({ ...branch, ref });
      } catch (raw) {
        const error = unreadable(raw);
        if (!hasCode(error, "corrupt")) throw error;
        onDamaged(refKey(branch.db, branch.branch), error);
      }
    }
    const bytes = new Map<string, ObjectBody>();
    for (const { key } of damaged) {
      try {
        bytes.set(key, await translated(`Cannot read ${key}`, () => backend.get(key)));
      } catch (error) {
        if (!hasCode(unreadable(error), "corrupt")) throw error;
      }
    }
    for (const { key, error } of damaged) {
      const name = parseRefKey(key);
      const ref = name && error.code === "corrupt" && bytes.has(key) ? await this.#restoreRef(name, bytes) : undefined;
      if (ref) read.push({ ...name!, ref });
      else this.#result.left.push(refFinding(key, error));
    }
    return read;
  }

  /** False where nothing shows that this is a store. */
  async #restoreManifest(refs: NamedRef[]): Promise<boolean> {
    const context = this.#context;
    const { backend } = context;
    const damage = await requireManifest(backend).then(() => undefined, (error: TaskdError) => error);
    if (!damage) return true;
    if (!hasCode(damage, "corrupt", "not_a_store") || this.#options.branch) throw damage;
    if (refs.length === 0) {
      const hint = `No branch can be read here: copy ${MANIFEST_KEY} from a backup, or name another store`;
      this.#result.left.push({ what: "manifest", where: MANIFEST_KEY, why: damage.message, hint, needed_by: [] });
      return false;
    }
    const { bytes, from, etag, layout_version } = await rebuildManifest(context, this.#copy);
    const write = () => etag ? backend.replace(MANIFEST_KEY, bytes, etag) : backend.create(MANIFEST_KEY, bytes);
    await this.#restore({ what: "manifest", where: MANIFEST_KEY, from }, write);
    context.layout_version = layout_version;
    return true;
  }

  /** Keeps what lies there, writes what belongs there, and reports it. */
  async #restore(restored: Restored, write: () => Promise<unknown>): Promise<void> {
    if (!this.#options.dry_run) {
      await setObjectAside(this.#context.backend, this.#folder, restored.where);
      await translated(`Cannot restore ${restored.where}`, write);
    }
    this.#result.restored.push(restored);
  }

  /** Of a branch that no one has used a lease asks that all of its chain is there: what is damaged cannot say that. */
  #lease<T>(name: BranchName, work: (lease: Lease) => Promise<T>): Promise<T> {
    const { confirm } = this.#context;
    const confirmed: typeof confirm = async (address, ref) => {
      try {
        await confirm?.(address, ref);
      } catch (error) {
        if (!hasCode(error, "chain_gap", "corrupt", "unsupported_format")) throw error;
      }
    };
    return withLease({ ...this.#context, confirm: confirmed }, name, work);
  }

  #refuseLeased(name: BranchName, ref: Ref): void {
    if (!isLeased(ref, this.#context)) return;
    throw new TaskdError("lease_held", `Cannot repair ${formatAddress(name)}: ${ref.lease!.holder} holds it`, {
      hint: `Close the session first: taskd session close ${formatAddress(name)}`,
    });
  }

  async #restoreRef(name: BranchName, damaged: Map<string, ObjectBody>): Promise<Ref | undefined> {
    const key = refKey(name.db, name.branch);
    const { bytes, etag } = damaged.get(key)!;
    const others = new Map([...damaged].map(([key, { bytes }]) => [key, bytes]));
    const salvaged = await salvageRef(this.#context, name, { bytes, others, copy: this.#copy });
    if (!salvaged) return undefined;
    const { ref, ...report } = salvaged;
    const write = () => this.#context.backend.replace(key, encodeRef(ref), etag);
    await this.#restore({ what: "ref", where: key, ...report }, write);
    return ref;
  }

  async #restoreObject(audit: Audit, damaged: HistoryNode, fillGap: () => Promise<boolean>): Promise<boolean> {
    const { backend } = this.#context;
    const promises = new Promises(backend);
    const isPromised = async (node: HistoryNode) => {
      const own = await readObjectThrough(backend, node.object, () => {}).catch(() => undefined);
      return own !== undefined && (await promises.of(node)).has(own.digest);
    };
    let node = damaged;
    if (damaged.parent && await isPromised(damaged)) {
      // It does not follow what lies before it: a base pointer leads elsewhere, or that object is the damaged one.
      const { parent } = damaged;
      if (parent.object.lineage !== damaged.object.lineage && await fillGap()) return true;
      if (await isPromised(parent)) return false;
      node = parent;
    }
    const { object } = node;
    if (this.#tried.get(object.key)) return true;
    const index = await promises.index(node);
    const promised = await promises.of(node);
    for (const digest of promised.size > 0 ? promised : index ? [index.digest] : []) {
      const lost: LostObject = { object, digest };
      let found = this.#copy && await recoverFromCopy(this.#copy, lost);
      if (!found && index && index.digest !== digest) found = await recoverMisplaced(backend, lost, this.#folder);
      const dbs = new Set([...descendants(node)].flatMap(({ points }) => points.map(({ address }) => address.db)));
      using sources = found ? undefined : await localSources(this.#context, audit, node, [...dbs]);
      if (sources) {
        const prev = node.parent && (await promises.index(node.parent))?.digest;
        found = await recoverFromPages(backend, { ...lost, before: sources.before, prev }, sources.pages);
      }
      this.#tried.set(object.key, found !== undefined);
      if (!found) continue;
      // Written while the sources are open.
      await this.#write(object, found);
      this.#result.restored.push({ what: "object", where: object.key, from: found.from });
      return true;
    }
    return false;
  }

  async #write({ key }: ChainObject, { parts }: Recoverable): Promise<void> {
    if (this.#options.dry_run) return;
    const { backend } = this.#context;
    for (const part of parts) {
      await setObjectAside(backend, this.#folder, part.key);
      await translated(`Cannot restore ${key}`, () => backend.put(part.key, part.body()));
    }
  }

  /** Looks for what is missing, in the lineages that a finding names. */
  async #fillGap({ where, why }: Finding, refs: NamedRef[]): Promise<boolean> {
    const { backend } = this.#context;
    const before = this.#result.restored.length;
    const put = async (what: "object" | "base", key: string, from: string, body: () => Promise<Body>) => {
      // Several points may lack the same.
      if (this.#result.restored.some(({ where }) => where === key)) return;
      await this.#restore({ what, where: key, from }, async () => backend.put(key, await body()));
    };
    for (const lineage of new Set(`${where} ${why}`.match(/\b[0-9a-f]{32}\b/g))) {
      const key = baseKey(lineage);
      const stored = await readBase(backend, lineage).catch(() => undefined);
      const own = stored ? undefined : await correctBase(backend, lineage);
      const mirror = refs.find(({ ref }) => ref.lineage === lineage)?.ref.base;
      const copied = this.#copy && await readBase(this.#copy, lineage).catch(() => undefined);
      const base = own ?? mirror ?? copied;
      if (base && (stored?.lineage !== base.lineage || stored.txid !== base.txid)) {
        const from = own ? OWN_BYTES : mirror ? "the branch's ref" : this.#copy!.url;
        await put("base", key, from, () => Promise.resolve(encodeBase(base)));
      }
      for (const key of this.#copy ? await keysInCopy(this.#copy, lineage) : []) {
        if (await ifThere(`Cannot read ${key}`, () => backend.head(key))) continue;
        await put("object", key, this.#copy!.url, async () => (await this.#copy!.getStream(key)).chunks);
      }
    }
    return this.#result.restored.length > before;
  }

  #unsound({ db, branch }: NamedRef, audit: Audit): HistoryPoint[] {
    const points = audit.points.filter(({ address }) => address.db === db && address.branch === branch);
    return points.filter((point) => !audit.isSound(point) && !this.#willBeSound(audit, point));
  }

  /** Brings points back from whole files. */
  async #restorePoints(each: NamedRef, audit: Audit, recorded: RecordedContents): Promise<void> {
    const { backend, refs } = this.#context;
    if (isLeased(each.ref, this.#context)) return;
    // Objects that would be whole again may prove others: a dry run does not know which way a point comes back then.
    const named = !this.#options.dry_run || ![...this.#tried.values()].includes(true);
    const unsound = this.#unsound(each, audit).filter(isPromised);
    for (const point of unsound) {
      const whole = this.#whole.has(point) ? undefined : await wholePoint(this.#context, audit, recorded, point);
      if (!whole) continue;
      using image = whole.image;
      const { txid, digest } = point;
      if (!this.#options.dry_run) {
        await setObjectAside(backend, this.#folder, refKey(each.db, each.branch));
        for (let at = audit.endOf(point); at; at = at.parent) {
          if (!audit.proved.has(at)) await setObjectAside(backend, this.#folder, at.object.key);
        }
        const to = { path: image.path, txid, digest };
        await this.#lease(each, (lease) => repointToFile(this.#context, lease, to));
        each.ref = (await refs.read(each.db, each.branch)).ref;
      }
      for (const same of unsound.filter((other) => other.digest === digest)) {
        this.#whole.add(same);
        if (named) this.#result.restored.push({ what: "point", where: formatAddress(same.address), from: whole.from });
      }
    }
  }

  /** Takes a branch back to its newest sound point, and takes unsound checkpoints from it. */
  async #settle({ db, branch, ref }: NamedRef, audit: Audit): Promise<void> {
    const unsound = this.#unsound({ db, branch, ref }, audit).filter(isPromised);
    if (unsound.length === 0) return;
    const name = formatAddress({ db, branch });
    try {
      const head = unsound.find(({ address }) => address.checkpoint === undefined);
      const to = head && await newestSound(this.#context, { db, branch, ref }, audit, this.#options);
      if (head && !to) throw new TaskdError("corrupt", `Cannot repair ${name}: no point of it can be read`);
      const moved: RepairedBranch = {
        db,
        branch,
        txid: to?.head.txid ?? ref.txid,
        lost_checkpoints: unsound.flatMap(({ address }) => address.checkpoint ?? []),
        ...(to ? { lost: lossOf(ref, to.head.txid) } : {}),
      };
      if (!this.#options.dry_run) {
        const safety_branch = await this.#lease({ db, branch }, (lease) => this.#move(lease, to, unsound, audit));
        if (safety_branch !== undefined) moved.safety_branch = safety_branch;
      }
      this.#result.moved.push(moved);
    } catch (error) {
      if (this.#options.branch && hasCode(error, "lease_held")) throw error;
      if (!(error instanceof TaskdError)) throw error;
      const hint = error.hint ?? "Take the objects from a backup with --from, or destroy the branch";
      this.#result.left.push({ what: "point", where: name, why: messageOf(error), hint, needed_by: [name] });
    }
  }

  /**
   * Takes unsound points of its past from a branch that is not in use. What was a head or checkpoint, as `promised` says, is there or has been counted.
   */
  async #settlePast({ db, branch, ref }: NamedRef, audit: Audit, promised: ReadonlySet<number>): Promise<void> {
    const dropped = this.#unsound({ db, branch, ref }, audit).filter((point) => !isPromised(point));
    if (dropped.length === 0) return;
    const { backend, refs } = this.#context;
    const name = formatAddress({ db, branch });
    // Until the head is sound: what brings that back may bring these back, too.
    if (isLeased(ref, this.#context) || this.#result.left.some(({ where }) => where === name)) {
      if (this.#result.left.some(({ needed_by }) => needed_by.includes(name))) return;
      const why = `Cannot repair points of ${name}: ${ref.lease?.holder} holds it`;
      const hint = `Close the session first: taskd session close ${name}`;
      this.#result.left.push({ what: "point", where: name, why, hint, needed_by: [name] });
      return;
    }
    let moved = this.#result.moved.find((each) => each.db === db && each.branch === branch);
    const { first_txid, last_txid } = moved?.lost ?? { first_txid: Infinity, last_txid: 0 };
    const lost = dropped.filter(({ txid }) => !promised.has(txid) && !(txid >= first_txid && txid <= last_txid));
    if (lost.length > 0) {
      if (moved === undefined) this.#result.moved.push(moved = { db, branch, txid: ref.txid, lost_checkpoints: [] });
      moved.lost_points = lost.length;
    }
    if (this.#options.dry_run) return;
    for (const point of dropped) {
      for (let at = audit.endOf(point); at; at = at.parent) {
        const { key } = at.object;
        if (audit.proved.has(at) || this.#aside.has(key)) continue;
        this.#aside.add(key);
        await setObjectAside(backend, this.#folder, key);
      }
    }
    const places = new Set(dropped.map(placeOf));
    await refs.update(db, branch, (ref) => {
      const logged = loggedPoints(ref);
      return withPoints(ref, logged.filter((point, index) => index === 0 || !places.has(placeOf(point))));
    });
  }

  /** In a dry run: whether everything that a point lacks would be restored. */
  #willBeSound(audit: Audit, point: HistoryPoint): boolean {
    if (!this.#options.dry_run || this.#whole.has(point)) return this.#whole.has(point);
    const end = audit.endOf(point);
    // What lies behind a gap that would be filled is not known.
    if (!end || !isWithoutGap(end)) return [...this.#tried.values()].includes(true);
    return chainTo(end).every(({ key }) => audit.proved.has(audit.history.nodes.get(key)!) || this.#tried.get(key));
  }

  async #move(
    lease: Lease,
    to: Point | undefined,
    unsound: PromisedPoint[],
    audit: Audit,
  ): Promise<string | undefined> {
    const context = this.#context;
    const { db, branch } = lease.address;
    const since = await listVersion(context.backend);
    await setObjectAside(context.backend, this.#folder, refKey(db, branch));
    // What has a gap cannot be part of any ref: its objects are kept, for the day the missing one is found.
    for (const point of unsound) {
      const end = audit.endOf(point);
      if (end && isWithoutGap(end)) continue;
      for (let at = end; at; at = at.parent) await setObjectAside(context.backend, this.#folder, at.object.key);
    }
    const kept = unsound.filter((point) => isWithoutGap(audit.endOf(point)));
    const names = new Set(unsound.flatMap(({ address }) => address.checkpoint ?? []));
    let safety: KeptBranch | undefined;
    const before = await pointIn(context, { db, branch }, lease.ref).catch(() => undefined);
    if (before && kept.length > 0) {
      // Shared at any depth: a copy would have to read what is damaged.
      safety = await keepContent({ ...context, depth_floor: Infinity }, before, { op: "repair", since });
      const checkpoints = lease.ref.checkpoints
        .filter(({ name }) => kept.some(({ address }) => address.checkpoint === name))
        .map((each) => ({ lineage: lease.ref.lineage, ...each }));
      // Until a person destroys it.
      await context.refs.update(db, safety.branch, (ref) => ({ ...endless(ref), checkpoints }));
    }
    if (to) {
      const lineage = await recordPendingLineage(context, lease, {
        point: to,
        since,
        attempted: `Cannot repair ${formatAddress(lease.address)}`,
      });
      await moveTo(context, lease, await beginLineage(context, to, { epoch: lease.epoch, lineage }), {
        entry: safety,
        op: "repair",
      });
    }
    await lease.write((ref) => ({ ...ref, checkpoints: ref.checkpoints.filter(({ name }) => !names.has(name)) }));
    return safety?.branch;
  }

  async #restoreFiles(refs: NamedRef[], audit: Audit): Promise<void> {
    const before = audit.findings.length;
    await audit.checkFiles(this.#context, refs, {});
    for (const finding of audit.findings.slice(before)) {
      const { what, where } = finding;
      if (what === "sidecar") {
        await this.#restoreSidecar(finding, refs);
        continue;
      }
      if (!this.#options.dry_run) setFileAside(this.#context.workspace, this.#folder, where);
      this.#result.restored.push({ what, where, from: "the store, when it is needed" });
    }
  }

  /** Of a checkout that a session has, or of which nothing is proved, the damaged record is left: a person decides. */
  async #restoreSidecar(finding: Finding, refs: NamedRef[]): Promise<void> {
    const context = this.#context;
    const { where } = finding;
    const address = parseAddress(finding.needed_by[0]!);
    const restore = async (ref: Ref) => {
      const point = await pointIn(context, address, ref);
      const proof = await proveCheckout(context, point);
      if (proof && !this.#options.dry_run) {
        setFileAside(context.workspace, this.#folder, where);
        await proof.record();
      }
      return proof?.by;
    };
    try {
      const { ref } = refs.find((each) => each.db === address.db && each.branch === address.branch)!;
      const from = this.#options.dry_run
        ? await restore(ref)
        : await this.#lease(address, (lease) => restore(lease.ref));
      if (from !== undefined) {
        this.#result.restored.push({ what: "sidecar", where, from });
        return;
      }
      const name = formatAddress(address);
      const hint = `Save what the checkout holds with sqlite3 .backup, then run: taskd checkout ${name} --force`;
      this.#result.left.push({ ...finding, why: `${finding.why}, and nothing proves what it continues`, hint });
    } catch (error) {
      if (!(error instanceof TaskdError)) throw error;
      this.#result.left.push({ ...finding, why: messageOf(error), hint: error.hint ?? finding.hint });
    }
  }

  /** Reports what is damaged still, beside what branches need that keep what was damaged. */
  async #verify(): Promise<void> {
    const { branch } = this.#options;
    const context = this.#context;
    const { restored, moved, left } = this.#result;
    if (this.#options.dry_run || restored.length + moved.length === 0) return;
    const unread: Finding[] = [];
    const all = await context.refs.all({ onDamaged: (key, error) => unread.push(refFinding(key, error)) });
    const refs = branch ? all.filter((each) => each.db === branch.db && each.branch === branch.branch) : all;
    const audit = await this.#audit(refs);
    await audit.checkFiles(context, refs, {});
    if (!branch) await audit.checkStore(context);
    await noteDamage(context, [...unread, ...audit.findings], !branch && unread.length === 0);
    const kept = new Set(moved.map(({ db, safety_branch }) => `${db}@${safety_branch}`));
    for (const finding of [...branch ? [] : unread, ...audit.findings]) {
      const known = finding.needed_by.map(branchOf).filter((name) => !kept.has(name));
      if (known.length === 0 && finding.needed_by.length > 0) continue;
      const reported = left.some(({ where, needed_by }) =>
        where === finding.where || known.length > 0 && known.every((name) => needed_by.map(branchOf).includes(name))
      );
      if (!reported) left.push(finding);
    }
  }

  /** Garbage is found anew without the list. No process relies on a list that cannot be read: every pass fails on it. */
  async #dropTombstones(): Promise<void> {
    const { backend } = this.#context;
    try {
      await readTombstones(backend);
    } catch (error) {
      if (!hasCode(error, "corrupt")) throw error;
      const restored = { what: "tombstones", where: TOMBSTONES_KEY, from: "the next garbage collection" } as const;
      await this.#restore(restored, () => backend.delete(TOMBSTONES_KEY));
    }
  }
}

function isPromised(point: HistoryPoint): point is PromisedPoint {
  return point.digest !== undefined;
}

/** The branch of an address. */
function branchOf(address: string): string {
  return address.split("@").slice(0, 2).join("@");
}

function isWithoutGap(end: HistoryNode | undefined): boolean {
  let at = end;
  while (at?.parent) at = at.parent;
  return at !== undefined && !at.gap;
}

/** What a branch loses that goes back to a point: the transactions, and between which times they were made. */
function lossOf(ref: Ref, txid: number): NonNullable<RepairedBranch["lost"]> {
  const known = ref.checkpoints.filter((each) => each.txid <= txid && each.lineage === undefined);
  const since = known.map(({ created_at }) => created_at).sort().at(-1);
  return {
    first_txid: txid + 1,
    last_txid: ref.txid,
    ...(since === undefined ? {} : { since }),
    until: ref.touched_at,
  };
}
