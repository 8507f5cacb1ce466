/**
 * What goes on in a store when its power is cut: writers, flushes, checkpoints, forks, rollbacks, promotions and the rest,
 * several at a time, each noted in the model when it is answered.
 */

import { OUTRIGHT } from "../support/stores.ts";
import { systemClock } from "../../lib/clock.ts";
import { AnswerError, type Daemon, type DaemonConnection } from "../support/store_daemon.ts";
import type { SeededRandom } from "../support/writers/random.ts";
import { workload } from "../support/writers/workload.ts";
import { Writer, WRITER_KINDS, type WriterKind } from "../support/writers.ts";
import { sqlite3Write } from "../support/writers/oracle.ts";
import {
  type Commits,
  type LiveBranch,
  MERGED,
  noteFlushed,
  type Point,
  soFar,
  type StoreModel,
} from "./_store_model.ts";

/** The database of every run. */
export const DB = "app";
/** Answers that say that nothing was done, and may be given at any time. */
const PASSING = ["busy", "conflict", "protected"];
/** First job of a writer, whose numbers begin at 1. */
const SETTING = 0;

const LIVE_OPERATIONS = [
  ...["flush", "flush", "checkpoint", "fork", "promote_live", "merge", "merge", "bounce", "create"] as const,
];
const RESTING_OPERATIONS = [
  "checkpoint_at_rest",
  "fork_at_rest",
  "rollback",
  "promote",
  "destroy",
  "destroy_and_undo",
  "destroy_and_undo",
  "compact",
  "protect",
];

/** The storm over one store. */
export class Storm {
  /** What should not have been answered. */
  readonly complaints: string[] = [];
  readonly #daemon: Daemon;
  readonly #model: StoreModel;
  readonly #random: SeededRandom;
  readonly #onMoment: (moment: string) => void;
  readonly #writers: Writer[] = [];
  #names = 0;
  #over = false;
  #frozen = false;

  /** Prepares it; `onMoment` receives `NAME begun` for every operation that is asked for, and its name when it is answered. */
  constructor(daemon: Daemon, model: StoreModel, random: SeededRandom, onMoment: (moment: string) => void) {
    this.#daemon = daemon;
    this.#model = model;
    this.#random = random;
    this.#onMoment = onMoment;
  }

  /** Starts a writer for `live`, and keeps it writing until the storm is over. */
  async write(live: LiveBranch, id: number, kind: WriterKind, synchronous: string): Promise<void> {
    const random = this.#random.fork();
    const writer = await Writer.start(kind, live.checkout);
    this.#writers.push(writer);
    live.acknowledged.set(id, writer.acknowledged);
    const maintenance = random.chance(0.3);
    const pause_ms = random.pick([0, 5, 50]);
    const jobs = workload(random, id, { maintenance, readers: kind !== "shell" });
    await writer.run({ seq: SETTING, kind: "plain", sql: [`PRAGMA synchronous=${synchronous}`] });
    (async () => {
      while (!this.#over) {
        const batch = Array.from({ length: random.between(1, 6) }, () => writer.run(jobs.next().value!));
        if ((await Promise.all(batch)).some(({ result }) => result === "lost")) return;
        await systemClock.sleep(pause_ms);
      }
    })();
  }

  /** One operator: operations one after the other, until the storm is over. */
  async operate(): Promise<void> {
    const random = this.#random.fork();
    let connection: DaemonConnection;
    try {
      connection = await this.#daemon.connect();
      while (!this.#over) {
        await systemClock.sleep(random.between(0, 60));
        await this.#operation(connection, random);
      }
    } catch (error) {
      if (!this.#over) this.complaints.push(`an operator's connection: ${(error as Error).message}`);
    }
  }

  /** Whether the power is off. */
  get over(): boolean {
    return this.#over;
  }

  /** From now on no answer is a complaint: the power is off. */
  end(): void {
    this.#over = true;
  }

  /**
   * What is answered from now on counts no more: an fsync that is under way when a file system is ended may report
   * success, which no machine without power lives to hear.
   */
  freeze(): void {
    this.#over = this.#frozen = true;
    for (const live of this.#model.live) live.acknowledged = new Map(soFar(live)) as Map<number, number[]>;
  }

  /** Kills the writers. */
  async kill(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#writers.map((writer) => writer.kill()));
  }

  async #operation(connection: DaemonConnection, random: SeededRandom): Promise<void> {
    const open = this.#model.live.filter(({ bouncing }) => !bouncing);
    const live = open.length === 0 ? undefined : random.pick(open);
    const resting = this.#model.resting();
    if (resting.length === 0 || random.chance(0.55)) {
      if (live === undefined) return;
      const operation = random.pick(LIVE_OPERATIONS);
      if (operation === "bounce" && live.under_way > 0) return;
      live.under_way++;
      await this.#live(connection, random, operation, live).finally(() => live.under_way--);
      return;
    }
    const point = random.pick(resting);
    point.taken = true;
    try {
      await this.#resting(connection, random, random.pick(RESTING_OPERATIONS), point);
    } finally {
      delete point.taken;
    }
  }

  #name(what: string): string {
    return `${what}-${++this.#names}`;
  }

  /** Whether it was acknowledged; otherwise it was refused, or is not known. */
  async #call(connection: DaemonConnection, op: string, args: Record<string, unknown>) {
    try {
      this.#onMoment(`${op} begun`);
      const answer = await connection.call(op, { db: DB, ...args });
      if (this.#frozen) return "unknown";
      this.#model.acks.push(op);
      this.#onMoment(op);
      return answer;
    } catch (error) {
      if (!(error instanceof AnswerError)) throw error;
      if (error.code === "disconnected") throw error;
      // An error of the disk may come before the storm knows that the power is off.
      const known = PASSING.includes(error.code) || this.#over;
      await systemClock.sleep(known ? 0 : 100);
      if (!known && !this.#over) this.complaints.push(error.message);
      return PASSING.includes(error.code) ? "refused" : "unknown";
    }
  }

  async #live(
    connection: DaemonConnection,
    random: SeededRandom,
    operation: typeof LIVE_OPERATIONS[number],
    live: LiveBranch,
  ): Promise<void> {
    const model = this.#model;
    const commits = soFar(live);
    const { branch } = live;
    const flushed = (answer: unknown) => typeof answer === "object" && noteFlushed(live, commits);
    switch (operation) {
      case "flush":
        return void flushed(await this.#call(connection, "flush", { branch }));
      case "checkpoint": {
        const point = this.#add({ branch, checkpoint: this.#name("cp"), contents: [model.content(commits)] });
        const answer = await this.#call(connection, "checkpoint", { branch, name: point.checkpoint });
        flushed(answer);
        return this.#made(point, answer);
      }
      case "fork": {
        const point = this.#add({ branch: this.#name("fork"), contents: [model.content(commits)] });
        const args = { branch, new_branch: point.branch, materialize: random.chance(0.2) };
        const answer = await this.#call(connection, "fork", args);
        flushed(answer);
        return this.#made(point, answer);
      }
      case "promote_live": {
        const resting = model.resting();
        if (resting.length === 0) return;
        const target = random.pick(resting);
        target.taken = true;
        const answer = await this.#repoint(connection, target, model.content(commits), "promote", {
          branch,
          onto: target.branch,
        });
        flushed(answer);
        delete target.taken;
        return;
      }
      case "merge":
        return await this.#merge(connection, live, commits);
      case "create": {
        const db = this.#name("db");
        if (typeof await this.#call(connection, "create", { db }) === "object") model.databases.push(db);
        return;
      }
      case "bounce": {
        live.bouncing = true;
        if (typeof await this.#call(connection, "close", { branch }) === "object") {
          noteFlushed(live, commits);
          await this.#call(connection, "open", { branch });
        }
        delete live.bouncing;
        return;
      }
    }
  }

  /** Merges into a live branch what was done in a fork of it, in one transaction. */
  async #merge(connection: DaemonConnection, live: LiveBranch, commits: Commits): Promise<void> {
    const model = this.#model;
    const source = this.#add({ branch: this.#name("source"), contents: [model.content(commits)], taken: true });
    const { branch } = source;
    const forked = await this.#call(connection, "fork", { branch: live.branch, new_branch: branch });
    this.#made(source, forked);
    if (typeof forked !== "object") return;
    noteFlushed(live, commits);
    const done: Commits = new Map([[++model.merges + MERGED.first, MERGED.rows]]);
    const [before] = source.contents;
    const after = model.content(new Map([...commits, ...done]));
    source.contents = [before!, after];
    const opened = await this.#call(connection, "open", { branch });
    if (typeof opened !== "object") return;
    const rows = [...done].flatMap(([id, list]) => list.map((seq) => `(${id}, ${seq})`));
    try {
      await sqlite3Write(String(opened.checkout), `INSERT INTO ack VALUES ${rows.join(", ")}`);
    } catch (error) {
      if (!this.#over) this.complaints.push(`a commit to ${branch}: ${(error as Error).message}`);
      return;
    }
    if (typeof await this.#call(connection, "close", { branch }) !== "object") return;
    source.contents = [after];
    const answer = await this.#call(connection, "merge", { branch, into: live.branch });
    if (typeof answer === "object") {
      if (answer.merged !== true) this.complaints.push(`a merge into ${live.branch}: ${JSON.stringify(answer)}`);
      for (const [id, list] of done) live.acknowledged.set(id, [...list]);
      noteFlushed(live, done);
    }
    delete source.taken;
  }

  async #resting(connection: DaemonConnection, random: SeededRandom, operation: string, point: Point): Promise<void> {
    const { branch } = point;
    const [content] = point.contents;
    switch (operation) {
      case "checkpoint_at_rest": {
        const made = this.#add({ branch, checkpoint: this.#name("cp"), contents: [content!] });
        return this.#made(made, await this.#call(connection, "checkpoint", { branch, name: made.checkpoint }));
      }
      case "fork_at_rest": {
        const made = this.#add({ branch: this.#name("fork"), contents: [content!] });
        return this.#made(made, await this.#call(connection, "fork", { branch, new_branch: made.branch }));
      }
      case "rollback": {
        const to = this.#model.checkpointsOf(branch);
        if (to.length === 0) return;
        const { checkpoint, contents } = random.pick(to);
        return void await this.#repoint(connection, point, contents[0]!, "rollback", { branch, to: checkpoint });
      }
      case "promote": {
        const others = this.#model.resting();
        if (others.length === 0) return;
        const target = random.pick(others);
        target.taken = true;
        await this.#repoint(connection, target, content!, "promote", { branch, onto: target.branch });
        delete target.taken;
        return;
      }
      case "destroy": {
        const gone = this.#model.points.filter((other) => other.branch === branch && other.there !== "no");
        const before = gone.map(({ there }) => there);
        for (const other of gone) other.there = "maybe";
        const answer = await this.#call(connection, "destroy", {
          branch,
          ...OUTRIGHT,
          ...(point.protected ? { force: true } : {}),
        });
        if (answer === "unknown") return;
        for (const [index, other] of gone.entries()) other.there = answer === "refused" ? before[index]! : "no";
        return;
      }
      case "destroy_and_undo":
        return await this.#destroyAndUndo(connection, random, point);
      case "protect": {
        const answer = await this.#call(connection, "protect", { branch, on: true });
        if (typeof answer === "object") point.protected = true;
        return;
      }
      default:
        await this.#call(connection, "compact", { branch });
    }
  }

  /** Destroys a branch that is kept, and most often brings it back: whatever is answered, it is there or what keeps it. */
  async #destroyAndUndo(connection: DaemonConnection, random: SeededRandom, point: Point): Promise<void> {
    const { branch } = point;
    const { points, destroyed } = this.#model;
    const [content] = point.contents;
    const gone = points.filter((other) => other.branch === branch && other.there !== "no");
    const before = gone.map(({ there }) => there);
    const set = (there: Point["there"]) => gone.forEach((other) => other.there = there);
    set("maybe");
    const entry = { branch, content: content! };
    // A branch that keeps something is not kept in turn.
    if (!/-pre-/.test(branch)) destroyed.push(entry);
    const forget = () => destroyed.includes(entry) && destroyed.splice(destroyed.indexOf(entry), 1);
    const force = point.protected ? { force: true } : {};
    const answer = await this.#call(connection, "destroy", { branch, confirm: true, ...force });
    if (answer === "unknown") return;
    if (answer === "refused") {
      forget();
      return gone.forEach((other, index) => other.there = before[index]!);
    }
    set("no");
    const { safety_branch } = answer;
    if (typeof safety_branch !== "string") return;
    const kept = this.#add({ branch: safety_branch, contents: [content!], there: "yes" });
    forget();
    kept.taken = true;
    if (random.chance(0.7)) {
      set("maybe");
      const undone = await this.#call(connection, "undo", { branch });
      if (undone !== "unknown") set(typeof undone === "object" ? "yes" : "no");
    }
    delete kept.taken;
  }

  /** A rollback or promotion of `target` to `content`, and the safety branch that it names. */
  async #repoint(
    connection: DaemonConnection,
    target: Point,
    content: number,
    op: "rollback" | "promote",
    args: Record<string, unknown>,
  ): Promise<Record<string, unknown> | "refused" | "unknown"> {
    const before = target.contents;
    target.contents = [...before, content];
    const answer = await this.#call(connection, op, args);
    if (answer === "refused") target.contents = before;
    if (typeof answer !== "object") return answer;
    target.contents = [content];
    const { safety_branch } = answer;
    if (typeof safety_branch === "string") this.#add({ branch: safety_branch, contents: before, there: "yes" });
    return answer;
  }

  #add(point: Omit<Point, "there"> & Partial<Pick<Point, "there">>): Point {
    const added: Point = { there: "maybe", ...point };
    // The name of a safety branch is used again once it is destroyed.
    const { points } = this.#model;
    const before = points.findIndex((known) =>
      known.branch === point.branch && known.checkpoint === point.checkpoint && known.there !== "yes"
    );
    if (before >= 0) points.splice(before, 1);
    points.push(added);
    return added;
  }

  #made(point: Point, answer: unknown): void {
    if (answer === "unknown") return;
    point.there = typeof answer === "object" ? "yes" : "no";
    // Its name may have been taken back: it is made once.
    if (point.there === "no") this.#model.points.splice(this.#model.points.indexOf(point), 1);
  }
}

/** A kind of writer. */
export function writerKind(random: SeededRandom): WriterKind {
  return random.pick(WRITER_KINDS);
}
