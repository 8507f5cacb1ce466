/**
 * Who holds leases, and whether a holder still lives. A process that takes leases
 * keeps an operating-system lock on a file of its own in the workspace; the kernel
 * drops it when the process dies, however it dies. So a lease of a dead process
 * of this workspace can be broken at once, and every other one is honoured until
 * it expires. (A process id could be checked instead, but repeats in containers.)
 */

import { join } from "node:path/posix";
import { type Clock, type RandomBytes, randomHex } from "../clock.ts";
import { fileError, unlockAndClose } from "../fs.ts";
import { makeDirectory } from "./workspace.ts";

/** Over twice a lease's life: nothing checks the lease of a process that has been dead for so long. */
const SWEEP_AFTER_MS = 120_000;
/** By the time there are so many, the first of their leases have expired. */
const MAX_RETIRED = 1000;

export class Holder {
  readonly #workspace: string;
  readonly #directory: string;
  readonly #id: string;
  readonly #prefix: string;
  readonly #random: RandomBytes;
  readonly #clock: Clock;
  readonly #retired = new Set<string>();
  #file: Deno.FsFile | undefined;

  /** `prefix` begins its holder strings; its sign of life is a file in `<workspace>/holders`. */
  constructor(workspace: string, prefix: string, options: { random: RandomBytes; clock: Clock }) {
    const { random, clock } = options;
    this.#clock = clock;
    this.#workspace = workspace;
    this.#directory = join(workspace, "holders");
    this.#prefix = prefix;
    this.#random = random;
    this.#id = randomHex(random, 8);
  }

  /** A fresh holder string: `<prefix>:<process part>:<lease part>`. The first call makes the sign of life. */
  next(): string {
    if (!this.#file) {
      const path = join(this.#directory, this.#id);
      try {
        makeDirectory(this.#directory, this.#workspace);
        this.#file = Deno.openSync(path, { createNew: true, write: true, mode: 0o600 });
        // A lease in a bucket outlives a power cut of this machine, and nothing else shows that its holder did not.
        for (const directory of [this.#directory, this.#workspace]) {
          using opened = Deno.openSync(directory);
          opened.syncSync();
        }
      } catch (error) {
        throw fileError(error, `Cannot write ${path}`);
      }
      this.#file.lockSync(true);
      this.#sweep();
    }
    return `${this.#prefix}:${this.#id}:${randomHex(this.#random, 4)}`;
  }

  /** Marks one of this process's own holder strings, whose lease could not be released, as dead. */
  retire(holder: string): void {
    if (this.#retired.size >= MAX_RETIRED) this.#retired.clear();
    this.#retired.add(holder);
  }

  /**
   * Whether the process behind `holder` is known to be dead. False when it lives, or
   * when it worked in another workspace and nothing can be known here.
   */
  isDead(holder: string): boolean {
    const id = /^[a-z]+:([0-9a-f]{16}):[0-9a-f]{8}$/.exec(holder)?.[1];
    if (id === undefined) return false;
    if (id === this.#id) return this.#retired.has(holder);
    let file: Deno.FsFile;
    try {
      file = Deno.openSync(join(this.#directory, id), { read: true, write: true });
    } catch {
      return false;
    }
    try {
      // Shared, so that of two concurrent checks neither takes the other for the holder.
      return file.tryLockSync(false);
    } finally {
      unlockAndClose(file);
    }
  }

  /** Removes signs of life of processes found dead a while ago: by then their leases have expired. */
  #sweep(): void {
    for (const entry of Deno.readDirSync(this.#directory)) {
      const path = join(this.#directory, entry.name);
      try {
        if (!entry.isFile || !this.isDead(`dead:${entry.name}:00000000`)) continue;
        const { size, mtime } = Deno.statSync(path);
        // The first to find it dead writes into it, so that its age counts from its death.
        if (size === 0) Deno.writeTextFileSync(path, "dead\n");
        else if (mtime && this.#clock.now() - mtime.getTime() > SWEEP_AFTER_MS) Deno.removeSync(path);
      } catch {
        // Another process sweeps too.
      }
    }
  }

  /** Removes the sign of life, unless a lease could not be released: without its lock it proves that this process is dead. */
  close(): void {
    if (!this.#file) return;
    try {
      if (this.#retired.size === 0) Deno.removeSync(join(this.#directory, this.#id));
    } catch {
      // The workspace itself may be gone.
    }
    unlockAndClose(this.#file);
    this.#file = undefined;
  }
}
