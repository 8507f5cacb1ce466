/**
 * A branch of each database that a task works on, from the fork to the promotion.
 *
 * What it guarantees: the sandbox sees a copy and never a file of the store; what it leaves is taken over only when it
 * is a sound database; the heads that waited at the gate are promoted and nothing else, onto bases that have not moved
 * since; a branch without a task is destroyed, and one that is kept is named in the task's trace.
 */

import { createHash } from "node:crypto";
import { dirname } from "@std/path/dirname";
import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import type { Client } from "../../lib/client/client.ts";
import { hasCode, messageOf, TaskdError } from "../../lib/errors.ts";
import { fileError, lstatIfPresent } from "../../lib/fs.ts";
import type { ComparedTable } from "../../lib/sqlite/row_diff.ts";
import type { Log } from "../../lib/log.ts";
import type { DatabaseChange, ForkedDatabase } from "./evidence.ts";
import { inspectDatabase, type InspectorOptions } from "./inspector.ts";
import type { Report } from "./inspection_report.ts";
import { statusOf, withStore } from "./store_calls.ts";
import { branchOf, fileOf, type RequestedDatabase, taskOf } from "./requested_databases.ts";

/** Milliseconds for work that moves a database's content. */
const CONTENT_MS = 1_800_000;

export interface TaskDatabasesOptions extends InspectorOptions {
  socket: string;
  random: RandomBytes;
  log: Log;
}

export interface StageDatabases {
  task_id: string;
  requested: readonly RequestedDatabase[];
  /** The folder that the sandbox will see; it is made. */
  directory: string;
  signal: AbortSignal;
}

export interface CollectDatabases {
  task_id: string;
  forks: readonly ForkedDatabase[];
  /** As the sandbox left it. */
  directory: string;
  /** A folder to make, for the work. */
  work_dir: string;
  signal: AbortSignal;
}

/** What a task did to a database, with some of the rows. */
export interface CollectedDatabase {
  change: DatabaseChange;
  tables: ComparedTable[];
}

export class TaskDatabases {
  readonly #options: TaskDatabasesOptions;

  /** Connects when it is needed: most tasks have no database, and most users no store. */
  constructor(options: TaskDatabasesOptions) {
    this.#options = options;
  }

  get access(): Pick<TaskDatabasesOptions, "socket" | "clock"> {
    return this.#options;
  }

  /**
   * Looks whether the branches are there.
   *
   * @throws {TaskdError} `daemon_unreachable`, or `invalid_request` for one that there is not.
   */
  async check(requested: readonly RequestedDatabase[]): Promise<void> {
    try {
      await withStore(this.#options, { attempted: "Cannot take the task" }, async (client) => {
        for (const { db, base } of requested) await statusOf(client, db, base);
      });
    } catch (error) {
      if (!hasCode(error, "not_found")) throw error;
      throw new TaskdError("invalid_request", error.message, { cause: error, hint: "Look at: taskd branches" });
    }
  }

  /**
   * Forks each database and puts a copy of it where the sandbox will see it.
   *
   * @returns Where the branches begin.
   */
  async stage({ task_id, requested, directory, signal }: StageDatabases): Promise<ForkedDatabase[]> {
    const attempted = "Cannot fork the task's databases";
    await makeFolder(directory);
    return await withStore(this.#options, { attempted, signal, timeout_ms: CONTENT_MS }, async (client) => {
      const forks: ForkedDatabase[] = [];
      for (const { db, base } of requested) {
        const fork = await forkOne(client, { db, base, branch: branchOf(task_id) });
        forks.push(fork);
        const { path } = await client.call("checkout", { db, branch: fork.branch });
        await copyPlain(path, `${directory}/${fileOf(db)}`);
      }
      return forks;
    });
  }

  /**
   * Takes over what the sandbox has left, and stores what was changed under a checkpoint in the task's branches.
   *
   * @throws {TaskdError} As `inspectDatabase` does, and the store's errors.
   */
  async collect({ task_id, forks, directory, work_dir, signal }: CollectDatabases): Promise<CollectedDatabase[]> {
    requireFolder(directory);
    await makeFolder(work_dir);
    const attempted = "Cannot store what the task did to its databases";
    return await withStore(this.#options, { attempted, signal, timeout_ms: CONTENT_MS }, async (client) => {
      const collected: CollectedDatabase[] = [];
      for (const fork of forks) {
        const { db, branch } = fork;
        // Refused when the branch changed meanwhile: it would be compared with another base than the task began with.
        const { path } = await client.call("checkout", { db, branch });
        const { report, image } = await inspectDatabase(this.#options, {
          what: `the database ${db}`,
          left: `${directory}/${fileOf(db)}`,
          base: path,
          work_dir: `${work_dir}/${db}`,
          signal,
        });
        const head = report.changed ? await this.#store(client, { fork, image, path, task_id }) : undefined;
        collected.push({ change: changeOf(fork, report, head), tables: report.tables });
      }
      return collected;
    });
  }

  /** Puts an image into the branch's closed checkout, and names it. */
  async #store(
    client: Client,
    { fork, image, path, task_id }: { fork: ForkedDatabase; image: string; path: string; task_id: string },
  ): Promise<NonNullable<DatabaseChange["head"]>> {
    const { db, branch } = fork;
    const temporary = `${dirname(path)}/.${randomHex(this.#options.random, 8)}.tmp`;
    let image_sha256: string;
    try {
      await copyPlain(image, temporary);
      image_sha256 = await sha256Of(temporary);
      await Deno.rename(temporary, path);
    } catch (error) {
      await Deno.remove(temporary).catch(() => {});
      throw fileError(error, `Cannot write ${path}`);
    }
    const note = `what the task ${task_id} made of ${db}@${fork.base}`;
    const { txid } = await client.call("checkpoint", { db, branch, name: branch, note });
    const status = await statusOf(client, db, branch);
    if (status.txid !== txid) throw new TaskdError("conflict", `${db}@${branch} was changed meanwhile`);
    return { txid, lineage: status.lineage, image_sha256 };
  }

  /**
   * Destroys a task's branches, except those in `keep`. What cannot be destroyed now is logged, and the next broker tries
   * again.
   */
  async release(task_id: string, requested: readonly { db: string }[], keep: ReadonlySet<string>): Promise<void> {
    const branch = branchOf(task_id);
    const going = requested.filter(({ db }) => !keep.has(db));
    if (going.length === 0) return;
    try {
      await withStore(this.#options, { attempted: `Cannot destroy ${branch}` }, async (client) => {
        for (const { db } of going) await this.#destroy(client, db, branch);
      });
    } catch (error) {
      this.#warn(error, task_id);
    }
  }

  /** Whether it is gone; what keeps it from going is logged. */
  async #destroy(client: Client, db: string, branch: string): Promise<boolean> {
    try {
      await client.call("destroy", { db, branch });
      return true;
    } catch (error) {
      if (hasCode(error, "daemon_unreachable", "interrupted")) throw error;
      if (hasCode(error, "not_found")) return true;
      this.#warn(error, taskOf(branch) ?? "");
      return false;
    }
  }

  #warn(error: unknown, task_id: string): void {
    const message = messageOf(error);
    this.#options.log("warn", "database_branch_left", `a task's branch is left: ${message}`, { task_id });
  }

  /**
   * Destroys branches of tasks that have ended.
   *
   * @param isOver Whether the task of this database's branch has ended; asked once for each.
   * @returns How many are gone.
   */
  async sweep(isOver: (task_id: string, db: string) => boolean): Promise<number> {
    return await withStore(this.#options, { attempted: "Cannot look for branches of ended tasks" }, async (client) => {
      const { branches } = await client.call("branches", {});
      let gone = 0;
      for (const { db, branch } of branches) {
        const task_id = taskOf(branch);
        if (task_id === undefined || !isOver(task_id, db)) continue;
        if (await this.#destroy(client, db, branch)) gone++;
      }
      return gone;
    });
  }
}

async function forkOne(
  client: Client,
  { db, base, branch }: RequestedDatabase & { branch: string },
): Promise<ForkedDatabase> {
  const before = await statusOf(client, db, base);
  const { txid } = await client.call("fork", { db, branch: base, new_branch: branch });
  const after = await statusOf(client, db, base);
  if (before.lineage !== after.lineage) {
    throw new TaskdError("conflict", `${db}@${base} was rolled back or replaced while it was forked`);
  }
  return { db, base, branch, base_txid: txid, base_lineage: after.lineage };
}

function changeOf(
  { db, base, branch }: ForkedDatabase,
  report: Report & { ok: true },
  head: DatabaseChange["head"],
): DatabaseChange {
  const { changed, tables, more_tables, schema, more_schema, other_changes } = report;
  return {
    db,
    base,
    branch,
    changed,
    ...(head === undefined ? {} : { head }),
    tables: tables.map(({ rows: _, ...counts }) => counts),
    more_tables,
    schema,
    more_schema,
    other_changes,
  };
}

async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { mode: 0o700 });
  } catch (error) {
    throw fileError(error, `Cannot make ${path}`);
  }
}

/** The sandbox could write the folder: it must still be one. */
function requireFolder(path: string): void {
  const attempted = "Cannot take over the task's databases";
  try {
    if (lstatIfPresent(path)?.isDirectory) return;
  } catch (error) {
    throw fileError(error, attempted);
  }
  throw new TaskdError("denied", `${attempted}: the agent has removed or exchanged their folder`);
}

/** Copies a plain file, sharing its blocks where the file system can; the copy is for its owner alone, and durable. */
async function copyPlain(source: string, target: string): Promise<void> {
  try {
    if (!(await Deno.lstat(source)).isFile) {
      throw new TaskdError("denied", `Cannot copy ${source}: it is no plain file`);
    }
    await Deno.copyFile(source, target);
    await Deno.chmod(target, 0o600);
    using file = await Deno.open(target, { write: true });
    await file.sync();
  } catch (error) {
    throw fileError(error, `Cannot copy ${source}`);
  }
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  using file = await Deno.open(path);
  const bytes = new Uint8Array(1 << 20);
  for (let count = await file.read(bytes); count !== null; count = await file.read(bytes)) {
    hash.update(bytes.subarray(0, count));
  }
  return hash.digest("hex");
}
