/**
 * The room that is left on the file system of `stage_root`. What a task writes there and unlinks while it has it open is
 * in no folder and so in no count: only the free space shows it.
 *
 * With too little room no task is begun, and the log names those that take most. None is ended for it: the space may be
 * another program's.
 */

import { fileSystemBytes } from "../../lib/fs.ts";
import type { Log } from "../../lib/log.ts";
import { formatBytes } from "../../lib/text/bytes.ts";

/** What has to be free: the lesser of the two. */
const MIN_FREE_BYTES = 2 ** 30;
const MIN_FREE_SHARE = 0.05;
const MAX_NAMED = 3;

export interface StageRoomOptions {
  stage_root: string;
  log: Log;
  /** What the file system has, in bytes; by default the system's answer. */
  space?: (directory: string) => Promise<{ free: number; total: number }>;
}

export class StageRoom {
  readonly #options: Required<StageRoomOptions>;
  readonly #taken = new Map<string, number>();
  #is_low = false;

  constructor(options: StageRoomOptions) {
    this.#options = { space: fileSystemBytes, ...options };
  }

  /** Bytes that running tasks take, as last counted. */
  get taken(): number {
    return this.#taken.values().reduce((all, bytes) => all + bytes, 0);
  }

  /** Notes what a task takes, and looks at the room. */
  async note(task_id: string, bytes: number): Promise<void> {
    this.#taken.set(task_id, bytes);
    await this.low();
  }

  /** A task takes nothing more. */
  forget(task_id: string): void {
    this.#taken.delete(task_id);
  }

  /** Bytes that are free; undefined where that cannot be known, as before there is a first task. */
  async free(): Promise<number | undefined> {
    return (await this.#space())?.free;
  }

  /** What there is too little of; undefined while there is enough. The log has it once each time. */
  async low(): Promise<string | undefined> {
    const { stage_root, log } = this.#options;
    const space = await this.#space();
    const needed = space === undefined ? 0 : Math.min(MIN_FREE_BYTES, space.total * MIN_FREE_SHARE);
    const was_low = this.#is_low;
    this.#is_low = space !== undefined && space.free < needed;
    if (!this.#is_low || space === undefined) return undefined;
    const low = `${formatBytes(space.free)} are free below stage_root, fewer than ${formatBytes(needed)}`;
    if (!was_low) {
      const most = [...this.#taken].sort(([, a], [, b]) => b - a).slice(0, MAX_NAMED)
        .map(([id, bytes]) => `${id} (${formatBytes(bytes)})`);
      const text = `${low}: no task is begun. ${most.length === 0 ? "No task runs" : `Most take ${most.join(", ")}`}`;
      log("warn", "stage_low", text, { stage_root, free_bytes: space.free });
    }
    return low;
  }

  async #space(): Promise<{ free: number; total: number } | undefined> {
    try {
      const space = await this.#options.space(this.#options.stage_root);
      // Some file systems of networks tell nothing.
      return space.total > 0 ? space : undefined;
    } catch {
      return undefined;
    }
  }
}
