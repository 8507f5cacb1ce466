/**
 * Writable checkouts of branches at rest: creating them, checking whether they hold edits
 * that no store object has yet, and reading them consistently.
 *
 * A checkout is never overwritten unless its content is known to be in the store, or the
 * caller allows dropping the edits; and never while an application has it open and locked.
 */

import type { Clock } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { clonable, cloneFile, discard, fileError, fsyncFile, isThere, removeIfPresent } from "../fs.ts";
import { retryWhileBusy } from "../retry_while_busy.ts";
import {
  backdate,
  type FileStamp,
  hasWal,
  readChangeCounter,
  requirePlainFile,
  stampFile,
} from "../sqlite/checkout_file.ts";
import { LockedDatabase } from "../sqlite/locked_database.ts";
import { logEndsAt } from "../sqlite/log_place.ts";
import { rawImage } from "../sqlite/raw_image.ts";
import type { DatabaseImage, WalMark } from "../sqlite/wal_tail.ts";
import type { Chain } from "./chain.ts";
import { withRawFiles } from "./checkout_survey.ts";
import { type ChainCache, contentIn, imageSha256 } from "./chain_cache.ts";
import { materialize } from "./materialize.ts";
import { contentOf } from "./page_checksums.ts";
import { takeFile, type TakenFile } from "./file_in_use.ts";
import { openQuietCheckout, type QuietCheckout } from "./quiet_checkout.ts";
import type { Backend } from "../backend/backend.ts";
import type { Ref, Refs } from "./ref.ts";
import type { CheckoutResult, LongOptions, WaitOptions } from "./results.ts";
import type { Origin, RecordedHead, SessionRecord, Sidecar, Workspace } from "./workspace.ts";
import { renewHeld } from "./lease.ts";
import { companions, sameOrigin } from "./workspace.ts";

/** A file's time must be this much older than its stamp to prove anything: file times are coarse. */
const CLEAN_MARGIN_MS = 1_000;
/** How often, and after how many milliseconds, a checkout that SQLite could not read is opened again. */
const REPLACED = { tries: 20, pause_ms: 5 };
/** How long an operation at rest waits for another process's lock. */
const BUSY_TIMEOUT_MS = 2_000;
/** Which history a checkout belongs to. */
export type CheckoutIdentity =
  /** The branch's current one: what is in it continues the head. */
  | "current"
  /** Another one: the branch was moved under it. */
  | "foreign"
  /** Its sidecar is missing. */
  | "unknown";

/** A checkout as {@linkcode Checkouts.inspect} finds it. */
export interface CheckoutView {
  path: string;
  identity: CheckoutIdentity;
  /** Proved clean by size and time alone; false proves nothing. */
  stat_clean: boolean;
  /** A session was capturing it and did not close. */
  interrupted: boolean;
  /** Where in the log the branch's head ends, as far as that is known: at one of these. */
  marks: WalMark[];
}

/** A branch and the content that it should hold. */
export interface CheckoutTarget {
  db: string;
  branch: string;
  ref: Ref;
  chain: Chain;
}

export interface CheckoutsContext {
  workspace: Workspace;
  backend: Backend;
  refs: Refs;
  cache: ChainCache;
  clock: Clock;
}

export class Checkouts {
  readonly #context: CheckoutsContext;

  constructor(context: CheckoutsContext) {
    this.#context = context;
  }

  /**
   * Inspects a branch's checkout without opening it in SQLite; undefined when there is none, or none any more: nothing
   * keeps it from being removed or replaced meanwhile.
   */
  inspect(target: CheckoutTarget): CheckoutView | undefined {
    const { workspace } = this.#context;
    const path = workspace.checkout(target.db, target.branch);
    workspace.requireInside(path);
    try {
      requirePlainFile(path);
      return this.#viewOf(path, target);
    } catch (error) {
      if (hasCode(error, "not_found")) return undefined;
      throw error;
    }
  }

  #viewOf(path: string, { ref, chain }: CheckoutTarget): CheckoutView {
    const { workspace } = this.#context;
    const { captured, digest } = ref;
    const marks = captured?.log && captured.digest === digest ? [captured.log] : [];
    const record = workspace.sessionRecord(path);
    if (record) {
      const head = recordedHead(record, ref);
      const identity = head ? "current" : "foreign";
      if (head?.mark) marks.push(head.mark);
      if (record.heads.length === 0) marks.length = 0;
      return { path, identity, stat_clean: false, interrupted: true, marks };
    }
    const sidecar = workspace.sidecar(path);
    if (!sidecar) return { path, identity: "unknown", stat_clean: false, interrupted: false, marks };
    // A damaged session record would have known of heads that came after the sidecar.
    const other = isThere(`${path}.session`) ? "unknown" : "foreign";
    return {
      path,
      marks,
      identity: sameOrigin(sidecar, originOf({ ref, chain })) ? "current" : other,
      stat_clean: isStatClean(path, sidecar),
      interrupted: false,
    };
  }

  /**
   * Whether a checkout's content is that of the chain, by a full hash. False also when it cannot be read as a database, and
   * where a commit may have come that waited for the comparison to end. A log that may have the place where the head ends is
   * left as it is: SQLite would fold it, and the next opening goes by it.
   */
  async hasContentOf({ path, interrupted, marks }: CheckoutView, target: CheckoutTarget): Promise<boolean> {
    // The store's own errors are not taken for a difference.
    await this.#context.cache.sha256(target.db, target.chain, target.ref.digest);
    try {
      if (interrupted || marks.length > 0) {
        return await withRawFiles(path, (file) => this.sameContent({ image: rawImage(file) }, target));
      }
      let held: { main: string; all: string };
      {
        using quiet = await this.open(path);
        if (!await this.sameContent(quiet, target)) return false;
        held = { main: JSON.stringify(stampFile(path)), all: this.fileStamp(path) };
      }
      // The last connection to close removes the log, which is folded by then.
      const folded = !hasWal(path) && JSON.stringify(stampFile(path)) === held.main;
      return folded || this.fileStamp(path) === held.all;
    } catch (error) {
      // A writer at work, or bytes that are not a database: in either case not the stored content.
      if (hasCode(error, "busy", "not_a_database", "corrupt", "capture_failed")) return false;
      throw error;
    }
  }

  /** Records that a checkout holds just the chain's content, if it does; false also when it cannot be read as a database. */
  async stampIfSame(path: string, target: CheckoutTarget): Promise<boolean> {
    // The store is read first, so that its own failures are not taken for a difference.
    await this.#context.cache.sha256(target.db, target.chain, target.ref.digest);
    try {
      using quiet = await this.open(path);
      if (!await this.sameContent(quiet, target)) return false;
      await this.stamp(quiet, target);
      return true;
    } catch (error) {
      if (hasCode(error, "not_a_database", "corrupt", "capture_failed")) return false;
      throw error;
    }
  }

  /** Whether the content of a checkout that is held quiet is that of the chain. */
  async sameContent({ image }: { image: DatabaseImage }, { db, ref, chain }: CheckoutTarget): Promise<boolean> {
    return await imageSha256(image) ===
      await this.#context.cache.sha256(db, chain, ref.digest);
  }

  /** Opens a checkout at rest behind a write barrier; throws `busy` when another process is writing to it. */
  async open(path: string): Promise<QuietCheckout> {
    for (let tries = 1;; tries++) {
      try {
        return await retryWhileBusy(this.#context.clock, () => openQuietCheckout(path), BUSY_TIMEOUT_MS);
      } catch (error) {
        // SQLite's error for a file that another command is replacing, its -wal first; and the tail's for a log that an
        // application starts over at that moment. Over soon, if that is the cause.
        if (!hasCode(error, "unavailable", "capture_failed") || tries === REPLACED.tries) throw error;
        await this.#context.clock.sleep(REPLACED.pause_ms);
      }
    }
  }

  /** Size and time of a checkout and its log, if anything is in that: a commit shows in it. */
  fileStamp(path: string): string {
    return JSON.stringify([stampFile(path), hasWal(path) && stampFile(`${path}-wal`)]);
  }

  /**
   * Takes a branch's checkout, or the place of one, for this process alone, to replace or remove it. Nothing else in this
   * process may open the file until it is given up.
   *
   * @throws {TaskdError} `busy` when an application has it open.
   */
  async take(
    db: string,
    branch: string,
    attempted: string,
    wait: WaitOptions & LongOptions,
  ): Promise<TakenFile> {
    const { workspace, clock } = this.#context;
    const path = workspace.checkout(db, branch);
    workspace.requireInside(path);
    return await takeFile(path, attempted, { ...wait, clock, by: workspace.beside(path) });
  }

  /**
   * Makes or replaces a branch's checkout with the chain's content. The caller has made sure that nothing is lost;
   * `fileStamp` is the file's at that time, and one that was edited since is left alone: `dirty`. `taken` is the file, if
   * the caller has it; otherwise `busy` is thrown while an application has it open. A log that holds all of the head up to
   * the place `log` stays, with what follows in it.
   *
   * The new file comes up locked, and is given up once its records are written: until then no other process replaces it.
   *
   * @throws {TaskdError} Of a branch that is no longer as `target` has it, lease included: `fenced`, or its claim's code.
   */
  async restore(
    target: CheckoutTarget,
    options: { fileStamp?: string; taken?: TakenFile; log?: WalMark } & WaitOptions & LongOptions = {},
  ): Promise<Pick<CheckoutResult, "path" | "source">> {
    const { db, branch, ref, chain } = target;
    const { workspace, backend, cache } = this.#context;
    const path = workspace.checkout(db, branch);
    const temporary = workspace.beside(path);
    let shadow: string | undefined;
    let source: CheckoutResult["source"] = "materialized";
    using held = new DisposableStack();
    // First of all: an application that comes up meanwhile is kept waiting, and is not left with a file that is gone.
    const taken = options.taken ?? held.use(await this.take(db, branch, `Cannot replace ${path}`, options));
    try {
      const cloned = await cache.cloneTo(db, chain, ref.digest, temporary, options);
      if (cloned) {
        if (!cloned.built) source = "cached";
        Deno.chmodSync(temporary, 0o600);
        await fsyncFile(temporary);
        shadow = workspace.beside(path);
        Deno.copyFileSync(temporary, shadow);
      } else {
        await materialize(backend, chain, ref.digest, temporary, options);
      }
      const content = cloned ? cloned.content : await contentIn(temporary);
      await renewHeld(this.#context, target);
      if (options.fileStamp !== undefined && this.fileStamp(path) !== options.fileStamp) {
        throw new TaskdError("dirty", `Cannot replace ${path}: it was edited meanwhile`, {
          hint:
            "Make a checkpoint or open a session to keep the edits, or check the branch out with --force to drop them",
        });
      }
      const made = { change_counter: readChangeCounter(temporary) ?? 0 };
      held.use(LockedDatabase.open(temporary, workspace.beside(path)));
      // The records stay until the new ones: should the rename not happen, they still say what the old file is. The
      // sidecar proves nothing about the new one, whose size and time differ; of a session's record the log is gone.
      const kept = [".sum", ".session", ...(options.log === undefined ? [] : ["-wal"])].map((suffix) => path + suffix);
      taken.replace(temporary, companions(path).filter((file) => !kept.includes(file)));
      if (options.log) this.claim(target, options.log);
      else {
        const stamp = shadow === undefined ? null : this.#putShadow(path, shadow);
        this.#writeStamp(path, originOf(target), { shadow: stamp, content, ...made });
        removeIfPresent(`${path}.session`);
      }
    } catch (error) {
      discard(temporary);
      throw fileError(error, `Cannot write ${path}`);
    } finally {
      if (shadow !== undefined) discard(shadow);
    }
    await workspace.settle(path);
    return { path, source };
  }

  /** Records that a checkout continues the branch's head, which ends in its log at `mark`. */
  claim({ db, branch, ref: { lineage, txid, digest } }: CheckoutTarget, mark: WalMark | undefined): void {
    const { workspace } = this.#context;
    const path = workspace.checkout(db, branch);
    this.#rewriteRecord(path, { lineage, heads: [{ txid, digest, mark: mark ?? null }] });
  }

  /** Whether there is a checkout that belongs to the branch's head, going by what lies beside it. */
  belongs({ db, branch, ref, chain }: CheckoutTarget): boolean {
    const { workspace } = this.#context;
    const path = workspace.checkout(db, branch);
    if (!stampFile(path)) return false;
    const record = workspace.sessionRecord(path);
    if (record) return recordedHead(record, ref) !== undefined;
    return sameOrigin(workspace.sidecar(path), originOf({ ref, chain }));
  }

  /**
   * Records that a branch is about to get the head `next`. Its checkout then belongs to either head, so that edits made
   * since are still the branch's own whenever this process dies. A stamp or {@linkcode rebind} ends the record.
   *
   * @returns Whether there was a record before, of a session that was cut off.
   */
  recordPending(
    { db, branch, ref }: CheckoutTarget,
    next: Omit<RecordedHead, "mark"> & { same_content: boolean },
  ): boolean {
    const { workspace } = this.#context;
    const path = workspace.checkout(db, branch);
    const record = workspace.sessionRecord(path);
    const mark = record ? recordedHead(record, ref)?.mark ?? null : null;
    const { same_content, ...head } = next;
    this.#rewriteRecord(path, {
      lineage: ref.lineage,
      heads: [{ txid: ref.txid, digest: ref.digest, mark }, { ...head, mark: same_content ? mark : null }],
    });
    return record !== undefined;
  }

  /** Records that a checkout, which is quiet now, holds exactly the target's content. */
  async stamp(quiet: QuietCheckout, { ref, chain }: CheckoutTarget): Promise<void> {
    const { path } = quiet;
    const shadow = quiet.complete && await clonable(this.#context.workspace.root) ? await this.#shadowOf(quiet) : null;
    if (!shadow) removeIfPresent(`${path}.shadow`);
    if (quiet.complete) {
      const content = await contentOf(quiet.image);
      this.#writeStamp(path, originOf({ ref, chain }), { shadow, content, change_counter: quiet.change_counter });
      removeIfPresent(`${path}.session`);
      return;
    }
    // A reader holds part of the content in the log: size and time of the main file would prove nothing about it.
    const { lineage, txid, digest } = ref;
    this.#context.workspace.writeSessionRecord(path, { lineage, heads: [{ txid, digest, mark: null }] });
    removeIfPresent(`${path}.sum`);
  }

  /** Records the same of a checkout that the calling session holds quiet, and ends its session record. */
  stampHeld(
    path: string,
    content: Pick<CheckoutTarget, "ref" | "chain">,
    held: { change_counter: number; content?: string | undefined; log?: WalMark | undefined },
  ): void {
    removeIfPresent(`${path}.shadow`);
    this.#writeStamp(path, originOf(content), { shadow: null, ...held });
    removeIfPresent(`${path}.session`);
  }

  /**
   * Binds a checkout of `before` to `after`, the same content under another chain.
   *
   * @param interrupted What {@linkcode recordPending} returned.
   */
  rebind(before: CheckoutTarget, after: CheckoutTarget, interrupted: boolean): void {
    const { workspace } = this.#context;
    const path = workspace.checkout(before.db, before.branch);
    const sidecar = workspace.sidecar(path);
    if (sidecar && sameOrigin(sidecar, originOf(before))) {
      workspace.writeSidecar(path, { ...sidecar, ...originOf(after) });
      if (!interrupted) return removeIfPresent(`${path}.session`);
    }
    const record = workspace.sessionRecord(path);
    const head = record && recordedHead(record, before.ref);
    if (!head) return;
    const { lineage, txid, digest } = after.ref;
    this.#rewriteRecord(path, { lineage, heads: [{ txid, digest, mark: head.mark }] });
  }

  /** The shadow beside a checkout, if it still is what the branch's head holds. */
  shadow(path: string, content: Pick<CheckoutTarget, "ref" | "chain">): string | undefined {
    const sidecar = this.#context.workspace.sidecar(path);
    if (!sidecar?.shadow || !sameOrigin(sidecar, originOf(content))) return undefined;
    const found = stampFile(`${path}.shadow`);
    const same = found?.size === sidecar.shadow.size &&
      found.mtime_ns === sidecar.shadow.mtime_ns;
    return same ? `${path}.shadow` : undefined;
  }

  /**
   * Records that what is at a checkout's path may be anything: no head is known to be in it, whatever its log says. It is
   * kept.
   */
  disown(path: string, { lineage }: Ref): void {
    this.#context.workspace.writeSessionRecord(path, { lineage, heads: [] });
    for (const suffix of [".sum", ".shadow"]) removeIfPresent(path + suffix);
  }

  /** Writes a record anew. The start of the machine stays in it: what a checkout may have lost since goes by that. */
  #rewriteRecord(path: string, record: Pick<SessionRecord, "lineage" | "heads">): void {
    const { workspace } = this.#context;
    const boot = workspace.sessionRecord(path)?.boot;
    workspace.writeSessionRecord(path, { ...record, ...(boot === undefined ? {} : { boot }) });
  }

  /** Removes a checkout that was taken, with what lies beside it. */
  remove(taken: TakenFile): void {
    this.#context.workspace.requireInside(taken.path);
    taken.remove(companions(taken.path));
  }

  /** Clones a shadow; null where the workspace clones and this very file cannot be. */
  async #shadowOf({ path, image }: QuietCheckout): Promise<FileStamp | null> {
    const temporary = this.#context.workspace.beside(path);
    try {
      await cloneFile(path, temporary);
    } catch (error) {
      if (hasCode(error, "unavailable")) return null;
      throw error;
    }
    // A file may have more behind its last page: pages that the database grows by later are not to be compared with it.
    const bytes = image.page_count * image.page_size;
    if (stampFile(temporary)?.size !== bytes) Deno.truncateSync(temporary, bytes);
    return this.#putShadow(path, temporary);
  }

  #putShadow(path: string, temporary: string): FileStamp {
    const shadow = `${path}.shadow`;
    Deno.chmodSync(temporary, 0o400);
    Deno.renameSync(temporary, shadow);
    return stampFile(shadow)!;
  }

  #writeStamp(
    path: string,
    origin: Origin,
    { shadow, log, ...more }: { shadow: FileStamp | null } & Parameters<Checkouts["stampHeld"]>[2],
  ): void {
    const { workspace, clock } = this.#context;
    const known = workspace.sidecar(path);
    const content = more.content ?? (known?.digest === origin.digest ? known.content : undefined);
    const now_ms = clock.now();
    backdate(path, now_ms);
    const stamp = stampFile(path);
    if (!stamp) throw goneMeanwhile(path);
    workspace.writeSidecar(path, {
      ...origin,
      ...stamp,
      change_counter: more.change_counter,
      stamped_ns: `${now_ms}000000`,
      shadow,
      ...(content === undefined ? {} : { content }),
      ...(log === undefined ? {} : { log }),
    });
  }
}

/** Of a checkout that another process removed while an operation was at it. */
export function goneMeanwhile(path: string): TaskdError {
  return new TaskdError("not_found", `${path} was removed meanwhile`, { hint: "Run the command again" });
}

function originOf({ ref, chain }: Pick<CheckoutTarget, "ref" | "chain">): Origin {
  return { chain_id: chain.id, digest: ref.digest };
}

/** The branch's head as a record, or the ref for the record's session, has it; undefined when it is neither's. */
function recordedHead(record: SessionRecord, { lineage, txid, digest, captured }: Ref): RecordedHead | undefined {
  const recorded = record.heads.find((head) =>
    (head.lineage ?? record.lineage) === lineage && head.txid === txid && head.digest === digest
  );
  if (recorded || record.lineage !== lineage || captured?.digest !== digest) return recorded;
  return captured.holder === record.session ? { txid, digest, mark: captured.log ?? null } : undefined;
}

/** The stat-only clean check of the contract. A -wal with anything in it but what is stored is a possible edit. */
function isStatClean(path: string, sidecar: Sidecar): boolean {
  const found = stampFile(path);
  if (!found || (hasWal(path) && !(sidecar.log && logEndsAt(path, sidecar.log)))) return false;
  const age_ns = BigInt(sidecar.stamped_ns) - BigInt(found.mtime_ns);
  return found.size === sidecar.size && found.mtime_ns === sidecar.mtime_ns &&
    age_ns > BigInt(CLEAN_MARGIN_MS) * 1_000_000n &&
    readChangeCounter(path) === sidecar.change_counter;
}
