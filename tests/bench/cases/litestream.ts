/**
 * What following a live database costs its application, beside litestream.
 */

import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import type { Bench, BenchCase } from "../bench.ts";
import { commitOn } from "../committer_process.ts";
import type { Place } from "../file_systems.ts";
import { output, pause, processorSeconds, run } from "../process.ts";
import { startStore } from "../store_daemon.ts";
import { elapsed, interleave, type Measure } from "../stats.ts";
import { DB, filesUnder, shopStore } from "./_store.ts";

const SIZE_MB = 100;
const PER_SECOND = 500;

/** Beside litestream; needs it in PATH. */
export const litestream: BenchCase = {
  name: "litestream",
  title: "Follow a live database",
  method:
    "One application commits on three files in turns: one that nothing follows, one with a taskd session, one that litestream replicates to a folder; both store " +
    `what is new each second, and taskd a whole snapshot every 16 times, its default. Rates are of commits as fast as it can; processor time and bytes stored are of ${PER_SECOND} a second. A flush is one transaction, until the daemon answers ` +
    "that it is stored. A restored database is a plain file on its own; litestream has no branches, so that is also what stands beside a fork.",
  places: "plain",
  async run(bench, place) {
    if (await output("litestream", ["version"]) === undefined) return bench.skip("litestream", "it is not installed");
    const shop = await shopStore(bench, place, SIZE_MB);
    if (shop === undefined) return;
    const [bare, replicated] = [join(place.dir, "bare.db"), join(place.dir, "replicated.db")];
    for (const path of [bare, replicated]) {
      await Deno.copyFile(shop.file, path);
      using db = new DatabaseSync(path);
      db.exec("PRAGMA journal_mode = WAL");
    }
    const socket = join(place.dir, "d.sock");
    await using daemon = await startStore({ store: shop.dir, socket, flags: ["--flush-every", "1s"] });
    const { checkout } = await daemon.client.call("open", { db: DB });
    await using peer = await Litestream.start(place.dir, replicated);
    const main = { db: DB, branch: "main" };
    const taskd: Subject = {
      name: "taskd",
      path: checkout,
      pid: daemon.pid,
      stored: join(shop.dir, "data"),
      flush: () => elapsed(() => daemon.client.call("flush", main)),
      restore: (to) => shop.store.export(main, to),
    };
    const beside: Subject = {
      name: "litestream",
      path: replicated,
      pid: peer.pid,
      stored: peer.replica,
      flush: () => peer.sync(),
      restore: (to) => run("litestream", ["restore", "-o", to, `file://${peer.replica}`]),
    };
    await compareRates(bench, place, { bare, subjects: [taskd, beside] });
    await compareCosts(bench, place, [taskd, beside]);
    const copy = join(place.dir, "restored.db");
    const restoring = (subject: Subject): Measure => async () => {
      const ms = await elapsed(() => subject.restore(copy));
      await Deno.remove(copy);
      return ms;
    };
    const fork: Measure = (round) =>
      elapsed(() => daemon.client.call("fork", { db: DB, new_branch: `fork-${round + 10}` }));
    const earlier = new Date(Date.now() - 2_000).toISOString();
    const then = { ...main, checkpoint: `time:${earlier}` };
    const subjects: Record<string, Measure> = {
      "taskd, flush": () => flushOne(taskd),
      "litestream, flush": () => flushOne(beside),
      "taskd, fork": fork,
      "taskd, restored": restoring(taskd),
      "litestream, restored": restoring(beside),
      "taskd, restored to a time": restoring({ ...taskd, restore: (to) => shop.store.export(then, to) }),
      "litestream, restored to a time": restoring({
        ...beside,
        restore: (to) => run("litestream", ["restore", "-timestamp", earlier, "-o", to, `file://${peer.replica}`]),
      }),
    };
    const taken = await interleave(subjects, { samples: bench.pick(20, 3) });
    for (const [subject, samples] of Object.entries(taken)) {
      const what = subject.split(", ")[1]!;
      const beside = `taskd, ${what === "fork" ? "restored" : what}`;
      bench.add(place, subject, "ms", samples, { size_mb: SIZE_MB, beside });
    }
    await daemon.stop();
  },
};

interface Subject {
  name: string;
  path: string;
  pid: number;
  /** Folder of what it stores. */
  stored: string;
  flush: () => Promise<number>;
  restore: (to: string) => Promise<unknown>;
}

/** One transaction, and how long it takes until it is stored. */
function flushOne({ path, flush }: Subject): Promise<number> {
  using db = new DatabaseSync(path, { timeout: 20_000 });
  db.exec("UPDATE products SET stock = stock + 1 WHERE id = 1");
  return flush();
}

async function compareRates(
  bench: Bench,
  place: Place,
  { bare, subjects }: { bare: string; subjects: readonly Subject[] },
): Promise<void> {
  const rate = (path: string): Measure => async () => {
    const duration_ms = bench.pick(3_000, 500);
    const committed = await commitOn(path, { synchronous: "NORMAL", duration_ms, per_second: 0 });
    return committed.transactions / (committed.duration_ms / 1_000);
  };
  const paths = Object.fromEntries(subjects.map(({ name, path }) => [`${name} follows`, rate(path)]));
  const taken = await interleave({ "nothing follows": rate(bare), ...paths }, { samples: bench.pick(8, 3) });
  for (const [subject, samples] of Object.entries(taken)) {
    bench.add(place, subject, "tx/s", samples, { size_mb: SIZE_MB, beside: "nothing follows" });
  }
}

async function compareCosts(bench: Bench, place: Place, subjects: readonly Subject[]): Promise<void> {
  const stored: Record<string, number[]> = {};
  const cost = ({ name, path, pid, stored: folder, flush }: Subject): Measure => async (round) => {
    await flush();
    const [seconds, bytes] = [await processorSeconds(pid), await bytesUnder(folder)];
    const duration_ms = bench.pick(5_000, 1_000);
    const { transactions } = await commitOn(path, { synchronous: "NORMAL", duration_ms, per_second: PER_SECOND });
    await flush();
    if (round >= 0) (stored[name] ??= []).push((await bytesUnder(folder) - bytes) / transactions);
    return 1_000 * 1_000 * (await processorSeconds(pid) - seconds) / transactions;
  };
  const taken = await interleave(Object.fromEntries(subjects.map((subject) => [subject.name, cost(subject)])), {
    samples: bench.pick(6, 3),
  });
  for (const [name, samples] of Object.entries(taken)) {
    const about = (what: string) => ({ size_mb: SIZE_MB, beside: `taskd, ${what}` });
    bench.add(
      place,
      `${name}, processor time of 1,000 commits`,
      "ms",
      samples,
      about("processor time of 1,000 commits"),
    );
    bench.add(place, `${name}, stored of one commit`, "bytes", stored[name]!, about("stored of one commit"));
  }
}

async function bytesUnder(folder: string): Promise<number> {
  return [...(await filesUnder(folder)).values()].reduce((sum, size) => sum + size, 0);
}

/** A running litestream. */
class Litestream implements AsyncDisposable {
  readonly replica: string;
  readonly #path: string;
  readonly #socket: string;
  readonly #child: Deno.ChildProcess;

  private constructor(dir: string, path: string, config: string) {
    this.#path = path;
    this.replica = join(dir, "replica");
    this.#socket = join(dir, "l.sock");
    this.#child = new Deno.Command("litestream", {
      args: ["replicate", "-config", config],
      stdout: "null",
      stderr: "null",
    })
      .spawn();
  }

  /** Starts it on `path` and waits for its first copy. */
  static async start(dir: string, path: string): Promise<Litestream> {
    const config = join(dir, "litestream.json");
    const replica = { type: "file", path: join(dir, "replica"), "sync-interval": "1s" };
    const socket = { enabled: true, path: join(dir, "l.sock") };
    await Deno.writeTextFile(config, JSON.stringify({ socket, dbs: [{ path, replica }] }));
    const started = new Litestream(dir, path, config);
    for (let tries = 0; tries < 100; tries++) {
      await pause(100);
      if (await started.sync().catch(() => undefined) !== undefined) return started;
    }
    await started[Symbol.asyncDispose]();
    throw new Error("litestream does not replicate");
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Milliseconds, as it counts them, until what was committed is in its replica. */
  async sync(): Promise<number> {
    const answer = await run("litestream", ["sync", "-wait", "-json", "-socket", this.#socket, this.#path]);
    return (JSON.parse(answer) as { duration_ms: number }).duration_ms;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}
