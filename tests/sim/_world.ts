/**
 * Actors that create, fork, edit, checkpoint, roll back, promote, merge, revert, undo, compact and destroy branches of
 * one database at the same time, beside folding and garbage collection, and what each has been promised.
 */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Backend } from "../../lib/backend/backend.ts";
import { OUTRIGHT } from "../support/stores.ts";
import { FaultyBackend, seededFaults } from "../support/faulty_backend.ts";
import { mergeBranches, type MergeBranchesResult, revertMerge } from "../../lib/capture/merge.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { DEFAULT_LEVELS } from "../../lib/store/retention.ts";
import { Store } from "../../lib/store/store.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { VirtualClock } from "../support/clock.ts";
import { type Actor, Scheduler, TurnBackend } from "./_scheduler.ts";
import { checkMerges } from "./_merge_check.ts";
import { contentAt } from "./scenarios.ts";

const DB = "app";

/** Errors that mean that the operation was refused and did nothing. */
const REFUSALS = [
  "lease_held",
  "conflict",
  "dirty",
  "not_found",
  "already_exists",
  "protected",
  "branch_deleting",
  "fenced",
  "session_failed",
] as const;

/** What an injected fault may come out as; whether the operation happened is then open. */
const FAULTS = ["unavailable", "ambiguous", "stalled", "corrupt", "gc_failed"] as const;

/** What the world knows of a branch. */
interface KnownBranch {
  name: string;
  /** Every content that its head may have had. */
  candidates: Set<string>;
  /** A merge into it, or into what it was made from, was begun: it may hold the rows of several contents. */
  merged: boolean;
  /** Begun operations that change its head. */
  changes: { began: number; ended: number; content: string | undefined }[];
  /** Whether a destroy was begun, or acknowledged. */
  destroyed: "no" | "maybe" | "yes";
}

/** What a run did. */
export interface WorldSummary {
  operations: number;
  refused: number;
  failed: number;
  dropped: number;
  steps: number;
  /** Points of the past that were read in the end. */
  points: number;
  /** Merges and reverts that were held against their records in the end. */
  merges: number;
  by_op: Record<string, number>;
}

/** A running simulation. */
export class World {
  readonly summary: WorldSummary = {
    operations: 0,
    refused: 0,
    failed: 0,
    dropped: 0,
    steps: 0,
    points: 0,
    merges: 0,
    by_op: {},
  };
  readonly #backend: Backend;
  readonly #directory: string;
  readonly #random: SeededRandom;
  readonly #clock = new VirtualClock();
  readonly #scheduler: Scheduler;
  readonly #stores = new Map<Actor, Store>();
  readonly #branches = new Map<string, KnownBranch>();
  /** Content of acknowledged checkpoints, by `<branch>@<name>`. */
  readonly #named = new Map<string, string>();
  /** Checkpoints whose answer was lost. */
  readonly #maybeNamed = new Map<string, string>();
  readonly #refusedNames = new Set<string>();
  readonly #fault_rate: number;
  #observer: Store | undefined;
  #moment = 0;
  #serial = 1;

  /** A world on `backend`, with files below `directory`, driven by `seed`; `fault_rate` is the share of calls that fail. */
  constructor(backend: Backend, directory: string, options: { seed: number; fault_rate: number }) {
    const { seed, fault_rate } = options;
    this.#fault_rate = fault_rate;
    this.#backend = backend;
    this.#directory = directory;
    this.#random = new SeededRandom(seed);
    this.#scheduler = new Scheduler(this.#random.fork(), this.#clock);
  }

  /** Runs `operations` operations of `actors` actors to their ends and verifies the store. */
  async run(options: { actors: number; operations: number }): Promise<WorldSummary> {
    await this.#begin();
    for (let index = 0; index < options.actors; index++) await this.#join();
    let started = 0;
    for (;;) {
      this.summary.steps++;
      const idle = this.#scheduler.actors.filter((actor) => !actor.dropped && !actor.busy);
      if (idle.length > 0 && started < options.operations && this.#random.chance(0.5)) {
        started++;
        const actor = this.#random.pick(idle);
        await this.#scheduler.start(actor, () => this.#operate(actor));
      } else if (this.#random.chance(0.01)) {
        await this.#dropActor();
      } else {
        if (this.#random.chance(0.02)) this.#clock.advance(this.#random.between(1000, 35_000));
        if (!await this.#scheduler.step() && started >= options.operations) break;
      }
    }
    this.#clock.advance(120_000);
    await this.#verify();
    return this.summary;
  }

  async #begin(): Promise<void> {
    const seed = `${this.#directory}/seed.db`;
    const database = new DatabaseSync(seed);
    database.exec("CREATE TABLE t(v TEXT PRIMARY KEY); INSERT INTO t VALUES('0')");
    database.close();
    const store = await this.#openStore(this.#backend, "first");
    await store.create(DB, { from: seed });
    this.#know("main", ["0"]);
    await store.fork({ db: DB, branch: "main" }, "try");
    this.#know("try", ["0"]);
    this.#observer = await this.#openStore(this.#backend, "observer");
  }

  async #openStore(backend: Backend, name: string): Promise<Store> {
    const workspace = `${this.#directory}/${name}`;
    await Deno.mkdir(workspace);
    return await Store.open({
      backend,
      workspace,
      clock: this.#clock,
      random: this.#random.fork().bytes,
      holder: "cli",
      depth_floor: 4,
    });
  }

  async #join(): Promise<void> {
    const actor = this.#scheduler.add(`actor-${this.#scheduler.actors.length}`);
    await this.#scheduler.start(actor, async () => {
      this.#stores.set(actor, await this.#openStore(this.#reach(actor), actor.name));
    });
    while (actor.busy) await this.#scheduler.step();
  }

  /** The backend as `actor` reaches it: in turns, and with faults once its store is open. */
  #reach(actor: Actor): Backend {
    const plan = seededFaults(this.#random.fork().bytes, this.#fault_rate);
    const faulty = new FaultyBackend(this.#backend, (call) => {
      const fault = plan(call);
      return this.#stores.has(actor) && fault?.kind !== "delay" ? fault : undefined;
    });
    return new TurnBackend(faulty, actor);
  }

  async #dropActor(): Promise<void> {
    const busy = this.#scheduler.actors.filter((actor) => !actor.dropped && actor.busy);
    if (busy.length === 0) return;
    this.#scheduler.drop(this.#random.pick(busy));
    this.summary.dropped++;
    await this.#join();
  }

  #know(name: string, candidates: Iterable<string>): KnownBranch {
    const branch: KnownBranch = { name, candidates: new Set(candidates), merged: false, changes: [], destroyed: "no" };
    this.#branches.set(name, branch);
    return branch;
  }

  async #operate(actor: Actor): Promise<void> {
    const random = this.#random.fork();
    const store = this.#stores.get(actor)!;
    const known = [...this.#branches.values()].filter((branch) => branch.destroyed === "no");
    const branch = random.pick(known);
    const op = random.pick(OPS);
    this.summary.operations++;
    this.summary.by_op[op] = (this.summary.by_op[op] ?? 0) + 1;
    try {
      await this[op](store, branch, random);
    } catch (error) {
      if (this.#fault_rate > 0 && hasCode(error, ...FAULTS)) {
        this.summary.failed++;
        return;
      }
      if (!hasCode(error, ...REFUSALS)) {
        throw new Error(`${op} of ${branch.name}: ${error instanceof TaskdError ? error.code : ""} ${error}`, {
          cause: error,
        });
      }
      this.summary.refused++;
    }
  }

  async edit(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const address = { db: DB, branch: branch.name };
    const { path } = await store.checkout(address, { force: true });
    const token = `${this.#serial++}`;
    const content = append(path, token);
    const name = `cp-${token}`;
    const key = `${branch.name}@${name}`;
    branch.candidates.add(content);
    this.#maybeNamed.set(key, content);
    const change = this.#change(branch, content);
    try {
      await store.checkpoint(address, name, random.chance(0.2) ? { note: "n" } : {});
      this.#named.set(key, content);
    } catch (error) {
      change.content = undefined;
      if (hasCode(error, ...REFUSALS)) this.#refusedNames.add(key);
      throw error;
    } finally {
      change.ended = this.#moment++;
    }
  }

  /** A session with two flushes, the second of which gets a name. */
  async live(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const address = { db: DB, branch: branch.name };
    // What an interrupted attempt left in the checkout is not to be adopted.
    await store.checkout(address, { force: true });
    const session = await CaptureSession.open(store, address, { flush_every_ms: 0, snapshot_every: 2 });
    const change = this.#change(branch, undefined);
    try {
      for (const token of [`${this.#serial++}`, `${this.#serial++}`]) {
        const content = append(session.checkout, token);
        branch.candidates.add(content);
        if (random.chance(0.5)) {
          await session.flush();
        } else {
          const key = `${branch.name}@cp-${token}`;
          this.#maybeNamed.set(key, content);
          await session.checkpoint(`cp-${token}`);
          this.#named.set(key, content);
        }
        change.content = content;
      }
    } catch (error) {
      change.content = undefined;
      throw error;
    } finally {
      // An error of its own means that the last flush or the lease's return failed; either was acknowledged or is open.
      await session.close().catch(() => change.content = undefined);
      change.ended = this.#moment++;
    }
  }

  async fork(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const name = `b${this.#serial++}`;
    const [key, content] = this.#pickCheckpoint(branch, random) ?? [];
    const target = this.#know(name, content === undefined ? branch.candidates : [content]);
    target.merged = content === undefined && branch.merged;
    // Until it is acknowledged no caller can rely on it; its source may still gain contents meanwhile.
    target.destroyed = "maybe";
    const address = { db: DB, branch: branch.name, ...(key === undefined ? {} : { checkpoint: key.split("@")[1]! }) };
    await store.fork(address, name, { materialize: random.chance(0.3) });
    if (content === undefined) this.#inherit(target, branch);
    target.destroyed = "no";
  }

  async rollback(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const [key, content] = this.#pickCheckpoint(branch, random) ?? [];
    if (key === undefined) return;
    branch.candidates.add(content!);
    const change = this.#change(branch, content);
    try {
      const address = { db: DB, branch: branch.name, checkpoint: key.split("@")[1]! };
      const result = await store.rollback(address, { materialize: random.chance(0.3) });
      this.#safety(result.safety_branch, branch);
    } catch (error) {
      change.content = undefined;
      throw error;
    } finally {
      change.ended = this.#moment++;
    }
  }

  async promote(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const others = [...this.#branches.values()].filter((other) => other.destroyed === "no" && other !== branch);
    if (others.length === 0) return;
    const onto = random.pick(others);
    this.#inherit(onto, branch);
    const change = this.#change(onto, undefined);
    try {
      const result = await store.promote({ db: DB, branch: branch.name }, { db: DB, branch: onto.name });
      this.#inherit(onto, branch);
      this.#safety(result.safety_branch, onto);
    } finally {
      change.ended = this.#moment++;
    }
  }

  async merge(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const others = [...this.#branches.values()].filter((other) => other.destroyed === "no" && other !== branch);
    if (others.length === 0) return;
    const onto = random.pick(others);
    const [from, into] = [{ db: DB, branch: branch.name }, { db: DB, branch: onto.name }];
    await this.#merging(store, onto, () => mergeBranches(store, from, into));
  }

  /** Takes back the newest merge, or any one in force, which may be a revert. */
  async revert(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    const onto = { db: DB, branch: branch.name };
    const known = (await store.merges(onto)).filter(({ in_force }) => in_force);
    const one = known.length > 0 && random.chance(0.6) ? random.pick(known).merge : undefined;
    await this.#merging(store, branch, () => revertMerge(store, onto, one));
  }

  /** Rows are all that merges here: none can be in conflict. */
  async #merging(store: Store, onto: KnownBranch, work: () => Promise<MergeBranchesResult>): Promise<void> {
    onto.merged = true;
    const change = this.#change(onto, undefined);
    try {
      await store.checkout({ db: DB, branch: onto.name }, { force: true });
      const { merged, conflicts, merge } = await work();
      assert(merged, JSON.stringify(conflicts));
      if (merge !== undefined) await this.#checkMerges(onto);
    } finally {
      change.ended = this.#moment++;
    }
  }

  async undo(store: Store, branch: KnownBranch): Promise<void> {
    const change = this.#change(branch, undefined);
    try {
      const { safety_branch } = await store.undo({ db: DB, branch: branch.name });
      this.#safety(safety_branch, branch);
    } finally {
      change.ended = this.#moment++;
    }
  }

  async gc(store: Store): Promise<void> {
    await store.collectGarbage({ grace_ms: 0, keep: DEFAULT_LEVELS });
  }

  async fold(store: Store): Promise<void> {
    const { failed } = await store.foldHistory();
    if (this.#fault_rate === 0) assertEquals(failed, []);
  }

  async compact(store: Store, branch: KnownBranch): Promise<void> {
    await store.compact({ db: DB, branch: branch.name });
  }

  async destroy(store: Store, branch: KnownBranch, random: SeededRandom): Promise<void> {
    if (["main", "try"].includes(branch.name) || random.chance(0.5)) return;
    branch.destroyed = "maybe";
    await store.destroy({ db: DB, branch: branch.name }, OUTRIGHT);
    branch.destroyed = "yes";
  }

  async read(store: Store, branch: KnownBranch): Promise<void> {
    const content = await contentAt(store, `${DB}@${branch.name}`, this.#directory);
    assert(
      content === undefined ? branch.destroyed !== "no" : this.#allows(branch, content),
      `${branch.name} read as ${content}`,
    );
  }

  #change(branch: KnownBranch, content: string | undefined): KnownBranch["changes"][number] {
    const change = { began: this.#moment++, ended: Infinity, content };
    branch.changes.push(change);
    return change;
  }

  #safety(name: string | undefined, of: KnownBranch): void {
    if (name === undefined || this.#branches.has(name)) return;
    const safety = this.#know(name, of.candidates);
    safety.destroyed = "maybe";
    safety.merged = of.merged;
  }

  #inherit(onto: KnownBranch, from: KnownBranch): void {
    for (const candidate of from.candidates) onto.candidates.add(candidate);
    onto.merged ||= from.merged;
  }

  /** Whether a branch may hold this: what was written to it, or rows of several such contents, each once. */
  #allows({ candidates, merged }: KnownBranch, content: string): boolean {
    return candidates.has(content) || merged && this.#isMixed(content);
  }

  #isMixed(content: string): boolean {
    const tokens = content.split(",");
    return new Set(tokens).size === tokens.length && tokens.includes("0") &&
      tokens.every((token) => Number(token) >= 0 && Number(token) < this.#serial);
  }

  #pickCheckpoint(branch: KnownBranch, random: SeededRandom): [string, string] | undefined {
    const own = [...this.#named].filter(([key]) => key.startsWith(`${branch.name}@`));
    return own.length === 0 || random.chance(0.3) ? undefined : random.pick(own);
  }

  /** Without a turn: no other actor moves meanwhile. */
  async #checkMerges({ name }: KnownBranch): Promise<void> {
    const { context } = this.#observer!;
    const found = await context.refs.read(DB, name).catch((error) => {
      if (!hasCode(error, "not_found")) throw error;
    });
    if (found) this.summary.merges += await checkMerges(context, found.ref, this.#directory);
  }

  /** What must hold once all actors have stopped and every lease has expired. */
  async #verify(): Promise<void> {
    const store = this.#observer!;
    const listed = new Set((await store.branches()).map((info) => info.branch));
    for (const branch of this.#branches.values()) {
      const content = await contentAt(store, `${DB}@${branch.name}`, this.#directory);
      assert((content !== undefined) === listed.has(branch.name), `${branch.name} is half there`);
      if (branch.destroyed === "no") assert(content !== undefined, `${branch.name} is gone`);
      if (branch.destroyed === "yes") assert(content === undefined, `${branch.name} is back`);
      if (content === undefined) continue;
      assert(this.#allows(branch, content), `${branch.name} holds ${content}`);
      const last = branch.changes.findLast((change) => change.content !== undefined);
      const alone = last && last.ended < Infinity &&
        branch.changes.every((change) => change === last || change.ended < last.began);
      if (alone) assert(content === last.content, `${branch.name} holds ${content}, acknowledged was ${last.content}`);
      await this.#verifyNames(store, branch);
      await this.#checkMerges(branch);
    }
    assertEquals((await store.verifyAll()).findings, []);
    const written = new Set([...this.#branches.values()].flatMap(({ candidates }) => [...candidates]));
    for (const name of listed) {
      for (const { txid } of (await store.log({ db: DB, branch: name })).points) {
        const content = await contentAt(store, `${DB}@${name}@txid:${txid}`, this.#directory);
        assert(content !== undefined, `${name}@txid:${txid} is listed and cannot be read`);
        assert(written.has(content) || this.#isMixed(content), `${name}@txid:${txid} holds ${content}`);
        this.summary.points++;
      }
    }
    // After any interruption every branch can be worked on again.
    for (const name of listed) {
      const address = { db: DB, branch: name };
      if (this.#branches.get(name)?.destroyed === "maybe") {
        // An interrupted destroy is finished by the next.
        await store.destroy(address, OUTRIGHT);
        assert(await contentAt(store, `${DB}@${name}`, this.#directory) === undefined, `${name} cannot be destroyed`);
        continue;
      }
      append((await store.checkout(address, { force: true })).path, "end");
      await store.checkpoint(address, "the-end");
      assert((await contentAt(store, `${DB}@${name}`, this.#directory))?.endsWith(",end"), name);
    }
  }

  async #verifyNames(store: Store, branch: KnownBranch): Promise<void> {
    const keys = [...this.#maybeNamed].filter(([key]) => key.startsWith(`${branch.name}@`));
    for (const [key, content] of keys) {
      const found = await contentAt(store, `${DB}@${key}`, this.#directory);
      if (this.#named.has(key)) assert(found === content, `${key} holds ${found}, acknowledged was ${content}`);
      else assert(found === undefined || found === content, `${key} holds ${found}, tried was ${content}`);
      if (this.#refusedNames.has(key)) assert(found === undefined, `${key} was refused and is there`);
    }
  }
}

const OPS = [
  "edit",
  "edit",
  "edit",
  "live",
  "live",
  "fork",
  "rollback",
  "promote",
  "merge",
  "merge",
  "merge",
  "revert",
  "revert",
  "undo",
  "compact",
  "destroy",
  "gc",
  "fold",
  "read",
] as const;

/** Adds a row to a checkout and returns its whole content. */
function append(path: string, token: string): string {
  const database = new DatabaseSync(path);
  try {
    database.exec("PRAGMA busy_timeout=5000");
    database.prepare("INSERT INTO t VALUES(?)").run(token);
    return database.prepare("SELECT v FROM t ORDER BY rowid").all().map((row) => String(row.v)).join(",");
  } finally {
    database.close();
  }
}
