/**
 * Rounds of stock writers on a branch with a live session, while writers and the daemon
 * are killed, sessions bounced, and branches flushed, checkpointed and forked at moments
 * drawn from a seed. After each round the branch must equal the writers' database: row by
 * row, page by page, with every acknowledged commit.
 */

import { DatabaseSync } from "node:sqlite";
import { OUTRIGHT } from "../support/stores.ts";
import { openStore } from "../../lib/store/open.ts";
import type { Store } from "../../lib/store/store.ts";
import type { S3Server } from "../support/s3_server.ts";
import { initialSchema, type Job, workload } from "../support/writers/workload.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { differingPages, type Findings, inspect, sqlite3Write } from "../support/writers/oracle.ts";
import { type Outcome, Writer, WRITER_KINDS, type WriterKind } from "../support/writers.ts";
import { Maintenance, pickMaintenance } from "../support/maintenance.ts";
import { AnswerError, Daemon } from "../support/store_daemon.ts";
import { emptySummary, holds, prefix, sound, type TortureSummary } from "./verdicts.ts";

/** What to run. */
export interface TortureOptions {
  seed: number;
  /** Ends after this many rounds; absent means by the deadline alone. */
  rounds?: number;
  /** No further round begins after this moment, in `performance.now()` milliseconds. */
  until_ms?: number;
  /** Where the store and all files go; a fresh temporary directory below it is made and removed. */
  directory?: string;
  /** Where the store itself goes instead: a bucket, read back from another workspace than the daemon's. */
  s3?: S3Server;
  log: (line: string) => void;
}

const DB = "app";
/** A call waits a second and more for its lock; so often in a row means that it never gets it. */
const BUSY_ATTEMPTS = 20;

/** A point that was named or forked while writers ran, to be proved at the end of the round and later again. */
interface NamedPoint {
  address: { db: string; branch: string; checkpoint?: string };
  /** Commits acknowledged before the call began: they must be in it. */
  acknowledged: Map<number, number[]>;
  /** The digest of its content, once read. */
  digest?: string;
}

/** Runs rounds until the limit; throws at the first broken promise, with the seed in the message. */
export async function torture(options: TortureOptions): Promise<TortureSummary> {
  const directory = await Deno.makeTempDir({
    prefix: "torture-",
    ...(options.directory === undefined ? {} : { dir: options.directory }),
  });
  const run = new Torture(directory, options);
  try {
    await run.begin();
    while (run.summary.rounds < (options.rounds ?? Infinity) && performance.now() < (options.until_ms ?? Infinity)) {
      await run.round();
    }
    await run.finish();
    return run.summary;
  } catch (error) {
    throw new Error(`seed ${options.seed}, round ${run.summary.rounds}: ${(error as Error).message}\n${run.log}`, {
      cause: error,
    });
  } finally {
    await run.dispose();
    await Deno.remove(directory, { recursive: true });
  }
}

class Torture {
  readonly summary = emptySummary();
  #directory: string;
  #options: TortureOptions;
  #random: SeededRandom;
  #daemon: Daemon | undefined;
  #writers = new Map<number, Writer>();
  #nextWriter = 1;
  #nextName = 1;
  #branches = ["main"];
  #points: NamedPoint[] = [];
  /** Rows that merges of this round have brought, and that reverts have taken out again. */
  #merged = { there: new Set<number>(), gone: new Set<number>() };
  #exports = 0;

  constructor(directory: string, options: TortureOptions) {
    this.#directory = directory;
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
  }

  get #store(): string {
    const { s3 } = this.#options;
    return s3 === undefined ? this.#workspace : `s3://${s3.bucket}${this.#directory}`;
  }

  get #workspace(): string {
    return `${this.#directory}/store`;
  }

  #openStore(): Promise<Store> {
    const { s3 } = this.#options;
    if (s3 === undefined) return openStore(this.#store);
    const { endpoint, credentials } = s3;
    return openStore(this.#store, { workspace: `${this.#directory}/elsewhere`, s3: { endpoint, credentials } });
  }

  /** The daemon's last log lines. */
  get log(): string {
    return this.#daemon?.log ?? "";
  }

  async begin(): Promise<void> {
    const seedFile = `${this.#directory}/seed.db`;
    await sqlite3Write(
      seedFile,
      `PRAGMA page_size=${this.#random.pick([1024, 4096, 16384])};
      BEGIN;\n${initialSchema().join(";\n")};\nCREATE TABLE merged(id INTEGER PRIMARY KEY);\nCOMMIT;`,
    );
    // At rest: the daemon reads and writes nothing outside its store.
    using store = await this.#openStore();
    await store.create(DB, { from: seedFile });
    this.#daemon = await this.#startDaemon();
  }

  async finish(): Promise<void> {
    const code = await this.#daemon!.stop();
    this.#daemon = undefined;
    if (code !== 0) throw new Error(`the daemon exited ${code} on SIGTERM`);
  }

  async dispose(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.kill();
    await this.#daemon?.kill();
  }

  async round(): Promise<void> {
    const random = this.#random.fork();
    const branch = random.pick(this.#branches);
    let checkout = await this.#open(branch);
    const writers = Array.from({ length: random.between(1, 3) }, () => ({
      id: this.#nextWriter++,
      kind: random.pick(WRITER_KINDS),
      random: random.fork(),
      jobs: random.between(20, 80),
    }));
    const incidents = this.#plan(random, writers.reduce((sum, writer) => sum + writer.jobs, 0));
    const maintenance = pickMaintenance(random);
    this.#options.log(
      `round ${this.summary.rounds} ${branch}: ${writers.map((w) => `${w.kind}x${w.jobs}`).join(" ")}; ` +
        `${maintenance ? `${maintenance.script} every ${maintenance.pause_ms} ms; ` : ""}` +
        incidents.map((incident) => `${incident.what}@${incident.after}`).join(" "),
    );

    const beside = maintenance && new Maintenance(checkout, maintenance);
    let answered = 0;
    const acknowledged = new Map<number, number[]>();
    const wake: (() => void)[] = [];
    const running = writers.map((spec) =>
      this.#write(spec, checkout, acknowledged, () => {
        answered++;
        for (const resolve of wake.splice(0)) resolve();
      })
    );
    let finished = false;
    const all = Promise.all(running).finally(() => {
      finished = true;
      for (const resolve of wake.splice(0)) resolve();
    });
    all.catch(() => {});
    try {
      for (const incident of incidents) {
        while (answered < incident.after && !finished) await new Promise<void>((resolve) => wake.push(resolve));
        checkout = await this.#happen(incident.what, branch, random, acknowledged, checkout);
      }
      await all;
    } finally {
      this.summary.maintained += await beside?.end() ?? 0;
    }

    await this.#verify(branch, checkout, acknowledged);
    await this.#rest(branch, random);
    this.summary.acknowledged += [...acknowledged.values()].reduce((sum, list) => sum + list.length, 0);
    this.summary.rounds++;
  }

  /** Runs one writer's jobs, a few under way at a time; a killed or bailed-out one stops. */
  async #write(
    spec: { id: number; kind: WriterKind; random: SeededRandom; jobs: number },
    checkout: string,
    acknowledged: Map<number, number[]>,
    onAnswer: () => void,
  ): Promise<void> {
    const writer = await Writer.start(spec.kind, checkout);
    this.#writers.set(spec.id, writer);
    acknowledged.set(spec.id, writer.acknowledged);
    const jobs = workload(spec.random, spec.id, { maintenance: true, readers: spec.kind !== "shell" });
    const settle = async (job: Job): Promise<Outcome> => {
      const outcome = await writer.run(job);
      onAnswer();
      return outcome;
    };
    for (let sent = 0; sent < spec.jobs;) {
      const batch: Promise<Outcome>[] = [];
      for (let width = spec.random.between(1, 10); width > 0 && sent < spec.jobs; width--, sent++) {
        batch.push(settle(jobs.next().value!));
      }
      const outcomes = await Promise.all(batch);
      const failed = outcomes.find((outcome) => outcome.result === "error");
      if (failed !== undefined) throw new Error(`writer ${spec.id} (${spec.kind}): ${failed.text}`);
      if (outcomes.some((outcome) => outcome.result === "lost")) break;
    }
    await writer.end();
    this.#writers.delete(spec.id);
    if (/malformed|corrupt|not a database|I\/O/i.test(writer.complaints)) throw new Error(writer.complaints);
  }

  #plan(random: SeededRandom, jobs: number): { after: number; what: Incident }[] {
    const incidents: { after: number; what: Incident }[] = [];
    if (random.chance(0.5)) incidents.push({ after: random.between(1, jobs), what: "kill_writer" });
    for (let count = random.between(1, 5); count > 0; count--) {
      incidents.push({ after: random.between(1, jobs), what: random.pick(INCIDENTS) });
    }
    return incidents.sort((a, b) => a.after - b.after);
  }

  async #happen(
    what: Incident,
    branch: string,
    random: SeededRandom,
    acknowledged: Map<number, number[]>,
    checkout: string,
  ): Promise<string> {
    const before = new Map([...acknowledged].map(([id, list]) => [id, [...list]]));
    const name = `${what.replace("_", "-")}-${this.#nextName++}`;
    const address = { db: DB, branch };
    switch (what) {
      case "kill_writer": {
        const victim = [...this.#writers.keys()].sort((a, b) => a - b).at(-1);
        if (victim !== undefined) {
          await this.#writers.get(victim)!.kill();
          this.summary.writers_killed++;
        }
        return checkout;
      }
      case "kill_daemon":
        await this.#daemon!.kill();
        this.summary.daemons_killed++;
        this.#daemon = await this.#startDaemon();
        return await this.#open(branch);
      case "bounce":
        this.summary.bounces++;
        await this.#call("close", address);
        return await this.#open(branch);
      case "flush":
        this.summary.flushes++;
        await this.#call("flush", address);
        return checkout;
      case "checkpoint":
        this.summary.checkpoints++;
        await this.#call("checkpoint", { ...address, name });
        this.#points.push({ address: { ...address, checkpoint: name }, acknowledged: before });
        return checkout;
      case "destroy": {
        const victims = this.#branches.filter((other) => other !== branch && other !== "main");
        if (victims.length === 0) return checkout;
        const victim = random.pick(victims);
        await this.#call("destroy", { db: DB, branch: victim, ...OUTRIGHT });
        this.#branches = this.#branches.filter((other) => other !== victim);
        this.#points = this.#points.filter((point) => point.address.branch !== victim);
        this.summary.destroyed++;
        return checkout;
      }
      case "checkout_at":
        await this.#checkOut(random);
        return checkout;
      case "merge":
        return await this.#merge(name, branch, random, checkout);
      case "fork":
        this.summary.forks++;
        await this.#call("fork", { ...address, new_branch: name, materialize: random.chance(0.3) });
        this.#points.push({ address: { db: DB, branch: name }, acknowledged: before });
        this.#branches.push(name);
        return checkout;
    }
  }

  /** A row of a fork goes into the branch under its writers, at times by a daemon that dies in it, at times out again. */
  async #merge(name: string, into: string, random: SeededRandom, checkout: string): Promise<string> {
    const [side, row] = [{ db: DB, branch: name }, this.#nextName++];
    await this.#call("fork", { db: DB, branch: into, new_branch: name, materialize: random.chance(0.3) });
    const { path } = await this.#call("checkout", side);
    await sqlite3Write(String(path), `INSERT INTO merged VALUES(${row})`);
    await this.#call("checkpoint", { ...side, name: "merged" });
    if (random.chance(0.4)) {
      const cut_off = this.#daemon!.call("merge", { ...side, into }).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, random.between(0, 80)));
      await this.#daemon!.kill();
      await cut_off;
      this.summary.daemons_killed++;
      this.#daemon = await this.#startDaemon();
      checkout = await this.#open(into);
    }
    const { merged, merge } = await this.#call("merge", { ...side, into });
    if (merged !== true) throw new Error(`row ${row} of ${name} is in conflict with ${into}`);
    this.summary.merges++;
    // One that was cut off may have committed, and is then not known by a name.
    const out = merge !== undefined && random.chance(0.3);
    if (out) await this.#call("revert", { db: DB, branch: into, merge });
    this.#merged[out ? "gone" : "there"].add(row);
    await this.#call("destroy", { ...side, ...OUTRIGHT });
    return checkout;
  }

  /** What merges of the round have brought is there once, beside all that writers have written. */
  #verifyMerged(image: string): void {
    using db = new DatabaseSync(image, { readOnly: true });
    const found = new Set(db.prepare("SELECT id FROM merged").all().map(({ id }) => Number(id)));
    const { there, gone } = this.#merged;
    this.#merged = { there: new Set(), gone: new Set() };
    if (!there.isSubsetOf(found)) throw new Error(`merged rows ${[...there.difference(found)]} are gone`);
    if (!gone.isDisjointFrom(found)) throw new Error(`rows ${[...gone.intersection(found)]} of reverts are there`);
  }

  /** A read-only checkout of some checkpoint that was proved before holds the same, also while the cache is evicted. */
  async #checkOut(random: SeededRandom): Promise<void> {
    const proved = this.#points.filter((point) => point.digest !== undefined && point.address.checkpoint !== undefined);
    if (proved.length === 0) return;
    const point = random.pick(proved);
    for (let attempt = 1;; attempt++) {
      const { path } = await this.#call("checkout-at", point.address);
      // Read from a copy: the file itself may be evicted at any moment.
      const copy = `${this.#directory}/copy-${this.#exports++}.db`;
      const { success } = await new Deno.Command("cp", { args: ["--", String(path), copy], stderr: "null" }).output();
      if (!success && attempt < BUSY_ATTEMPTS) continue;
      if ((await inspect(copy)).digest !== point.digest) throw new Error(`the read-only checkout ${path} differs`);
      await Deno.remove(copy);
      this.summary.checkouts++;
      return;
    }
  }

  /** The round's verdict. */
  async #verify(branch: string, checkout: string, acknowledged: Map<number, number[]>): Promise<void> {
    await this.#call("flush", { db: DB, branch });
    const image = await this.#export({ db: DB, branch });
    const [truth, stored] = [await inspect(checkout), await inspect(image)];
    sound(truth, "the checkout");
    sound(stored, "the branch");
    holds(truth, acknowledged, "the checkout");
    holds(stored, acknowledged, "the branch");
    if (truth.digest !== stored.digest) throw new Error(`the branch differs from the checkout ${checkout}`);
    await this.#call("close", { db: DB, branch });
    const pages = await differingPages(checkout, image, this.#directory);
    if (pages.length > 0) throw new Error(`pages ${pages.slice(0, 20)} of the branch differ from the checkout`);
    this.#verifyMerged(image);
    await Deno.remove(image);

    for (const point of this.#points.filter((point) => point.digest === undefined)) {
      const findings = await this.#read(point);
      holds(findings, point.acknowledged, JSON.stringify(point.address));
      if (point.address.checkpoint !== undefined) prefix(findings, truth);
      point.digest = findings.digest;
    }
    // A branch that is written again has another head; a checkpoint is permanent.
    this.#points = this.#points.filter((point) => point.address.checkpoint !== undefined);
    if (this.#points.length > 0) {
      const old = this.#random.pick(this.#points);
      const findings = await this.#read(old);
      if (findings.digest !== old.digest) throw new Error(`checkpoint ${JSON.stringify(old.address)} has changed`);
    }
  }

  /** Between two rounds, with no session: something that moves or rewrites the branch, verified by what it must hold then. */
  async #rest(branch: string, random: SeededRandom): Promise<void> {
    const address = { db: DB, branch };
    const name = random.pick(["none", "compact", "rollback", "promote"]);
    const own = this.#points.filter((point) => point.address.branch === branch);
    let expected: string | undefined;
    if (name === "compact") {
      expected = (await this.#read({ address, acknowledged: new Map() })).digest;
      await this.#call("compact", address);
    } else if (name === "rollback" && own.length > 0) {
      const point = random.pick(own);
      expected = point.digest;
      await this.#call("rollback", { ...address, to: point.address.checkpoint, materialize: random.chance(0.3) });
    } else if (name === "promote" && branch !== "main") {
      expected = (await this.#read({ address, acknowledged: new Map() })).digest;
      await this.#call("promote", { ...address, onto: "main" });
      address.branch = "main";
    }
    if (expected === undefined) return;
    const { digest } = await this.#read({ address, acknowledged: new Map() });
    if (digest !== expected) throw new Error(`after ${name}, ${address.branch} holds something else`);
    this.summary.moves++;
  }

  async #read(point: NamedPoint): Promise<Findings> {
    const image = await this.#export(point.address);
    const findings = await inspect(image);
    sound(findings, JSON.stringify(point.address));
    await Deno.remove(image);
    return findings;
  }

  /**
   * A call that is repeated while writers leave the daemon no gap for its lock (`busy`), or while the janitor, which
   * these daemons give no grace, was faster (`conflict`): both say that nothing was done.
   */
  async #call(op: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#daemon!.call(op, args);
      } catch (error) {
        if (!(error instanceof AnswerError) || attempt === BUSY_ATTEMPTS) throw error;
        if (error.code === "busy") this.summary.busy++;
        else if (error.code === "conflict") this.summary.conflicts++;
        else throw error;
      }
    }
  }

  async #export(address: NamedPoint["address"]): Promise<string> {
    const file = `${this.#directory}/export-${this.#exports++}.db`;
    using store = await this.#openStore();
    await store.export(address, file);
    return file;
  }

  async #open(branch: string): Promise<string> {
    const answer = await this.#call("open", { db: DB, branch });
    return String(answer.checkout);
  }

  async #startDaemon(): Promise<Daemon> {
    return await Daemon.start({
      store: this.#store,
      ...(this.#options.s3 === undefined ? {} : { bucket: { server: this.#options.s3, workspace: this.#workspace } }),
      socket: `${this.#directory}/s`,
      flush_every: this.#random.pick(["0", "200ms", "1s"]),
      snapshot_every: this.#random.pick([1, 3, 16]),
      reap_every: this.#random.pick(["0", "100ms", "1s"]),
      gc_grace: this.#random.pick(["0", "300ms"]),
      ro_cache_budget: this.#random.pick(["0", "200K"]),
    });
  }
}

const INCIDENTS = [
  "kill_daemon",
  "bounce",
  "flush",
  "checkpoint",
  "fork",
  "destroy",
  "checkout_at",
  "merge",
  "merge",
] as const;
type Incident = typeof INCIDENTS[number] | "kill_writer";
