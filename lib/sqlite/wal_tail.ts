/**
 * Follows the write-ahead log of a live database, so that no committed page goes
 * unseen, while any stock client writes.
 *
 * The invariant: a read transaction of ours is open at all times, so no process can reset
 * the log before we have read it, and no other can make the main file take up
 * frames that we have not released. Hence every changed page can be read at leisure,
 * from the log where the overlay knows an offset, else from the main file. Only
 * {@linkcode WalTail.takeover} releases it, and only under a write barrier: with writers held
 * off, it reads the log to its end, checkpoints passively, and pins again.
 *
 * What cannot be proved complete raises {@linkcode RebaseNeeded}: the caller then starts
 * over from a full copy. Never RESTART or TRUNCATE here: one long reader would block
 * every writer, and TRUNCATE's answer proves nothing.
 */

import { crc32 } from "node:zlib";
import { hasCode } from "../errors.ts";
import { type CheckoutFile, CheckoutOverwritten, type CheckpointAnswer } from "./checkout_file.ts";
import { lockPage } from "./header.ts";
import { BlockHashes } from "./_block_hashes.ts";
import { LogCursor, NEVER_HAPPENED, RebaseNeeded, type WalMark } from "./_log_cursor.ts";
import { type DatabaseImage, logImage } from "./_log_image.ts";
import { LogPin } from "./_log_pin.ts";
import { type Changes, PageChanges } from "./_page_changes.ts";
import type { WalCommit, WalHeader } from "./wal.ts";

export { RebaseNeeded, type WalMark } from "./_log_cursor.ts";
export { type DatabaseImage, readAhead } from "./_log_image.ts";
export type { Changes } from "./_page_changes.ts";

/**
 * A log is first folded while writers go on, so often until no more than `beside_bytes` are left: fsync of more takes
 * longer than a writer should wait. Where more than `barrier_bytes` stay, it is left for later.
 */
const FOLD = { beside_bytes: 1 << 20, tries: 3, barrier_bytes: 8 << 20 };

/** In the first page: https://sqlite.org/fileformat2.html#file_change_counter. */
const CHANGE_COUNTER_OFFSET = 24;

/** Follows one log. All methods are synchronous and short, except a busy wait of at most the file's timeout. */
export class WalTail {
  readonly file: CheckoutFile;
  readonly page_size: number;
  /** Whether the journal mode had to be changed to WAL: the file then differs from what was stored. */
  readonly converted: boolean;
  readonly #pin: LogPin;
  readonly #cursor: LogCursor;
  readonly #pages = new PageChanges();
  /** Every frame is in the main file and our pin is on it alone: the next writer may start the log over. */
  #reset_allowed = false;
  /** Frames of the log that were read when the pin was taken: without further ones it may be on the main file alone. */
  #pinned_frames = 0;
  /** A checkpoint may have waited for the pin when it was last moved: where it ended. */
  #waited: { header: WalHeader | undefined; frames: number } | undefined;
  #let_through = 0;
  /** Off the pin by our own will: commits go unseen, and are found by {@linkcode compare}. */
  #unpinned = false;
  /** Pinned again, and pages that were changed meanwhile may not be known yet. */
  #comparing = false;
  readonly #hashes: BlockHashes;
  /** SQLite's count of changes when it was last read. */
  #change_counter: number | undefined;
  #reading = false;
  /** The log that the last image reads pages from. */
  #image_log: WalHeader | undefined;

  /** Bytes of the log that were read of commits, over all its generations. */
  read_bytes = 0;

  private constructor(file: CheckoutFile) {
    this.file = file;
    this.#pin = new LogPin(file);
    this.converted = this.#pin.converted;
    this.page_size = file.header().page_size;
    this.#cursor = new LogCursor(file, this.page_size);
    this.#hashes = new BlockHashes(file, this.page_size, (pgno) => this.#pages.offsetOf(pgno));
  }

  /**
   * Begins to follow an open checkout. What the log holds already counts as not changed,
   * except what lies past `resume`, when that mark is still in the log.
   *
   * @returns Whether `resume` was found; without it the caller has to compare or copy.
   */
  static attach(file: CheckoutFile, resume?: WalMark): { tail: WalTail; resumed: boolean } {
    const tail = new WalTail(file);
    return { tail, resumed: tail.resync(resume) };
  }

  /** Pages of the database after the last commit that was read. */
  get page_count(): number {
    return this.#pages.page_count;
  }

  /** Whether anything was committed since it was last taken; true while that is not known. */
  get dirty(): boolean {
    return !this.complete || this.#pages.dirty;
  }

  /** Whether frames follow what was read: of an unfinished transaction, or of a commit that only SQLite can confirm. */
  get in_doubt(): boolean {
    return this.#cursor.in_doubt;
  }

  /** Bytes of the log that are read and not yet in the main file for certain. */
  get log_bytes(): number {
    return this.#reset_allowed ? 0 : this.#cursor.offset;
  }

  /** Whether the main file alone is the database as it was at the last commit that was read. */
  get main_is_whole(): boolean {
    return !this.#pages.inLog;
  }

  /**
   * Whether the main file has all up to a place that was read, as SQLite counts now: an application may have folded the
   * log since it was last looked at.
   */
  mainHas(mark: WalMark | undefined): boolean {
    if (mark === undefined || this.main_is_whole || this.#pin.held) return this.main_is_whole;
    const { log, checkpointed } = this.#pin.ask();
    // After it was asked: a log that was started over since is seen here, and was folded.
    this.drain();
    return log === 0 || !this.#cursor.isOf(mark) || checkpointed >= this.#cursor.framesAt(mark);
  }

  /** Frames read of the log's present generation. */
  get log_frames(): number {
    return this.#cursor.frames;
  }

  /** Where the next frame is expected; undefined before the log's first frame. */
  get mark(): WalMark | undefined {
    return this.#cursor.mark;
  }

  /** Where the present generation of the log begins; undefined before the log's first frame. */
  get generation(): WalMark | undefined {
    return this.#cursor.generation;
  }

  /** Forgets everything known of the log and reads it anew; nothing counts as changed, except what lies past `resume`. */
  resync(resume?: WalMark): boolean {
    this.#hashes.clear();
    this.#comparing = false;
    const resumed = this.#beginAnew(resume);
    if (!resumed) this.#pages.forgetChanges();
    return resumed;
  }

  /**
   * Begins at `resume`, or where the log is not in the main file yet. Writers go on while most of it is folded, and are held
   * off for the rest. With `resume` nothing is folded: the next writer could start the log over.
   *
   * @returns Whether that place is in the log.
   */
  #beginAnew(resume?: WalMark): boolean {
    const unpinned = this.#unpinned;
    this.unpin();
    try {
      for (let tries = 0; !resume && tries < FOLD.tries; tries++) {
        if (this.#unfolded(this.#pin.checkpointUnpinned({ wait: false })) <= FOLD.beside_bytes) break;
      }
      this.file.syncMain();
      const resumed = this.#pin.behindBarrier(() => this.#readUnfolded(resume));
      if (!this.#pin.held) this.#noteFolded();
      return resumed;
    } catch (error) {
      if (!unpinned) this.#pin.take();
      this.#unpinned = unpinned;
      throw error;
    }
  }

  #readUnfolded(resume: WalMark | undefined): boolean {
    const { log, checkpointed } = this.#pin.askUnpinned();
    this.#pages.folded();
    this.#cursor.rewind(resume ? Math.min(checkpointed, this.#cursor.framesAt(resume)) : checkpointed);
    // Of a log that SQLite takes for empty every frame is in the main file, and reading on starts behind them all.
    const end = log > 0 ? this.#cursor.endOf(log) : Infinity;
    if (resume && this.#cursor.isOf(resume)) this.#merge(this.#cursor.read(Math.min(end, resume.offset)));
    const resumed = resume !== undefined && this.#cursor.isAt(resume);
    this.#pages.forgetChanges();
    if (this.#cursor.header && (log === 0 || this.#cursor.frames < log)) {
      this.#merge(this.#cursor.read(end));
      // Older libraries leave frames of a commit without salts and checksums where pages had spilled before a rollback to
      // a savepoint, 3.40 among them. SQLite goes by its index alone, and so can we: it has reported the end.
      if (log > 0) this.#merge(this.#cursor.read(end, true));
    }
    this.#assertRead(log);
    this.#reset_allowed = log === checkpointed;
    if (this.#reset_allowed) {
      this.#pages.folded();
      this.#pages.page_count = this.#mainPageCount();
    }
    this.#assertNotOlder();
    // Past the end may lie a commit that never happened.
    this.#cursor.markGhost();
    if (log === 0) this.#cursor.markUncounted();
    this.#takePin();
    return resumed;
  }

  /**
   * SQLite's count of changes, of the first page as last committed, never goes back; it wraps at 32 bits.
   *
   * @throws {CheckoutOverwritten} when an older copy was written over the file.
   */
  #assertNotOlder(): void {
    const offset = this.#pages.offsetOf(1);
    const page = this.#pageAt(1, offset);
    // A log that was cut off or started over has other bytes there; its commits are looked at next time.
    if (!page || (offset !== undefined && !this.#cursor.is_current)) return;
    const change_counter = new DataView(page.buffer).getUint32(CHANGE_COUNTER_OFFSET);
    if (this.#change_counter !== undefined && (change_counter - this.#change_counter | 0) < 0) {
      throw new CheckoutOverwritten(this.file.path, "was overwritten: it is older than it was");
    }
    this.#change_counter = change_counter;
  }

  /**
   * What was read may have been folded just before it was pinned: then SQLite has put the pin on the main file alone, and
   * the next writer starts the log over.
   */
  #noteFolded(): void {
    const { log, checkpointed } = this.#pin.ask();
    // After it was asked: the counts are of another log, then.
    if (log > 0 && checkpointed < this.#cursor.frames && this.#cursor.is_current) return;
    this.#pages.folded();
    this.#reset_allowed = true;
  }

  #unfolded({ log, checkpointed }: CheckpointAnswer): number {
    return this.#cursor.endOf(log) - this.#cursor.endOf(checkpointed);
  }

  /**
   * Reads every transaction committed since the last call, unless the log {@linkcode outgrew} so many bytes.
   *
   * @returns Whether there was one, or something is left unread.
   * @throws {RebaseNeeded} when the log was started over before it was read to its end.
   */
  drain(most_bytes = Infinity): boolean {
    return this.#drain(Infinity, most_bytes);
  }

  #drain(end: number, most_bytes = Infinity): boolean {
    if (this.#unpinned) return false;
    // Commits made since may have been folded and overwritten.
    if (!this.#pin.is_on) throw new RebaseNeeded("the write-ahead log could not be pinned");
    // What was committed after the pin was taken cannot be folded, and what was before has been read.
    const reset_allowed = this.#reset_allowed || this.#cursor.frames === this.#pinned_frames;
    if (!this.#cursor.follows(reset_allowed, () => this.#wasReset())) return false;
    if (this.outgrew(most_bytes)) return true;
    const commit = this.#cursor.read(end);
    if (commit && !this.#comparing) {
      this.#pages.keepBefore(commit, this.page_size, (pgno, offset) => this.#pageAt(pgno, offset));
    }
    this.#merge(commit);
    if (commit) this.#reset_allowed = false;
    return commit !== undefined;
  }

  #wasReset(): void {
    this.#pages.folded();
    this.#reset_allowed = true;
    this.#pinned_frames = 0;
  }

  /**
   * A page as it was before frames that were not merged yet: those lie past our pin, so the main file cannot have taken
   * them up.
   */
  #pageAt(pgno: number, offset: number | undefined): Uint8Array | undefined {
    const page = new Uint8Array(this.page_size);
    const filled = offset === undefined
      ? this.file.readMain((pgno - 1) * this.page_size, page)
      : this.file.readWal(offset, page);
    return filled === this.page_size ? page : undefined;
  }

  /** Counts in {@linkcode read_bytes} what was committed, for a caller that captures no more: nothing of it is kept. */
  countUnseen(): void {
    try {
      if (!this.#cursor.follows(true, () => {})) return;
      this.#advance(this.#cursor.read(Infinity));
    } catch (error) {
      // Of a log that was cut short or is another's, no more is known.
      if (!(error instanceof RebaseNeeded)) throw error;
    }
  }

  /** Committed bytes that {@linkcode drain} would read now; reads them. */
  lagBytes(): number {
    if (this.#unpinned) return this.#cursor.endOf(this.#pin.ask().log) - this.#cursor.endOf(0);
    const { offset, header } = this.#cursor;
    this.drain();
    return this.#cursor.offset - (this.#cursor.header === header ? offset : 0);
  }

  /**
   * Folds the log into the main file behind a write barrier, so that the next writer starts it over.
   *
   * @returns False when a reader, a writer or another checkpointer blocked it; try again later.
   */
  takeover(): boolean {
    try {
      if (!this.#pin.held && !this.#foldMost()) return false;
      return this.#pin.behindBarrier(() => {
        this.drain();
        return this.#fold({ wait: false });
      }, { wait: false });
    } catch (error) {
      if (hasCode(error, "busy")) return false;
      throw error;
    }
  }

  /**
   * Folds most of the log while writers go on: the other connection pins the newest commit, everything up to there is
   * read, and only then the old pin is released.
   *
   * @returns Whether little enough is left to hold writers off for it.
   */
  #foldMost(): boolean {
    let left_bytes = Infinity;
    for (let tries = 0; tries < FOLD.tries && left_bytes > FOLD.beside_bytes; tries++) {
      this.#moveOn();
      this.#pin.checkpointBeside();
      left_bytes = this.#unfolded(this.#pin.ask());
    }
    return left_bytes <= FOLD.barrier_bytes;
  }

  #moveOn(): void {
    this.#pin.move(() => this.drain());
    // What SQLite does not count may never have happened: it is not in the main file when the log is started over.
    const { log } = this.#pin.ask();
    this.#pinned_frames = this.#cursor.is_current ? Math.min(this.#cursor.frames, log) : this.#cursor.frames;
  }

  /**
   * Moves the pin on to the newest commit, so that a checkpoint of the application that waits for it can go on: one that
   * folds the log up to there, or, once all of it is folded, one that has the log started over.
   *
   * The pin is also moved off a folded log: SQLite keeps a reader of one on the lock that holds off every checkpoint, and
   * each commit of an application whose log has passed its wal_autocheckpoint then sorts the whole log for a checkpoint
   * that cannot be, which costs nine tenths of its rate. Not while an image is read: from here on the log may be folded
   * up to the new pin.
   *
   * @returns Whether a checkpoint may wait for the pin to be moved once more: the write lock is taken.
   */
  followPin(): boolean {
    const waited = this.#waited;
    if (this.#unpinned || this.#pin.held || (this.log_bytes === 0 && !waited)) return false;
    const { header } = this.#cursor;
    const { log, checkpointed } = this.#pin.ask();
    if (waited && (waited.header !== header || checkpointed >= waited.frames)) this.#let_through++;
    this.#waited = undefined;
    if (this.log_bytes === 0) return false;
    this.#moveOn();
    if (log !== checkpointed || log !== this.#cursor.frames || header !== this.#cursor.header) {
      if (this.#pin.write_locked) this.#waited = { header: this.#cursor.header, frames: this.#cursor.frames };
      return this.#waited !== undefined;
    }
    // Nothing was committed since, so the pin is on a folded log.
    this.#pages.folded();
    this.#reset_allowed = true;
    return false;
  }

  /** Checkpoints so far that could go on because the pin was moved, as far as can be seen. */
  get let_through(): number {
    return this.#let_through;
  }

  /** Whether the log has more than so many bytes: one that grows faster than it can be read and folded. */
  outgrew(bytes: number): boolean {
    return bytes < Infinity && this.complete && this.file.walSize() > bytes &&
      this.#cursor.endOf(this.#pin.ask().log) > bytes;
  }

  /** Folds what the application leaves in the log, off the pin. */
  foldAside(): void {
    if (this.#unpinned) this.#pin.checkpointUnpinned({ wait: false });
  }

  /** Whether the database is small enough to be compared. */
  get comparable(): boolean {
    return this.#hashes.possible;
  }

  /**
   * Reads on in the file for {@linkcode unpin}, a few milliseconds long.
   *
   * @returns Whether everything was read.
   */
  prepareToUnpin(): boolean {
    this.#assertNotOlder();
    return this.complete && this.#hashes.read();
  }

  /** Gets out of the way of the application and its checkpoints. What it commits is unseen until {@linkcode repin}. */
  unpin(): void {
    this.#pin.release();
    this.#unpinned = true;
    this.#waited = undefined;
  }

  get unpinned(): boolean {
    return this.#unpinned;
  }

  /** Whether every page that changed is known: not off the pin, nor before all is compared. */
  get complete(): boolean {
    return !this.#unpinned && !this.#comparing;
  }

  /** Pins again after {@linkcode unpin}. From here on each commit is seen; {@linkcode compare} finds the ones before. */
  repin(): void {
    // Their pages may have been changed since and have the content from before again: no checksum of them counts.
    const { checksums: _, ...known } = this.#pages.take(lockPage(this.page_size));
    try {
      this.#comparing = true;
      this.#hashes.restart();
      this.#beginAnew();
    } finally {
      this.#pages.giveBack(known);
    }
  }

  /**
   * Compares the file with what it was before {@linkcode unpin}, a few milliseconds long, and counts as changed what
   * differs. The log may be folded meanwhile: what is committed since {@linkcode repin} is seen in any case.
   *
   * @returns Whether everything was compared.
   */
  compare(): boolean {
    if (!this.#comparing) return true;
    const done = this.#hashes.compare((first, count) => this.#pages.add(first, count));
    this.#comparing = !done;
    return done;
  }

  /**
   * Takes a write barrier that lasts until the returned function is called; everything before it is read and confirmed.
   * All else may be done meanwhile.
   */
  hold(): { complete: boolean; release: () => void } {
    const release = this.#pin.hold();
    try {
      this.drain();
      return { complete: this.#fold(), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /**
   * Compares what was read with what SQLite itself counts as committed. A writer that was killed between its last frame
   * and its update of the shared index leaves a commit that looks whole and never happened: the next one overwrites it.
   *
   * @throws {RebaseNeeded} when such a commit was read.
   */
  confirm(): void {
    // Nothing was committed since hold() did the same; and a connection in a transaction cannot checkpoint.
    if (this.#pin.held) return;
    this.drain();
    const before = this.#cursor.frames;
    let log = this.#pin.ask().log;
    if (log < before && !this.#reset_allowed) {
      // A living writer puts a commit down, syncs it and only then counts it. The next holder of the write lock sees
      // it counted, or knows that it is dead.
      this.#pin.behindBarrier(() => this.#cursor.assertStillThere());
      log = this.#pin.ask().log;
      if (log < before) throw new RebaseNeeded(NEVER_HAPPENED);
    }
    // 0: the log counts as empty, and what was read of it is in the main file.
    if (log === 0) return;
    // It may have been started over just now.
    if (this.#cursor.uncounted) this.drain();
    this.#cursor.assertCounted();
    if (this.#cursor.frames < log) this.#cursor.forgetGhost();
    // No further: what lies behind is not confirmed.
    this.#drain(this.#cursor.endOf(log));
    if (this.#cursor.frames < log) throw new RebaseNeeded("the write-ahead log cannot be read to its end");
  }

  /** Hands over what has changed; give it to {@linkcode giveBack} if it could not be stored. */
  take(): Changes {
    const changes = this.#pages.take(lockPage(this.page_size));
    this.#hashes.forget(changes.pages);
    return changes;
  }

  /**
   * Holds pages of the main file against what the log and the store explain.
   *
   * @param stored CRC-32 of a page when changes were last taken; undefined where that is not known.
   * @throws {CheckoutOverwritten} when one of them is not what it was: something else than SQLite has written to the file.
   */
  assertExplained(
    first: number,
    count: number,
    stored: (pgno: number) => number | undefined,
    buffer: Uint8Array,
  ): void {
    const size = this.page_size;
    const filled = this.file.readMain((first - 1) * size, buffer.subarray(0, count * size));
    for (let i = 0; i < count; i++) {
      const pgno = first + i;
      const expected = pgno === lockPage(size) ? undefined : this.#pages.checksumInMain(pgno, stored);
      if (expected === undefined) continue;
      if ((i + 1) * size > filled || crc32(buffer.subarray(i * size, (i + 1) * size)) !== expected) {
        throw new CheckoutOverwritten(this.file.path, `was overwritten: page ${pgno} is not what SQLite has put there`);
      }
    }
  }

  giveBack(changes: Changes): void {
    this.#reading = false;
    this.#pages.giveBack(changes);
  }

  /** The database as it was at the last commit that was read. */
  image(): DatabaseImage {
    const overlay = this.#pages.overlay();
    this.#reading = true;
    this.#image_log = overlay.size > 0 ? this.#cursor.header : undefined;
    return logImage(this.file, { page_size: this.page_size, page_count: this.#pages.page_count, overlay });
  }

  /**
   * The last image is read. Throws {@linkcode RebaseNeeded} if the log was started over meanwhile. A writer puts the new
   * header down before its frames, so what was read from the log before this check is sound.
   */
  endImage(): void {
    this.#reading = false;
    if (this.#image_log) this.#cursor.assertStill(this.#image_log);
  }

  /** Whether an image is being read, for which the pin must stay where it is. */
  get reading(): boolean {
    return this.#reading;
  }

  /** Behind the barrier: releases the pin, checkpoints, pins again. Returns whether the main file now has every frame. */
  #fold(options: { wait?: boolean } = {}): boolean {
    this.#pin.release();
    try {
      return this.#settle(this.#pin.checkpointUnpinned(options));
    } finally {
      this.#takePin();
    }
  }

  /** Behind the barrier, with the log read to its end. */
  #takePin(): void {
    this.#pin.take();
    this.#unpinned = false;
    this.#pinned_frames = this.#cursor.frames;
  }

  #settle(answer: CheckpointAnswer): boolean {
    const consumed = this.#cursor.frames;
    this.#assertRead(answer.log);
    if (answer.log === 0 && consumed > 0 && !this.#reset_allowed) throw new RebaseNeeded(NEVER_HAPPENED);
    // log 0: SQLite counts nothing as in the log, whatever bytes the file has.
    const complete = answer.log === 0 || (answer.log > 0 && answer.checkpointed === consumed);
    if (complete) this.#pages.folded();
    // The next writer may overwrite the log, and an application that does not sync may have folded part of it.
    if (complete) this.file.syncMain();
    if (complete || consumed === 0) this.#pages.page_count = this.#mainPageCount();
    this.#reset_allowed = complete;
    return complete;
  }

  /** Every one of so many frames that SQLite counts was read. */
  #assertRead(log: number): void {
    if (log <= 0) return;
    this.#cursor.assertCounted();
    const { frames } = this.#cursor;
    if (log !== frames) throw new RebaseNeeded(`the write-ahead log has ${log} frames, of which ${frames} can be read`);
  }

  #mainPageCount(): number {
    const header = this.file.header();
    const whole = Math.floor(this.file.mainSize() / this.page_size);
    // The count in the header is void when an old library wrote last; SQLite then goes by the file's size too.
    return header.page_count > 0 && header.version_valid_for === header.change_counter ? header.page_count : whole;
  }

  #merge(commit: WalCommit | undefined): void {
    if (!commit) return;
    this.#pages.merge(commit);
    this.#advance(commit);
  }

  #advance(commit: WalCommit | undefined): void {
    if (!commit) return;
    const { offset } = this.#cursor;
    this.#cursor.advance(commit);
    this.read_bytes += this.#cursor.offset - offset;
  }
}
