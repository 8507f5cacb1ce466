/**
 * What an application does to its database beside writing to it: checkpoints of every kind and VACUUM, now and then or without
 * a pause, in a process of its own beside the writers and the session.
 */

import type { SeededRandom } from "./writers/random.ts";

const SCRIPTS = [
  "PRAGMA wal_checkpoint(FULL)",
  "PRAGMA wal_checkpoint(RESTART)",
  "PRAGMA wal_checkpoint(TRUNCATE)",
  "VACUUM",
  "PRAGMA auto_vacuum=FULL;VACUUM",
  "PRAGMA auto_vacuum=NONE;VACUUM",
  "VACUUM INTO 'COPY'",
];
const PAUSES_MS = [0, 0, 20, 1_000];
const PROGRAM = new URL("./writers/maintainer.py", import.meta.url).pathname;

export interface MaintenanceOptions {
  script: string;
  /** Between two runs of it. */
  pause_ms: number;
  busy_timeout_ms: number;
}

/** What a round's application does beside writing; in some rounds nothing. */
export function pickMaintenance(random: SeededRandom): MaintenanceOptions | undefined {
  // A short wait: the writers' own long readers are waited for with the write lock held.
  const picked = { script: random.pick(SCRIPTS), pause_ms: random.pick(PAUSES_MS), busy_timeout_ms: 200 };
  return random.chance(0.7) ? picked : undefined;
}

/** One process that does it until it is ended. */
export class Maintenance {
  readonly #child: Deno.ChildProcess;

  /** Starts it on the database at `path`. */
  constructor(path: string, { script, pause_ms, busy_timeout_ms }: MaintenanceOptions) {
    this.#child = new Deno.Command("python3", {
      args: [PROGRAM, path, script, String(pause_ms), String(busy_timeout_ms)],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  /** Lets it finish what it is at; resolves to how often it was done. */
  async end(): Promise<number> {
    await this.#child.stdin.close();
    const { success, stdout, stderr } = await this.#child.output();
    if (!success) throw new Error(`maintenance: ${new TextDecoder().decode(stderr)}`);
    return Number(new TextDecoder().decode(stdout));
  }
}
