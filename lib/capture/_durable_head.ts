/**
 * The durable head of a session's branch, and how it moves: an object is stored, the record beside the
 * checkout names both heads, and only then the ref is swapped. So after a crash at any point one of the recorded
 * heads is the branch's, together with the place in the log that it reaches.
 */

import { clonable } from "../fs.ts";
import { type Changes, RebaseNeeded, type WalMark, type WalTail } from "../sqlite/wal_tail.ts";
import type { StoreContext } from "../store/context.ts";
import type { Chain } from "../store/chain.ts";
import type { Lease } from "../store/lease.ts";
import type { Txid } from "../store/names.ts";
import { assertGrowth } from "../store/object_file.ts";
import { type Head, type StoredObject, writeSegment, writeSnapshot } from "../store/objects.ts";
import { PageChecksums } from "../store/page_checksums.ts";

export interface DurableHeadOptions {
  context: StoreContext;
  lease: Lease;
  tail: WalTail;
  checkout: string;
  head: Head;
  /** The chain that ends there. */
  chain: Chain;
}

export class DurableHead {
  readonly #context: StoreContext;
  readonly #lease: Lease;
  readonly #tail: WalTail;
  readonly #checkout: string;
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

  constructor({ context, lease, tail, checkout, head, chain }: DurableHeadOptions) {
    this.#context = context;
    this.#lease = lease;
    this.#tail = tail;
    this.#checkout = checkout;
    this.#head = head;
    this.#depth = chain.depth;
    this.#unread = chain;
    this.#page_count = tail.page_count;
  }

  get head(): Head {
    return this.#head;
  }

  /** Segments past the newest snapshot. */
  get depth(): number {
    return this.#depth;
  }

  /** The place in the log that the head is recorded to reach. */
  get recorded(): WalMark | undefined {
    return this.#recorded;
  }

  /** Takes over the record that a former session left: it stays true until the head moves. */
  resume(mark: WalMark): void {
    this.#recorded = mark;
  }

  /** Records the place in the log that the head reaches; undefined when that is not known. */
  record(mark: WalMark | undefined): void {
    this.#recorded = mark;
    this.#write([{ head: this.#head, mark }]);
  }

  /**
   * Stores what the tail has pending as a segment, or all as a snapshot, and moves the head there.
   *
   * @throws {RebaseNeeded} when what was read cannot be trusted; the changes are then pending again.
   */
  async store(whole: boolean): Promise<StoredObject> {
    const { backend, chains, workspace } = this.#context;
    const place = { lineage: this.#lease.ref.lineage, epoch: this.#lease.epoch };
    const attempted = this.#attempted ??= await chains.taken(place.lineage, place.epoch);
    if (!whole && this.#unread) {
      this.#checksums = await PageChecksums.load(backend, this.#unread, this.#head.digest);
      this.#unread = undefined;
    }
    const folded = whole && backend.clone !== undefined && await clonable(workspace.root) && this.#tail.takeover();
    // No await between this and take(): what is read later is not confirmed.
    this.#tail.confirm();
    // A file that is all of the image, and stays so while our pin is on it, can be cloned instead of read. A commit that
    // came between the two steps above is in the log alone.
    const cloned = folded && this.#tail.main_is_whole;
    const mark = this.#tail.mark;
    const changes = this.#tail.take();
    // Never one that a failed attempt used: within an epoch a txid identifies one object, and after a
    // rebase the commits are not known, so the count alone could give other content the same txid.
    const txid = Math.max(this.#head.txid + Math.max(1, changes.commits), attempted + 1);
    this.#attempted = txid;
    const image = this.#tail.image();
    try {
      if (!whole) this.#assertGrowth(changes);
      const object = whole
        ? await writeSnapshot(backend, place, { txid, image, ...(cloned ? { clone_path: this.#checkout } : {}) })
        : await writeSegment(backend, place, { prev: this.#head, txid, changes, image, checksums: this.#checksums });
      this.#tail.assertNotReset();
      await this.#advance(object.head, mark);
      this.#page_count = changes.page_count;
      this.#depth = whole ? 0 : this.#depth + 1;
      if (whole) {
        this.#checksums = PageChecksums.ofSnapshot(object.checksumOf, image.page_count);
        this.#unread = undefined;
      } else {
        this.#checksums?.add(object.checksumOf, image.page_count);
      }
      return object;
    } catch (error) {
      this.#tail.giveBack(changes);
      throw error;
    }
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
    this.#write([{ head: this.#head, mark: this.#recorded }, { head, mark }]);
    const touched_at = new Date(this.#context.clock.now()).toISOString();
    await this.#lease.write((ref) =>
      ref.txid === head.txid && ref.digest === head.digest
        ? undefined
        : { ...ref, txid: head.txid, digest: head.digest, touched_at }
    );
    this.#head = head;
    this.#recorded = mark;
  }

  #write(heads: { head: Head; mark: WalMark | undefined }[]): void {
    this.#context.workspace.writeSessionRecord(this.#checkout, {
      lineage: this.#lease.ref.lineage,
      heads: heads.map(({ head, mark }) => ({ txid: head.txid, digest: head.digest, mark: mark ?? null })),
    });
  }
}
