/**
 * The durable head of a session's branch, and how it moves: an object is stored and the log is forced to disk up to where
 * it was read, then the ref is swapped, which names the session and that place in the log. So after a power failure at
 * any point, the log holds all that the head has, and where the head ends in it is known.
 */

import { nextTurn } from "../clock.ts";
import { clonable } from "../fs.ts";
import { CheckoutOverwritten, stampFile } from "../sqlite/checkout_file.ts";
import { type Changes, readAhead, RebaseNeeded, type WalMark, type WalTail } from "../sqlite/wal_tail.ts";
import { pointIn, type StoreContext } from "../store/context.ts";
import type { Chain } from "../store/chain.ts";
import type { Lease } from "../store/lease.ts";
import type { Txid } from "../store/names.ts";
import type { Ref } from "../store/ref.ts";
import { assertGrowth } from "../store/object_file.ts";
import { type Head, type StoredObject, writeSegment, writeSnapshot } from "../store/objects.ts";
import { keepContent } from "../store/ops/keep.ts";
import { contentOf, PageChecksums } from "../store/page_checksums.ts";
import { listVersion } from "../store/tombstones.ts";

/** Bytes held against the store in one go, so often for one look, and how coarse file times may be. */
const EXPLAIN = { step_bytes: 4 << 20, steps: 64, tick_ms: 100 };

/** An application that changes pages to and fro has no more branches kept than one in so long. */
const KEEP_AGAIN_MS = 3_600_000;

/** Pages to store are read into memory first up to this. */
const READ_AHEAD_BYTES = 8 << 20;

export interface DurableHeadOptions {
  context: StoreContext;
  lease: Lease;
  tail: WalTail;
  checkout: string;
  head: Head;
  /** The chain that ends there. */
  chain: Chain;
  /** This start of the machine, where that is known. */
  boot: string | undefined;
  /** Receives the branch that keeps the head, and a page because of which it is kept. */
  onKept: (branch: string, pgno: number) => void;
}

export class DurableHead {
  readonly #context: StoreContext;
  readonly #lease: Lease;
  readonly #tail: WalTail;
  readonly #checkout: string;
  readonly #boot: string | undefined;
  #head: Head;
  #depth: number;
  /** Pages of the database at the head. */
  #page_count: number;
  /** Checksums of these pages; read when first a segment is stored, undefined where they could not be. */
  #checksums: PageChecksums | undefined;
  /** The chain that they are to be read from. */
  #unread: Chain | undefined;
  /** Highest txid that an object of this epoch ends at, stored or not, or of a later one; unknown before the first. */
  #attempted: Txid | undefined;
  #recorded: WalMark | undefined;
  /** Size and time of the main file when it last was what log and store explain; undefined when that is not known. */
  #explained: string | undefined;
  /** Where {@linkcode assertExplained} goes on in a large file. */
  #explain_next = 1;
  /** Pages that went back to an older content with no commit seen, and when the head was kept because of it. */
  readonly #gone_back = new Map<number, number>();
  readonly #onKept: (branch: string, pgno: number) => void;
  /** Bytes of the log that had been read when the head was. */
  #stored_bytes = 0;
  /** What the ref says of the next head. */
  #note: ((ref: Ref) => Ref) | undefined;

  constructor({ context, lease, tail, checkout, head, chain, boot, onKept }: DurableHeadOptions) {
    this.#context = context;
    this.#lease = lease;
    this.#tail = tail;
    this.#checkout = checkout;
    this.#boot = boot;
    this.#onKept = onKept;
    this.#head = head;
    this.#depth = chain.depth;
    this.#unread = chain;
    this.#page_count = tail.page_count;
    this.#explained = JSON.stringify(stampFile(checkout));
  }

  get head(): Head {
    return this.#head;
  }

  /** Segments past the newest snapshot. */
  get depth(): number {
    return this.#depth;
  }

  /** Digest of the head's content, which its checkout is stamped with; undefined where it is not known here. */
  async content(): Promise<string | undefined> {
    const known = this.#checksums;
    return known && await contentOf({ page_size: this.#tail.page_size, page_count: known.page_count }, known);
  }

  /**
   * Has the write of the next head note something in the ref, too: both are there, or neither. `change` may be called of
   * a ref that has it.
   */
  noteWithNext(change: (ref: Ref) => Ref): void {
    this.#note = change;
  }

  /** Notes now what no new head was written for. */
  async writeNote(): Promise<void> {
    if (this.#note !== undefined) await this.#lease.write(this.#note);
    this.#note = undefined;
  }

  /** The place in the log that the head is recorded to reach. */
  get recorded(): WalMark | undefined {
    return this.#recorded;
  }

  /** Bytes of the log that were read since the head was stored. */
  get unstored_log_bytes(): number {
    return this.#tail.read_bytes - this.#stored_bytes;
  }

  /** Records the place in the log that the head reaches; undefined when that is not known. */
  record(mark: WalMark | undefined): void {
    this.#recorded = mark;
    const { mark: end, read_bytes } = this.#tail;
    if (mark !== undefined) {
      this.#stored_bytes = read_bytes - (end?.salt2 === mark.salt2 ? end.offset - mark.offset : 0);
    }
    const { holder, ref } = this.#lease;
    const { txid, digest } = this.#head;
    this.#context.workspace.writeSessionRecord(this.#checkout, {
      lineage: ref.lineage,
      session: holder,
      ...(this.#boot === undefined ? {} : { boot: this.#boot }),
      heads: [{ txid, digest, mark: mark ?? null }],
    });
  }

  /**
   * Stores what the tail has pending as a segment, or all as a snapshot, and moves the head there. `anew` is a snapshot of
   * which it is not known how it came about.
   *
   * @throws {CheckoutOverwritten} when what was read is not what was committed.
   * @throws {RebaseNeeded} when what was read cannot be trusted; the changes are then pending again.
   */
  async store(what: "segment" | "snapshot" | "anew"): Promise<StoredObject> {
    const whole = what !== "segment";
    const { backend, chains, workspace } = this.#context;
    const place = { lineage: this.#lease.ref.lineage, epoch: this.#lease.epoch };
    const attempted = this.#attempted ??= await chains.taken(place.lineage, place.epoch);
    await this.#loadChecksums();
    const folded = whole && backend.clone !== undefined && await clonable(workspace.root) && this.#tail.takeover();
    // No await between this and take(): what is read later is not confirmed.
    this.#tail.confirm();
    // A file that is all of the image, and stays so while our pin is on it, can be cloned instead of read. A commit that
    // came between the two steps above is in the log alone.
    const cloned = folded && this.#tail.main_is_whole;
    const { mark, read_bytes } = this.#tail;
    const changes = this.#tail.take();
    // Never one that a failed attempt used: within an epoch a txid identifies one object, and after a
    // rebase the commits are not known, so the count alone could give other content the same txid.
    const txid = Math.max(this.#head.txid + Math.max(1, changes.commits), attempted + 1);
    this.#attempted = txid;
    let image = this.#tail.image();
    try {
      if (!whole) this.#assertGrowth(changes);
      const few = !whole && changes.pages.length * image.page_size <= READ_AHEAD_BYTES;
      if (few) {
        // Checkpoints of the application need not wait until the object is stored.
        image = readAhead(image, changes.pages);
        this.#tail.endImage();
      }
      // Beside the object, so that on one disk the two take hardly longer than one.
      const synced = this.#tail.file.syncWal();
      synced.catch(() => {});
      const object = whole
        ? await writeSnapshot(backend, place, { txid, image, ...(cloned ? { clone_path: this.#checkout } : {}) })
        : await writeSegment(backend, place, { prev: this.#head, txid, changes, image, checksums: this.#checksums });
      await synced;
      if (!few) this.#tail.endImage();
      if (what !== "anew") this.#assertCommitted(object, changes);
      await this.#keepReplaced(object, what === "anew" ? pagesTo(changes.page_count) : changes.pages, changes);
      await this.#advance(object.head, mark);
      this.#stored_bytes = read_bytes;
      this.#page_count = changes.page_count;
      this.#depth = whole ? 0 : this.#depth + 1;
      if (whole) {
        this.#checksums = PageChecksums.ofSnapshot(object.checksumOf, image.page_count, this.#checksums);
      } else {
        this.#checksums?.add(object.checksumOf, image.page_count);
      }
      return object;
    } catch (error) {
      this.#tail.giveBack(changes);
      throw error;
    }
  }

  /**
   * Holds the main file against the head and against what was committed since, unless nothing has written to it since it
   * last was. Of a large file this is a part, the next time the next one. Not while the tail's changes are incomplete.
   *
   * @throws {CheckoutOverwritten}
   */
  async assertExplained(): Promise<void> {
    const stamp = stampFile(this.#checkout);
    const explained = JSON.stringify(stamp);
    if (explained === this.#explained) return;
    await this.#loadChecksums();
    const stored = (pgno: number) => this.#checksums?.of(pgno);
    const { page_size, page_count } = this.#tail;
    const step = EXPLAIN.step_bytes / page_size;
    const buffer = new Uint8Array(EXPLAIN.step_bytes);
    for (let steps = 0; steps < EXPLAIN.steps && steps * step < page_count; steps++) {
      if (this.#explain_next > page_count) this.#explain_next = 1;
      const first = this.#explain_next;
      this.#tail.assertExplained(first, Math.min(step, page_count - first + 1), stored, buffer);
      this.#explain_next = first + step;
      await nextTurn();
    }
    // A later write within the same tick of the file system's clock would not show.
    const settled = stamp && this.#context.clock.now() - Number(BigInt(stamp.mtime_ns) / 1_000_000n) > EXPLAIN.tick_ms;
    this.#explained = settled ? explained : undefined;
  }

  async #loadChecksums(): Promise<void> {
    if (!this.#unread) return;
    this.#checksums = await PageChecksums.load(this.#context.backend, this.#unread, this.#head.digest);
    this.#unread = undefined;
  }

  /** Each page that was stored is as it was committed, or as the head has it. */
  #assertCommitted(object: StoredObject, { pages, checksums, page_count }: Changes): void {
    const changed = new Set(pages);
    for (let pgno = 1; pgno <= page_count; pgno++) {
      const found = object.checksumOf(pgno);
      const expected = changed.has(pgno) ? checksums?.get(pgno) : this.#checksums?.of(pgno);
      if (found !== undefined && expected !== undefined && found !== expected) {
        throw new CheckoutOverwritten(this.#checkout, `was overwritten: page ${pgno} is not what was committed`);
      }
    }
  }

  /**
   * Keeps the head as a branch of its own where pages go back to what they were before it, and no commit that was seen has
   * changed them: an older copy may have been written over the file. Once an hour
   * for each page: an application may do the same.
   */
  async #keepReplaced(object: StoredObject, pages: Iterable<number>, { checksums }: Changes): Promise<void> {
    const gone_back: number[] = [];
    for (const pgno of pages) {
      const found = checksums?.has(pgno) ? undefined : object.checksumOf(pgno);
      if (found !== undefined && this.#checksums?.isOlder(pgno, found)) gone_back.push(pgno);
    }
    const now_ms = this.#context.clock.monotonic();
    if (gone_back.every((pgno) => now_ms - (this.#gone_back.get(pgno) ?? -Infinity) < KEEP_AGAIN_MS)) return;
    const { address, ref } = this.#lease;
    const point = await pointIn(this.#context, address, ref);
    const since = await listVersion(this.#context.backend);
    const { branch } = await keepContent(this.#context, point, { op: "recovery", since, once: true });
    for (const pgno of gone_back) this.#gone_back.set(pgno, now_ms);
    this.#onKept(branch, gone_back[0]!);
  }

  #assertGrowth(changes: Changes): void {
    try {
      assertGrowth(Math.min(this.#page_count, changes.low_page_count), new Set(changes.pages), {
        page_size: this.#tail.page_size,
        page_count: changes.page_count,
      });
    } catch (error) {
      throw new RebaseNeeded((error as Error).message);
    }
  }

  async #advance(head: Head, mark: WalMark | undefined): Promise<void> {
    const { txid, digest } = head;
    // A stamp of a file that lacks part of the head is from before SQLite says so, one of a whole file from after.
    const before = stampFile(this.#checkout);
    const whole = this.#tail.mainHas(mark);
    const main = whole ? stampFile(this.#checkout) : before;
    const captured = {
      digest,
      holder: this.#lease.holder,
      ...(mark === undefined ? {} : { log: mark }),
      ...(main === undefined ? {} : { main, whole }),
    };
    const touched_at = new Date(this.#context.clock.now()).toISOString();
    const note = this.#note ?? ((ref: Ref) => ref);
    await this.#lease.write((ref) =>
      ref.txid === txid && ref.digest === digest ? undefined : note({ ...ref, txid, digest, captured, touched_at })
    );
    this.#note = undefined;
    this.#head = head;
    this.#recorded = mark;
  }
}

function* pagesTo(page_count: number): Generator<number> {
  for (let pgno = 1; pgno <= page_count; pgno++) yield pgno;
}
