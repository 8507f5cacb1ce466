/**
 * A soak run of the store daemon: forks, sessions, stock writers and subscribers come and go at full speed, and nothing
 * that they used may stay behind. What its memory, descriptors, threads and disk come to is measured all the while.
 */

import { DatabaseSync } from "node:sqlite";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { type Client, connect, subscribe } from "../../lib/client/mod.ts";
import { systemClock } from "../../lib/clock.ts";
import { bytesBelow } from "./_bytes_below.ts";
import { SeededRandom } from "../support/writers/random.ts";

/** What to run. */
export interface StoreSoakOptions {
  seed: number;
  duration_ms: number;
  /** Branches that come and go at the same time. */
  branches?: number;
  log: (line: string) => void;
}

/** What the daemon uses at a moment. */
export interface StoreUse {
  /** Since the load began. */
  at_ms: number;
  rss_bytes: number;
  open_files: number;
  threads: number;
  disk_bytes: number;
}

/** What a run came to. */
export interface StoreSoakReport {
  sessions: number;
  /** Before the load, during it, and when it was over. */
  before: StoreUse;
  samples: StoreUse[];
  after: StoreUse;
  violations: string[];
}

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;
const SAMPLES = 12;
/** A run of less has not left its start behind after a sixth of it. */
const LONG_RUN_MS = 10 * 60_000;
/** It ends within this factor of its size after a sixth of the time. */
const MOST_GROWTH = 1.3;
/** Memory that a daemon may take at any moment. */
const MAX_RSS_BYTES = 600 << 20;
/** A worker that was started on the way keeps some; one of each session would be hundreds. */
const SLACK = { open_files: 16, threads: 8 };
/** The runtime ends threads without work after ten seconds. */
const REST = { polls: 40, poll_ms: 1_000 };

/** Runs it in a folder of its own, which is removed. */
export async function soakStore(options: StoreSoakOptions): Promise<StoreSoakReport> {
  const root = await Deno.makeTempDir({ prefix: "soak-store-" });
  const words = ["serve", "--store", `${root}/store`, "--socket", `${root}/s.sock`, "--flush-every", "1s"];
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", ...launchFlags(), MAIN, ...words],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    return await new StoreSoak(root, child.pid, options).run();
  } finally {
    child.kill("SIGTERM");
    await child.status;
    await Deno.remove(root, { recursive: true });
  }
}

class StoreSoak {
  readonly #root: string;
  readonly #pid: number;
  readonly #options: StoreSoakOptions;
  readonly #random: SeededRandom;
  readonly #violations: string[] = [];
  readonly #over = new AbortController();
  #begun_ms = systemClock.monotonic();
  #sessions = 0;

  constructor(root: string, pid: number, options: StoreSoakOptions) {
    this.#root = root;
    this.#pid = pid;
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
  }

  async run(): Promise<StoreSoakReport> {
    const { duration_ms, branches = 4, log } = this.#options;
    const client = await this.#reach();
    await client.call("create", { db: "shop" });
    await this.#visit(client, "main", this.#random, (db) => db.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)"));
    // Every worker has started then.
    await Promise.all(
      Array.from({ length: 2 * branches }, (_, number) => this.#cycle(client, `warm-${number}`, this.#random)),
    );
    const before = this.#use();
    this.#begun_ms = systemClock.monotonic();
    const samples: StoreUse[] = [];
    const load = Promise.all([
      ...Array.from({ length: branches }, (_, number) => this.#work(`b${number}`, this.#random.fork())),
      ...Array.from({ length: 2 }, () => this.#follow(this.#random.fork())),
    ]);
    for (let count = 0; count < SAMPLES && !this.#over.signal.aborted; count++) {
      await systemClock.sleep(duration_ms / SAMPLES);
      const use = this.#use();
      samples.push(use);
      log(`${Math.round(use.at_ms / 1000)} s: ${this.#sessions} sessions, ${textOf(use)}`);
    }
    this.#over.abort();
    await load;
    const after = await this.#rest(before);
    log(`at rest: ${textOf(after)}`);
    await this.#check(client);
    client.close();
    this.#violations.push(...growth({ before, samples, after }, duration_ms));
    return { sessions: this.#sessions, before, samples, after, violations: this.#violations };
  }

  get #socket(): string {
    return `${this.#root}/s.sock`;
  }

  async #reach(): Promise<Client> {
    for (let polls = 600;; polls--) {
      try {
        return await connect(this.#socket);
      } catch (error) {
        if (polls === 0) throw error;
        await systemClock.sleep(50);
      }
    }
  }

  #use(): StoreUse {
    const status = Deno.readTextFileSync(`/proc/${this.#pid}/status`);
    const figure = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)![1]);
    return {
      at_ms: systemClock.monotonic() - this.#begun_ms,
      rss_bytes: figure("VmRSS") * 1024,
      open_files: [...Deno.readDirSync(`/proc/${this.#pid}/fd`)].length,
      threads: figure("Threads"),
      disk_bytes: bytesBelow(`${this.#root}/store`),
    };
  }

  /** A session with a writer in it. */
  async #visit(client: Client, branch: string, random: SeededRandom, write: (db: DatabaseSync) => void): Promise<void> {
    const { checkout } = await client.call("open", { db: "shop", branch });
    const db = new DatabaseSync(checkout, { timeout: 5_000 });
    write(db);
    // Some leave before the session does, some after its last flush.
    const early = random.chance(0.5);
    if (early) db.close();
    await client.call("flush", { db: "shop", branch });
    if (!early) db.close();
    await client.call("close", { db: "shop", branch });
    this.#sessions++;
  }

  /** A branch from its fork to its end. */
  async #cycle(client: Client, branch: string, random: SeededRandom): Promise<void> {
    await client.call("fork", { db: "shop", branch: "main", new_branch: branch });
    const rows = random.between(1, 20);
    await this.#visit(client, branch, random, (db) => {
      for (let row = 0; row < rows; row++) db.exec("INSERT INTO t (b) VALUES (randomblob(1000))");
    });
    await client.call("destroy", { db: "shop", branch, safety: false });
  }

  async #work(name: string, random: SeededRandom): Promise<void> {
    try {
      for (let number = 0; !this.#over.signal.aborted;) {
        const client = await connect(this.#socket);
        for (let left = random.between(1, 50); left > 0 && !this.#over.signal.aborted; left--) {
          await this.#cycle(client, `${name}-${number++}`, random);
        }
        client.close();
      }
    } catch (error) {
      this.#violations.push(`${name}: ${(error as Error).message}`);
      this.#over.abort();
    }
  }

  /** Follows the events, again and again for a while. */
  async #follow(random: SeededRandom): Promise<void> {
    while (!this.#over.signal.aborted) {
      let left = random.between(1, 200);
      try {
        for await (const _event of subscribe(this.#socket, { signal: this.#over.signal })) if (--left === 0) break;
      } catch (error) {
        if (!this.#over.signal.aborted) this.#violations.push(`a subscriber: ${(error as Error).message}`);
        return;
      }
    }
  }

  /** Waits until no more is held than before, for a while. */
  async #rest(before: StoreUse): Promise<StoreUse> {
    for (let polls = REST.polls;; polls--) {
      const use = this.#use();
      if (polls === 0 || held(before, use).length === 0) return use;
      await systemClock.sleep(REST.poll_ms);
    }
  }

  async #check(client: Client): Promise<void> {
    const { sessions } = await client.call("status", {});
    if (sessions.length > 0) this.#violations.push(`${sessions.length} sessions are left`);
    const { branches } = await client.call("branches", { db: "shop" });
    const names = branches.map(({ branch }) => branch);
    if (names.join() !== "main") this.#violations.push(`these branches are left: ${names.join(", ")}`);
  }
}

/** What grew that should not have. */
export function growth(
  { before, samples, after }: Pick<StoreSoakReport, "before" | "samples" | "after">,
  duration_ms: number,
): string[] {
  const found: string[] = [];
  const most = Math.max(...samples.map(({ rss_bytes }) => rss_bytes));
  if (most > MAX_RSS_BYTES) found.push(`the store daemon took ${mib(most)}`);
  const early = samples[Math.ceil(samples.length / 6) - 1];
  const last = samples.at(-1);
  if (duration_ms >= LONG_RUN_MS && early && last && last.rss_bytes > MOST_GROWTH * early.rss_bytes) {
    found.push(
      `the store daemon grew from ${mib(early.rss_bytes)} after a sixth of the time to ${mib(last.rss_bytes)}`,
    );
  }
  return [...found, ...held(before, after)];
}

function held(before: StoreUse, after: StoreUse): string[] {
  return (["open_files", "threads"] as const).filter((name) => after[name] > before[name] + SLACK[name])
    .map((name) => `the store daemon had ${before[name]} ${name} before the load, and has ${after[name]} after it`);
}

/** A line of figures. */
export function textOf({ rss_bytes, open_files, threads, disk_bytes }: StoreUse): string {
  return `${mib(rss_bytes)}, ${open_files} files, ${threads} threads, ${mib(disk_bytes)} on disk`;
}

function mib(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}
