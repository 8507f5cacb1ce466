/**
 * A branch of each database that a task works on, from the fork to the promotion.
 *
 * What it guarantees: the sandbox sees a copy and never a file of the store; what it leaves is taken over only when it
 * is a sound database; the heads that waited at the gate are promoted and nothing else, onto bases that have not moved
 * since; a branch without a task is destroyed, and one that is kept is named in the task's trace.
 */

import { dirname } from "@std/path/dirname";
import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import type { Client } from "../../lib/client/client.ts";
import { hasCode, messageOf, TaskdError } from "../../lib/errors.ts";
import { fileError, fsyncDirectory, lstatIfPresent, withFileError } from "../../lib/fs.ts";
import { hasWal, stampFile } from "../../lib/sqlite/checkout_file.ts";
import { takeFile } from "../../lib/store/file_in_use.ts";
import type { ProfileCheck } from "../settings/settings.ts";
import type { BriefCheck, BriefDatabase } from "../task/database_schema.ts";
import type { Log } from "../../lib/log.ts";
import type { DatabaseChange, ForkedDatabase } from "./evidence.ts";
import { BASE_POINT } from "./changed_rows.ts";
import { brokenChecks, type LandingChecks } from "./landing_checks.ts";
import { inspectDatabase, type InspectorOptions, runChecks } from "./inspector.ts";
import { CHANGESET, type Report, type SchemaDifference } from "./inspection_report.ts";
import { imageSha256, statusOf, withStore } from "./store_calls.ts";
import { branchOf, fileOf, type RequestedDatabase, taskOf } from "./requested_databases.ts";

const CONTENT_MS = 1_800_000;
/** Milliseconds that a program which looks into a task's branch is waited for. */
const IN_USE_MS = 60_000;

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
  directory: string;
  work_dir: string;
  /** Where the tree of what differs is kept of each. */
  keep_dir: string;
  /** Of the repository's profile. */
  checks: readonly ProfileCheck[];
  signal: AbortSignal;
}

interface StoreImage {
  fork: ForkedDatabase;
  image: string;
  path: string;
  /** The checkout's stamp when the image was compared with it. */
  seen: string;
  task_id: string;
  signal: AbortSignal;
}

export interface CollectedDatabase {
  change: DatabaseChange;
  tables: BriefDatabase["tables"];
  schema: SchemaDifference[];
  checks?: BriefCheck[];
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

  /** See {@linkcode brokenChecks}. */
  brokenChecks(of: LandingChecks): Promise<string[]> {
    return brokenChecks(this.#options, of);
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
        const note = `where the task ${task_id} began`;
        await client.call("checkpoint", { db, branch: fork.branch, name: BASE_POINT, note });
        const { txid, lineage } = await statusOf(client, db, fork.branch);
        forks.push({ ...fork, own: { txid, lineage } });
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
  async collect(
    { task_id, forks, directory, work_dir, keep_dir, checks, signal }: CollectDatabases,
  ): Promise<CollectedDatabase[]> {
    requireFolder(directory);
    await makeFolder(work_dir);
    const attempted = "Cannot store what the task did to its databases";
    return await withStore(this.#options, { attempted, signal, timeout_ms: CONTENT_MS }, async (client) => {
      const collected: CollectedDatabase[] = [];
      for (const fork of forks) {
        const { db, branch, own: begun } = fork;
        // Else it would be compared with another base than the task began with, and land what no gate has shown.
        const { path } = await client.call("checkout", { db, branch });
        const seen = JSON.stringify(stampFile(path));
        const { txid, lineage } = await statusOf(client, db, branch);
        if (begun !== undefined && (txid !== begun.txid || lineage !== begun.lineage)) {
          throw changedMeanwhile(db, branch);
        }
        const { report, image } = await inspectDatabase(this.#options, {
          what: `the database ${db}`,
          left: `${directory}/${fileOf(db)}`,
          base: path,
          work_dir: `${work_dir}/${db}`,
          signal,
        });
        const own = report.changed ? checks.filter(({ database }) => database === db) : [];
        if (own.length > 0) {
          report.checks = await runChecks(this.#options, { work_dir: `${work_dir}/${db}`, signal }, own);
        }
        let head: DatabaseChange["head"];
        if (report.changed) {
          await makeFolder(keep_dir, { recursive: true });
          await copyPlain(`${work_dir}/${db}/${CHANGESET}`, `${keep_dir}/${db}`);
          await fsyncDirectory(keep_dir);
          head = await this.#store(client, { fork, image, path, seen, task_id, signal });
          if (report.changeset !== undefined) head.changeset = report.changeset;
        }
        const { tables, schema, checks: answers } = report;
        collected.push({ change: changeOf(fork, report, head), tables, schema, ...answers && { checks: answers } });
      }
      return collected;
    });
  }

  /**
   * Puts an image into the branch's closed checkout, and names it. A program that has the checkout open is waited for, and
   * then it is `busy`; what it committed there since the checkout was looked at is a `conflict`.
   */
  async #store(
    client: Client,
    { fork, image, path, seen, task_id, signal }: StoreImage,
  ): Promise<NonNullable<DatabaseChange["head"]>> {
    const { db, branch } = fork;
    const beside = () => `${dirname(path)}/.${randomHex(this.#options.random, 8)}.tmp`;
    const temporary = beside();
    let image_sha256: string;
    try {
      await copyPlain(image, temporary);
      image_sha256 = await imageSha256(temporary);
      const { clock } = this.#options;
      const by = beside();
      using taken = await takeFile(path, `Cannot write ${path}`, { clock, by, wait_ms: IN_USE_MS, signal });
      if (JSON.stringify(stampFile(path)) !== seen || hasWal(path)) throw changedMeanwhile(db, branch);
      taken.replace(temporary, []);
    } catch (error) {
      await Deno.remove(temporary).catch(() => {});
      throw fileError(error, `Cannot write ${path}`);
    }
    const note = `what the task ${task_id} made of ${db}@${fork.base}`;
    const { txid } = await client.call("checkpoint", { db, branch, name: branch, note });
    const status = await statusOf(client, db, branch);
    // The lineage shows what was promoted onto the branch or brought it back; else this is the one transaction since.
    const moved = fork.own !== undefined && (status.lineage !== fork.own.lineage || txid !== fork.own.txid + 1);
    if (moved || status.txid !== txid) throw changedMeanwhile(db, branch);
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
      await client.call("destroy", { db, branch, safety: false, confirm: true });
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
  const { ok: _, checks: _checks, changeset: _changeset, tables, schema, ...rest } = report;
  return {
    db,
    base,
    branch,
    ...(head === undefined ? {} : { head }),
    ...rest,
    tables: tables.map(({ rows: _, spread: _spread, ...counts }) => counts),
    schema: schema.map(({ before: _before, after: _after, ...named }) => named),
  };
}

async function makeFolder(path: string, options: { recursive?: boolean } = {}): Promise<void> {
  await withFileError(`Cannot make ${path}`, () => Deno.mkdir(path, { mode: 0o700, ...options }));
}

/** The sandbox could write the folder: it must still be one. */
function requireFolder(path: string): void {
  const attempted = "Cannot take over the task's databases";
  if (withFileError(attempted, () => lstatIfPresent(path)?.isDirectory)) return;
  throw new TaskdError("denied", `${attempted}: the agent has removed or exchanged their folder`);
}

/** Copies a plain file, sharing its blocks where the file system can; the copy is for its owner alone, and durable. */
async function copyPlain(source: string, target: string): Promise<void> {
  await withFileError(`Cannot copy ${source}`, async () => {
    if (!(await Deno.lstat(source)).isFile) {
      throw new TaskdError("denied", `Cannot copy ${source}: it is no plain file`);
    }
    await Deno.copyFile(source, target);
    await Deno.chmod(target, 0o600);
    using file = await Deno.open(target, { write: true });
    await file.sync();
  });
}

function changedMeanwhile(db: string, branch: string): TaskdError {
  return new TaskdError("conflict", `${db}@${branch} was changed meanwhile`);
}
