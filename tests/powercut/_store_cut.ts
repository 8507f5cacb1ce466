/**
 * One cut under a store: a daemon with sessions and stock writers, everything that people do to branches meanwhile, the
 * cut, the next daemon, and everything that was acknowledged held against what is there.
 */

import type { Backend } from "../../lib/backend/backend.ts";
import { copyStore } from "../../lib/store/copy_store.ts";
import { openBackend, openStore } from "../../lib/store/open.ts";
import { systemClock } from "../../lib/clock.ts";
import type { Store } from "../../lib/store/store.ts";
import type { S3Server } from "../support/s3_server.ts";
import { Daemon } from "../support/store_daemon.ts";
import { type Findings, inspect, sqlite3Write } from "../support/writers/oracle.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { initialSchema } from "../support/writers/workload.ts";
import { Writer } from "../support/writers.ts";
import { sound } from "../torture/verdicts.ts";
import { Disk, type FileSystem } from "./_disk.ts";
import { run } from "./_programs.ts";
import { type LiveBranch, missingFrom, noteFlushed, type Point, soFar, StoreModel, torn } from "./_store_model.ts";
import { DB, Storm, writerKind } from "./_store_storm.ts";

/** What one cut came to. */
export interface CutReport {
  /** What went on, for a line of the run's report. */
  what: string;
  /** Every promise that was broken. */
  broken: string[];
  /** What openings made of the checkouts that they found. */
  outcomes?: string[];
}

/** What to run. */
export interface CutOptions {
  seed: number;
  fs: FileSystem;
  /** The store is in a bucket of this server; the disk has the workspace. */
  s3?: S3Server;
  /** What all writers' databases have; otherwise it is drawn for each branch. */
  synchronous?: Synchronous;
  /** Keeps a copy of the disk as it was found after the cut in this directory. */
  keep?: string;
}

/** How long a storm goes on at most before its cut. */
const MAX_STORM_MS = 3_000;
/** When the power may go: right after an answer, or somewhere in an operation that has begun. */
const MOMENTS = [
  ...["flush", "flush", "checkpoint", "fork", "promote", "rollback", "destroy", "close"],
  ...["destroy begun", "destroy begun", "promote begun", "merge begun", "merge begun", "merge"],
];
export const SYNCHRONOUS = ["OFF", "NORMAL", "FULL", "mixed"] as const;
type Synchronous = typeof SYNCHRONOUS[number];
/** Endings of branches that an opening makes: what the checkout held, and what the head was. */
const SAYS_WHY = /^-(?:found|pre-recovery)(?:-\d+)?$/;
/** First writer after the cut. */
const LATER_WRITER = 1_000;

/** Throws where a database is not sound, or has a part of a merge. */
function whole(findings: Findings, what: string): void {
  sound(findings, what);
  const found = torn(findings);
  if (found !== "") throw new Error(`${what}: ${found}`);
}

/** Runs one. */
export async function cutStore(options: CutOptions): Promise<CutReport> {
  await using disk = await Disk.make(options.fs);
  // Sockets of a mounted file system would keep it busy; what is read back needs no device either.
  const scratch = await Deno.makeTempDir({ prefix: "powercut-scratch-" });
  const cut = new StoreCut(disk, scratch, options);
  try {
    return await cut.run();
  } finally {
    await cut.dispose();
    await Deno.remove(scratch, { recursive: true });
  }
}

class StoreCut {
  readonly #disk: Disk;
  readonly #scratch: string;
  readonly #options: CutOptions;
  readonly #random: SeededRandom;
  readonly #model = new StoreModel();
  readonly #broken: string[] = [];
  readonly #said: string[] = [];
  readonly #outcomes: string[] = [];
  #daemon: Daemon | undefined;
  #storm: Storm | undefined;
  #exports = 0;
  /** Copies of the store that were made before the cut. */
  readonly #copies: string[] = [];
  /** Times that the machine came up. */
  #starts = 1;

  constructor(disk: Disk, scratch: string, options: CutOptions) {
    this.#disk = disk;
    this.#scratch = scratch;
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
  }

  get #store(): string {
    const { s3, seed } = this.#options;
    return s3 === undefined ? this.#workspace : `s3://${s3.bucket}/${seed}${this.#disk.directory}`;
  }

  get #workspace(): string {
    return `${this.#disk.directory}/store`;
  }

  #openBackend(): Promise<Backend> {
    const { s3 } = this.#options;
    if (s3 === undefined) return openBackend(this.#store);
    const { endpoint, credentials } = s3;
    return openBackend(this.#store, { s3: { endpoint, credentials } });
  }

  /** The store, for what the daemon is not asked; in a bucket, as another machine sees it. */
  #openStore(): Promise<Store> {
    const { s3 } = this.#options;
    if (s3 === undefined) return openStore(this.#store);
    const { endpoint, credentials } = s3;
    return openStore(this.#store, { workspace: `${this.#scratch}/elsewhere`, s3: { endpoint, credentials } });
  }

  async run(): Promise<CutReport> {
    await this.#begin();
    await this.#stormAndCut();
    await this.#comeUp();
    if (this.#random.chance(0.25)) await this.#cutAgain();
    await this.#trying("the store after the cut", () => this.#check());
    return { what: this.#said.join("; "), broken: this.#broken, outcomes: this.#outcomes };
  }

  async dispose(): Promise<void> {
    await this.#storm?.kill();
    await this.#daemon?.kill();
  }

  /** A database with one to three branches, a session on each. */
  async #begin(): Promise<void> {
    const random = this.#random;
    const seedFile = `${this.#scratch}/seed.db`;
    await sqlite3Write(
      seedFile,
      `PRAGMA page_size=${random.pick([1024, 4096])};\nBEGIN;\n${initialSchema().join(";\n")};\nCOMMIT;`,
    );
    {
      using store = await this.#openStore();
      await store.create(DB, { from: seedFile });
    }
    await this.#startDaemon();
    for (const branch of ["main", "two", "three"].slice(0, random.between(1, 3))) {
      if (branch !== "main") await this.#daemon!.call("fork", { db: DB, branch: "main", new_branch: branch });
      const { checkout } = await this.#daemon!.call("open", { db: DB, branch });
      this.#model.live.push({
        branch,
        checkout: String(checkout),
        synchronous: this.#options.synchronous ?? random.pick(SYNCHRONOUS),
        acknowledged: new Map(),
        flushed: new Map(),
        under_way: 0,
      });
    }
    if (random.chance(0.3)) await this.#disk.settle();
  }

  async #stormAndCut(): Promise<void> {
    const random = this.#random;
    const due = Promise.withResolvers<void>();
    const awaited = random.chance(0.6) ? { moment: random.pick(MOMENTS) } : undefined;
    const early_ms = random.between(0, 1_500);
    const into_ms = random.between(0, 80);
    const began_ms = systemClock.monotonic();
    const storm = this.#storm = new Storm(this.#daemon!, this.#model, random.fork(), (moment) => {
      if (moment !== awaited?.moment || systemClock.monotonic() - began_ms < early_ms) return;
      void systemClock.sleep(moment.endsWith("begun") ? into_ms : 0).then(due.resolve);
    });
    let id = 0;
    for (const live of this.#model.live) {
      const kinds = Array.from({ length: random.between(1, 2) }, () => writerKind(random));
      this.#said.push(`${live.branch} ${live.synchronous} ${kinds.join("+")}`);
      for (const kind of kinds) {
        const { synchronous } = live;
        await storm.write(
          live,
          ++id,
          kind,
          synchronous === "mixed" ? random.pick(["OFF", "NORMAL", "FULL"]) : synchronous,
        );
      }
    }
    for (const _ of [1, 2]) void storm.operate();
    if (random.chance(0.5)) void this.#writeBack(storm, random.fork());
    const copying = random.chance(0.3) ? this.#copy(storm, random.between(0, 800)) : undefined;
    const limit_ms = random.between(50, MAX_STORM_MS);
    await Promise.race([due.promise, systemClock.sleep(awaited === undefined ? limit_ms : MAX_STORM_MS)]);
    // A daemon that was killed before is the harder case for what its sessions left.
    if (random.chance(0.15)) {
      storm.end();
      await this.#daemon!.kill();
      await systemClock.sleep(random.between(0, 300));
      this.#said.push("daemon killed before");
    }
    storm.freeze();
    await this.#disk.cut();
    const after_ms = Math.round(systemClock.monotonic() - began_ms);
    await Promise.all([storm.kill(), this.#daemon!.kill(), copying]);
    const commits = this.#model.live.flatMap((live) => [...live.acknowledged.values()]).flat().length;
    const last = this.#model.acks.at(-1) ?? "nothing";
    this.#said.push(`cut after ${after_ms} ms, last ${last}, ${commits} commits, ${this.#model.acks.length} answers`);
    this.#broken.push(...storm.complaints);
  }

  /** Copies the store beside itself while it is written to. */
  async #copy(storm: Storm, after_ms: number): Promise<void> {
    const path = `${this.#disk.directory}/copy`;
    await systemClock.sleep(after_ms);
    try {
      await copyStore(await this.#openBackend(), await openBackend(path));
      if (storm.over) return;
      this.#copies.push(path);
      this.#said.push("copied");
    } catch (error) {
      // What is destroyed or collected meanwhile may be missing; a copy that was not finished counts for nothing.
      if (!storm.over) this.#said.push(`not copied: ${(error as Error).message}`);
    }
  }

  /** Writes single files out before others, as a kernel does that is short of memory. */
  async #writeBack(storm: Storm, random: SeededRandom): Promise<void> {
    const directory = `${this.#workspace}/checkouts/${DB}`;
    while (!storm.over) {
      await systemClock.sleep(random.between(0, 150));
      try {
        const files = [...Deno.readDirSync(directory)].filter(({ isFile }) => isFile);
        using file = Deno.openSync(`${directory}/${random.pick(files).name}`);
        await file.syncData();
      } catch {
        // Gone meanwhile, or the power is.
      }
    }
  }

  async #comeUp(): Promise<void> {
    await this.#disk.unmount();
    await this.#disk.mount();
    this.#starts++;
    const { keep } = this.#options;
    if (keep !== undefined) await run("cp", "-a", this.#disk.directory, keep);
    await this.#startDaemon();
  }

  /** The power goes once more while the next daemon opens what it finds. */
  async #cutAgain(): Promise<void> {
    const random = this.#random;
    const opening = this.#model.live.map(({ branch }) =>
      this.#daemon!.connect().then((connection) => connection.call("open", { db: DB, branch })).catch(() => {})
    );
    await systemClock.sleep(random.between(0, 400));
    await this.#disk.cut();
    await this.#daemon!.kill();
    await Promise.all(opening);
    this.#said.push("cut again while opening");
    await this.#disk.unmount();
    await this.#disk.mount();
    this.#starts++;
    await this.#startDaemon();
  }

  /** Runs a part of the check; what it throws is a broken promise. */
  async #trying<T>(what: string, check: () => Promise<T>): Promise<T | undefined> {
    try {
      return await check();
    } catch (error) {
      this.#broken.push(`${what}: ${(error as Error).message}`);
      return undefined;
    }
  }

  async #check(): Promise<void> {
    const going = await this.#claimed();
    const states = await this.#states();
    const listed = new Set(states.keys());
    for (const [name, { state, problem }] of states) {
      if (problem !== undefined) this.#broken.push(`${name} is ${state}: ${problem}`);
    }
    for (const live of this.#model.live) {
      const { state } = states.get(live.branch) ?? { state: "gone" };
      await this.#trying(`${live.branch} (${live.synchronous}, found ${state})`, () => this.#checkLive(live, listed));
    }
    await this.#checkPoints(listed, states, going);
    for (const db of this.#model.databases) {
      await this.#trying(`the database ${db}`, () => this.#daemon!.call("status", { db, branch: "main" }));
    }
    for (const { branch, content } of this.#model.destroyed) {
      const names = [...listed].filter((name) => !going.has(name));
      const kept = names.filter((name) => name === branch || name.startsWith(`${branch}-pre-destroy`));
      await this.#trying(`${branch}, which was being destroyed`, async () => {
        const found = await Promise.all(kept.map((name) => this.#read({ branch: name })));
        this.#has(found, this.#model.contents[content]!, "nothing keeps it");
      });
    }
    for (const path of this.#copies) {
      await this.#trying("a copy of the store", async () => {
        using copy = await openStore(path);
        const { findings } = await copy.verifyAll();
        if (findings.length > 0) throw new Error(JSON.stringify(findings));
      });
    }
    for (const branch of listed) {
      if (going.has(branch) || this.#model.live.some((live) => live.branch === branch)) continue;
      await this.#trying(`opening ${branch}`, async () => {
        const { checkout } = await this.#daemon!.call("open", { db: DB, branch });
        whole(await inspect(String(checkout)), "its checkout");
        await this.#daemon!.call("close", { db: DB, branch });
      });
    }
    const code = await this.#daemon!.stop();
    this.#daemon = undefined;
    if (code !== 0) this.#broken.push(`the daemon exited with ${code} on SIGTERM`);
    await this.#trying("verify --all", () => this.#verify());
  }

  /**
   * Branches that a destroy had claimed when the power went: it was not answered, and the next daemon ends it, before or
   * after they are listed.
   */
  async #claimed(): Promise<Set<string>> {
    using store = await this.#openStore();
    const claimed = new Set<string>();
    for (const { branch, ref } of await store.context.refs.all()) if (ref.claim) claimed.add(branch);
    return claimed;
  }

  async #states(): Promise<Map<string, { state: string; problem?: string; protected?: boolean }>> {
    const { branches } = await this.#daemon!.call("branches", { db: DB });
    const list = branches as { branch: string; state: string; problem?: string; protected?: boolean }[];
    return new Map(list.map((info) => [info.branch, info]));
  }

  /** A branch that had a session opens, holds what was flushed, and takes new commits. */
  async #checkLive(live: LiveBranch, before: ReadonlySet<string>): Promise<void> {
    const { branch, flushed } = live;
    const { checkout, recovery } = await this.#daemon!.call("open", { db: DB, branch });
    const { outcome, safety_branch } = (recovery ?? {}) as { outcome?: string; safety_branch?: string };
    this.#outcomes.push(outcome ?? "clean");
    if (outcome !== undefined) this.#said.push(`${branch} ${[outcome, safety_branch].join(" ").trim()}`);
    const kept = await this.#kept(branch, before, safety_branch);
    const opened = await inspect(String(checkout));
    whole(opened, "the checkout");
    this.#has([opened], flushed, "the checkout lacks what was flushed");
    // What an application was promised for good; with others beside it that promise nothing, nothing is.
    if (live.synchronous === "FULL") {
      this.#has([opened, ...kept], soFar(live), "nothing has what FULL had committed");
      const elsewhere = missingFrom([opened], soFar(live));
      if (elsewhere !== "") this.#said.push(`only in ${safety_branch}: ${elsewhere}`);
    }
    await this.#daemon!.call("flush", { db: DB, branch });
    const head = await this.#read({ branch });
    if (head.digest !== opened.digest) throw new Error("the head is not what the checkout holds");

    const writer = await Writer.start("shell", String(checkout));
    const id = LATER_WRITER + this.#model.live.indexOf(live);
    const later = new Map([[id, writer.acknowledged]]);
    for (let seq = 1; seq <= 5; seq++) {
      const { result, text } = await writer.run({
        seq,
        kind: "transaction",
        sql: [`INSERT INTO ack VALUES(${id}, ${seq})`],
      });
      if (result !== "ack") throw new Error(`a commit after the cut: ${result} ${text}`);
    }
    await writer.end();
    await this.#daemon!.call("close", { db: DB, branch });
    this.#has([await this.#read({ branch })], later, "the head lacks what was committed after the cut");
    noteFlushed(live, later);
  }

  /** What the safety branches hold that opening `branch` has made; each says in its name why it is there. */
  async #kept(branch: string, before: ReadonlySet<string>, named: string | undefined): Promise<Findings[]> {
    const found: Findings[] = [];
    const names = [...(await this.#states()).keys()];
    if (named !== undefined && !names.includes(named)) throw new Error(`there is no ${named}, which its opening names`);
    for (const name of names) {
      if (!name.startsWith(`${branch}-`) || this.#model.knows(name)) continue;
      if (!SAYS_WHY.test(name.slice(branch.length))) throw new Error(`${name} does not say why it is there`);
      if (!before.has(name) && name !== named) throw new Error(`${name} is new, and its opening does not name it`);
      found.push(await this.#read({ branch: name }));
    }
    return found;
  }

  async #checkPoints(
    listed: ReadonlySet<string>,
    states: ReadonlyMap<string, { protected?: boolean }>,
    going: ReadonlySet<string>,
  ): Promise<void> {
    const digests = new Map<number, string>();
    const open: [Point, string][] = [];
    for (const point of this.#model.points) {
      const { branch, checkpoint, there } = point;
      const name = checkpoint === undefined ? branch : `${branch}@${checkpoint}`;
      const is_listed = listed.has(branch);
      if (there === "no" && is_listed && checkpoint === undefined) {
        this.#broken.push(`${name} was destroyed and is there`);
      }
      const goes = going.has(branch);
      if (there === "yes" && !is_listed) this.#broken.push(`${name} was acknowledged and is gone`);
      if (there === "yes" && goes) {
        this.#broken.push(`${name} was acknowledged and goes, though no destroy was asked for`);
      }
      if (there === "no" || !is_listed || goes) continue;
      if (point.protected && checkpoint === undefined && there === "yes" && states.get(branch)?.protected !== true) {
        this.#broken.push(`${name} was protected and is not`);
      }
      const findings = there === "yes"
        ? await this.#trying(name, () => this.#read(point))
        : await this.#read(point).catch((error) => {
          // A checkpoint that was not acknowledged need not be there.
          if (checkpoint === undefined) this.#broken.push(`${name}: ${(error as Error).message}`);
          return undefined;
        });
      if (findings === undefined) continue;
      const contents = point.contents.map((number) => this.#model.contents[number]!);
      const lacks = contents.map((commits) => missingFrom([findings], commits));
      if (lacks.every((missing) => missing !== "")) this.#broken.push(`${name} lacks ${lacks.join(" or ")}`);
      if (point.contents.length > 1) open.push([point, findings.digest]);
      else {
        const [number] = point.contents;
        const known = digests.get(number!);
        if (known !== undefined && known !== findings.digest) this.#broken.push(`${name} holds something else`);
        digests.set(number!, findings.digest);
      }
    }
    for (const [{ branch, contents }, digest] of open) {
      const known = contents.map((number) => digests.get(number));
      if (known.every((one) => one !== undefined && one !== digest)) {
        this.#broken.push(`${branch} holds neither what it did nor what it was to`);
      }
    }
  }

  #has(found: readonly Findings[], commits: Parameters<typeof missingFrom>[1], what: string): void {
    const missing = missingFrom(found, commits);
    if (missing !== "") throw new Error(`${what}: ${missing}`);
  }

  async #read({ branch, checkpoint }: Pick<Point, "branch" | "checkpoint">): Promise<Findings> {
    const path = `${this.#scratch}/export-${this.#exports++}.db`;
    using store = await this.#openStore();
    await store.export({ db: DB, branch, ...(checkpoint === undefined ? {} : { checkpoint }) }, path);
    const findings = await inspect(path);
    await Deno.remove(path);
    whole(findings, checkpoint === undefined ? branch : `${branch}@${checkpoint}`);
    return findings;
  }

  async #verify(): Promise<void> {
    const main = new URL("../../cli/main.ts", import.meta.url).pathname;
    const { s3 } = this.#options;
    const words = s3 === undefined ? [] : ["--s3-endpoint", s3.endpoint, "--workspace", this.#workspace];
    const env = s3 === undefined ? {} : {
      AWS_ACCESS_KEY_ID: s3.credentials.access_key_id,
      AWS_SECRET_ACCESS_KEY: s3.credentials.secret_access_key,
    };
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", "--quiet", main, "verify", "--all", "--store", this.#store, ...words],
      env,
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr));
  }

  async #startDaemon(): Promise<void> {
    const random = this.#random;
    const boot = `${this.#scratch}/boot`;
    await Deno.writeTextFile(boot, `start-${this.#starts}\n`);
    this.#daemon = await Daemon.start({
      boot,
      store: this.#store,
      ...(this.#options.s3 === undefined ? {} : { bucket: { server: this.#options.s3, workspace: this.#workspace } }),
      socket: `${this.#scratch}/s`,
      flush_every: random.pick(["0", "150ms", "1s"]),
      snapshot_every: random.pick([1, 3, 16]),
      reap_every: random.pick(["0", "100ms", "1s"]),
      gc_grace: random.pick(["0", "300ms"]),
      ro_cache_budget: "200K",
    });
  }
}
