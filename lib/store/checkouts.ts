/**
 * Writable checkouts of branches at rest: creating them, checking whether they hold edits
 * that no store object has yet, and reading them consistently.
 *
 * A checkout is never overwritten unless its content is known to be in the store, or the
 * caller allows dropping the edits.
 */

import type { Clock } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { clonable, cloneFile, discard, fileError, removeIfPresent } from "../fs.ts";
import {
  backdate,
  type FileStamp,
  hasWal,
  readChangeCounter,
  requirePlainFile,
  stampFile,
} from "../sqlite/checkout_file.ts";
import type { Chain } from "./chain.ts";
import { type ChainCache, imageSha256 } from "./chain_cache.ts";
import { materialize } from "./materialize.ts";
import { openQuietCheckout, type QuietCheckout } from "./quiet_checkout.ts";
import type { Backend } from "../backend/backend.ts";
import type { Ref } from "./ref.ts";
import type { CheckoutResult, LongOptions } from "./results.ts";
import type { Origin, RecordedHead, SessionRecord, Sidecar, Workspace } from "./workspace.ts";
import { companions, sameOrigin } from "./workspace.ts";

/** A file's time must be this much older than its stamp to prove anything: file times are coarse. */
const CLEAN_MARGIN_MS = 1_000;
/** How often, and after how many milliseconds, a checkout that SQLite could not read is opened again. */
const REPLACED = { tries: 20, pause_ms: 5 };
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
  cache: ChainCache;
  clock: Clock;
}

export class Checkouts {
  readonly #context: CheckoutsContext;

  constructor(context: CheckoutsContext) {
    this.#context = context;
  }

  /** Inspects a branch's checkout without opening it; undefined when there is none. */
  inspect({ db, branch, ref, chain }: CheckoutTarget): CheckoutView | undefined {
    const { workspace } = this.#context;
    const path = workspace.checkout(db, branch);
    workspace.requireInside(path);
    try {
      requirePlainFile(path);
    } catch (error) {
      if (hasCode(error, "not_found")) return undefined;
      throw error;
    }
    const record = workspace.sessionRecord(path);
    if (record) {
      const identity = recordedHead(record, ref) ? "current" : "foreign";
      return { path, identity, stat_clean: false, interrupted: true };
    }
    const sidecar = workspace.sidecar(path);
    if (!sidecar) return { path, identity: "unknown", stat_clean: false, interrupted: false };
    return {
      path,
      identity: sameOrigin(sidecar, originOf({ ref, chain })) ? "current" : "foreign",
      stat_clean: isStatClean(path, sidecar),
      interrupted: false,
    };
  }

  /** Whether a checkout's content is that of the chain, by a full hash. False also when it cannot be read as a database. */
  async hasContentOf(path: string, target: CheckoutTarget): Promise<boolean> {
    return await this.unchangedStamp(path, target) !== undefined;
  }

  /**
   * The {@linkcode fileStamp} of a checkout with just the chain's content, undefined of any other. It does not cover a
   * commit that waits for the comparison to end.
   */
  async unchangedStamp(path: string, target: CheckoutTarget): Promise<string | undefined> {
    // The store's own errors are not taken for a difference.
    await this.#context.cache.sha256(target.db, target.chain, target.ref.digest);
    let held: { main: string; all: string };
    try {
      using quiet = this.open(path);
      if (!await this.sameContent(quiet, target)) return undefined;
      held = { main: JSON.stringify(stampFile(path)), all: this.fileStamp(path) };
    } catch (error) {
      // A writer at work, or bytes that are not a database: in either case not the stored content.
      if (hasCode(error, "busy", "not_a_database", "corrupt", "capture_failed")) return undefined;
      throw error;
    }
    // The last connection to close removes the log, which is folded by then.
    const folded = !hasWal(path) && JSON.stringify(stampFile(path)) === held.main;
    const found = this.fileStamp(path);
    return folded || found === held.all ? found : undefined;
  }

  /** Whether the content of a checkout that is held quiet is that of the chain. */
  async sameContent(quiet: QuietCheckout, { db, ref, chain }: CheckoutTarget): Promise<boolean> {
    return await imageSha256(quiet.image) ===
      await this.#context.cache.sha256(db, chain, ref.digest);
  }

  /** Opens a checkout at rest behind a write barrier; throws `busy` when another process is writing to it. */
  open(path: string): QuietCheckout {
    for (let tries = 1;; tries++) {
      try {
        return openQuietCheckout(path);
      } catch (error) {
        // SQLite's error for a file that another command is replacing, its -wal first: over soon, if that is the cause.
        if (!hasCode(error, "unavailable") || tries === REPLACED.tries) throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, REPLACED.pause_ms);
      }
    }
  }

  /** Size and time of a checkout and its log: a commit shows in it. */
  fileStamp(path: string): string {
    return JSON.stringify([stampFile(path), stampFile(`${path}-wal`)]);
  }

  /**
   * Makes or replaces a branch's checkout with the chain's content. The caller has made sure that nothing is lost;
   * `fileStamp` is the file's at that time, and one that was edited since is left alone: `dirty`.
   */
  async restore(
    target: CheckoutTarget,
    options: { fileStamp?: string } & LongOptions = {},
  ): Promise<Pick<CheckoutResult, "path" | "source">> {
    const { db, branch, ref, chain } = target;
    const { workspace, backend, cache } = this.#context;
    const path = workspace.checkout(db, branch);
    const temporary = workspace.beside(path);
    let shadow: FileStamp | null = null;
    let source: CheckoutResult["source"] = "materialized";
    try {
      const cloned = await cache.cloneTo(db, chain, ref.digest, temporary, options);
      if (cloned) {
        if (!cloned.built) source = "cached";
        Deno.chmodSync(temporary, 0o600);
        shadow = this.#putShadow(path, (shadow_path) => Deno.copyFileSync(temporary, shadow_path));
      } else {
        await materialize(backend, chain, ref.digest, temporary, options);
      }
      if (options.fileStamp !== undefined && this.fileStamp(path) !== options.fileStamp) {
        throw new TaskdError("dirty", `Cannot replace ${path}: it was edited meanwhile`, {
          hint:
            "Make a checkpoint or open a session to keep the edits, or check the branch out with --force to drop them",
        });
      }
      this.#install(temporary, path, shadow !== null);
    } catch (error) {
      discard(temporary);
      throw fileError(error, `Cannot write ${path}`);
    }
    this.#writeStamp(path, originOf(target), { shadow, change_counter: readChangeCounter(path) ?? 0 });
    return { path, source };
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
    workspace.writeSessionRecord(path, {
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
      this.#writeStamp(path, originOf({ ref, chain }), { shadow, change_counter: quiet.change_counter });
      removeIfPresent(`${path}.session`);
      return;
    }
    // A reader holds part of the content in the log: size and time of the main file would prove nothing about it.
    const { lineage, txid, digest } = ref;
    this.#context.workspace.writeSessionRecord(path, { lineage, heads: [{ txid, digest, mark: null }] });
    removeIfPresent(`${path}.sum`);
  }

  /** Records the same of a checkout that the calling session holds quiet, and ends its session record. */
  stampHeld(path: string, content: Pick<CheckoutTarget, "ref" | "chain">, change_counter: number): void {
    removeIfPresent(`${path}.shadow`);
    this.#writeStamp(path, originOf(content), { shadow: null, change_counter });
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
    workspace.writeSessionRecord(path, { lineage, heads: [{ txid, digest, mark: head.mark }] });
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

  remove(db: string, branch: string): void {
    const path = this.#context.workspace.checkout(db, branch);
    this.#context.workspace.requireInside(path);
    for (const file of [path, ...companions(path)]) removeIfPresent(file);
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
    return this.#putShadow(path, (shadow_path) => Deno.renameSync(temporary, shadow_path));
  }

  #putShadow(path: string, make: (shadow_path: string) => void): FileStamp {
    const shadow = `${path}.shadow`;
    removeIfPresent(shadow);
    make(shadow);
    Deno.chmodSync(shadow, 0o400);
    return stampFile(shadow)!;
  }

  /**
   * Puts a new file at a checkout's path. The old one's companions go first: a -wal must never meet another main file.
   * The sidecar stays until the next stamp: should the rename not happen, it still proves that the old file is clean;
   * it proves nothing about the new one, whose size and time differ.
   */
  #install(temporary: string, path: string, keep_shadow: boolean): void {
    const kept = [".sum", ...(keep_shadow ? [".shadow"] : [])].map((suffix) => path + suffix);
    for (const file of companions(path)) if (!kept.includes(file)) removeIfPresent(file);
    Deno.renameSync(temporary, path);
  }

  #writeStamp(path: string, origin: Origin, stamp: { shadow: FileStamp | null; change_counter: number }): void {
    const { shadow, change_counter } = stamp;
    const now_ms = this.#context.clock.now();
    backdate(path, now_ms);
    this.#context.workspace.writeSidecar(path, {
      ...origin,
      ...stampFile(path)!,
      change_counter,
      stamped_ns: `${now_ms}000000`,
      shadow,
    });
  }
}

function originOf({ ref, chain }: Pick<CheckoutTarget, "ref" | "chain">): Origin {
  return { chain_id: chain.id, digest: ref.digest };
}

/** The entry of a record for the branch's head; undefined when that is not among its heads. */
function recordedHead(record: SessionRecord, ref: Ref): RecordedHead | undefined {
  return record.heads.find(({ lineage = record.lineage, txid, digest }) =>
    lineage === ref.lineage && txid === ref.txid && digest === ref.digest
  );
}

/** The stat-only clean check of the contract. A -wal with anything in it is a possible edit. */
function isStatClean(path: string, sidecar: Sidecar): boolean {
  const found = stampFile(path);
  if (!found || hasWal(path)) return false;
  const age_ns = BigInt(sidecar.stamped_ns) - BigInt(found.mtime_ns);
  return found.size === sidecar.size && found.mtime_ns === sidecar.mtime_ns &&
    age_ns > BigInt(CLEAN_MARGIN_MS) * 1_000_000n &&
    readChangeCounter(path) === sidecar.change_counter;
}
