/**
 * The two connections by which a tail keeps the log in its hands: bookkeeping of wal_tail.ts.
 *
 * One holds a read transaction open, the pin: no process can reset the log under it, and no checkpoint goes past it. The
 * other is at hand: it puts up the write barrier, checkpoints beside the pin, and takes over when the pin is moved on.
 */

import { passing, TaskdError } from "../errors.ts";
import type { CheckoutFile, CheckpointAnswer } from "./checkout_file.ts";
import type { Connection } from "./connection.ts";

/** How often, and in how many milliseconds, a checkpoint is tried again that met another process's. */
const CHECKPOINTER = { tries: 40, pause_ms: 1 };

export class LogPin {
  readonly converted: boolean;
  readonly #file: CheckoutFile;
  /** Holds the pin. The two connections change places when the pin is moved on. */
  #reader: Connection;
  #barrier: Connection;
  #pinned = false;
  /** The write barrier is up until {@linkcode hold}'s answer is called. */
  #held = false;

  /** Opens the connections, and turns a database of another journal mode to WAL. Nothing is pinned yet. */
  constructor(file: CheckoutFile) {
    this.#file = file;
    this.#reader = file.connect();
    const mode = this.#reader.get("PRAGMA journal_mode")?.journal_mode;
    this.converted = mode !== "wal";
    if (this.converted && this.#reader.get("PRAGMA journal_mode=WAL")?.journal_mode !== "wal") {
      throw new TaskdError("busy", `Cannot switch ${file.path} from journal mode ${mode} to WAL`, {
        hint: "Close the other programs that have it open",
      });
    }
    this.#barrier = file.connect();
    for (const connection of [this.#reader, this.#barrier]) {
      // The tail alone decides when the log is folded into the main file.
      connection.run("PRAGMA wal_autocheckpoint=0");
      // Reads the schema, which a checkpoint asks for: later it may be one that this library cannot read.
      connection.run("PRAGMA journal_mode");
    }
    file.noteShm();
    if (file.shm_has_holes) this.#reserveShm();
  }

  /** Without the lock, which a writer has, it is left as it is: that one has written to most of it. */
  #reserveShm(): void {
    passing(["busy"], () => this.behindBarrier(() => this.#file.reserveShm(), { wait: false }));
  }

  /** Whether the log is pinned: not where taking the pin again has failed. */
  get is_on(): boolean {
    return this.#pinned;
  }

  /** Whether another connection writes, or checkpoints with writers held off. Not behind the barrier. */
  get write_locked(): boolean {
    return this.#barrier.write_locked;
  }

  /** Whether the write barrier is up for longer than one piece of work. */
  get held(): boolean {
    return this.#held;
  }

  take(): void {
    this.#reader.pin();
    this.#pinned = true;
  }

  /** Releases the pin. Only behind the write barrier. */
  release(): void {
    if (this.#pinned) this.#reader.rollback();
    this.#pinned = false;
  }

  /** Moves the pin to the newest commit, once `read` has read everything up to there. */
  move(read: () => void): void {
    this.#barrier.pin();
    try {
      read();
    } catch (error) {
      this.#barrier.rollback();
      throw error;
    }
    this.#reader.rollback();
    [this.#reader, this.#barrier] = [this.#barrier, this.#reader];
  }

  /**
   * Does a piece of work while no writer can begin. Without `wait` the lock is asked for during a few milliseconds only: who
   * has it may be a checkpoint that waits for the pin.
   */
  behindBarrier<T>(work: () => T, options: { wait?: boolean } = {}): T {
    if (this.#held) return work();
    this.#barrier.beginImmediate(options);
    try {
      return work();
    } finally {
      this.#barrier.rollback();
    }
  }

  /** Keeps writers off until the returned function is called. */
  hold(): () => void {
    this.#barrier.beginImmediate();
    this.#held = true;
    return () => {
      this.#held = false;
      this.#barrier.rollback();
    };
  }

  /**
   * Checkpoints what no reader needs, with the pin released. Waits a moment for another process's checkpoint to end: behind
   * the barrier no commit starts a further one. One that stays at work is left to it, at once without `wait`, as where
   * writers go on, and how far it has come is the answer.
   */
  checkpointUnpinned({ wait = true }: { wait?: boolean } = {}): CheckpointAnswer {
    for (let tries = wait ? CHECKPOINTER.tries : 1; tries > 0; tries--) {
      const answer = this.#file.checkpointPassive(this.#reader);
      if (answer.log >= 0) return answer;
      if (wait) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, CHECKPOINTER.pause_ms);
    }
    return this.askUnpinned();
  }

  /** What {@linkcode ask} does, with the pin released, also behind the barrier. */
  askUnpinned(): CheckpointAnswer {
    return this.#file.askCheckpoint(this.#reader);
  }

  /** Checkpoints up to the pin while writers go on, unless another process does. Not behind the barrier. */
  checkpointBeside(): void {
    this.#file.checkpointPassive(this.#barrier);
  }

  /** Frames of the log that SQLite counts as committed, 0 where it takes the log for empty. Not behind the barrier. */
  ask(): CheckpointAnswer {
    return this.#file.askCheckpoint(this.#barrier);
  }
}
