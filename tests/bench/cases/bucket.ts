/**
 * The same questions with the store in a bucket, beside what one does with a bucket alone:
 * copy the whole database in it, up to it or down from it.
 */

import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import { S3Backend } from "../../../lib/backend/s3.ts";
import { CaptureSession } from "../../../lib/capture/session.ts";
import { openStore } from "../../../lib/store/open.ts";
import type { Store } from "../../../lib/store/store.ts";
import { startMinio } from "../../support/minio.ts";
import { backendOptions, type S3Server } from "../../support/s3_server.ts";
import type { Bench, BenchCase } from "../bench.ts";
import type { Place } from "../file_systems.ts";
import { elapsed, interleave, type Measure } from "../stats.ts";
import { DB, MAIN } from "./_store.ts";
import { QUIET } from "./session.ts";
import { messageOf } from "../../../lib/errors.ts";

/** Key of the database as a plain object, for the peers. */
const PLAIN = "shop.db";

/** The case. */
export const bucket: BenchCase = {
  name: "bucket",
  title: "A store in a bucket",
  method:
    "The bucket is that of a MinIO on the same machine, reached over the loopback: a real one adds its distance to every request. `copy in the " +
    "bucket`, `upload` and `download` move the whole plain database through the same client. A restore starts on a host that has nothing.",
  places: "once",
  async run(bench, place) {
    let server: S3Server;
    try {
      server = await startMinio();
    } catch (error) {
      return bench.skip("a store in a bucket", messageOf(error));
    }
    await using _server = server;
    for (const size_mb of bench.pick([12, 100, 1_024], [12])) await compare(bench, place, { server, size_mb });
  },
};

interface Subject {
  bench: Bench;
  place: Place;
  size_mb: number;
  /** The plain database. */
  file: string;
  store: Store;
  /** Where the peers keep theirs. */
  plain: S3Backend;
  /** Opens the store on a host that has nothing. */
  host(workspace: string): Promise<Store>;
}

async function compare(bench: Bench, place: Place, at: { server: S3Server; size_mb: number }): Promise<void> {
  const { server, size_mb } = at;
  const file = await bench.shop(place, size_mb);
  if (file === undefined) return;
  const { bucket, prefix, ...s3 } = backendOptions(server, `store-${size_mb}`);
  const host = (workspace: string) => openStore(`s3://${bucket}/${prefix}`, { workspace, s3, holder: "bench" });
  const store = await host(join(place.dir, `workspace-${size_mb}`));
  await store.create(DB, { from: file });
  const plain = await S3Backend.open(backendOptions(server, `plain-${size_mb}`));
  await upload(file, plain, PLAIN);
  const subject = { bench, place: { ...place, kind: "minio" }, size_mb, file, store, plain, host };
  await fork(subject);
  await flush(subject);
  await restore(subject, place.dir);
  store.close();
  plain.close();
  await Deno.remove(file);
}

async function fork({ bench, place, size_mb, store, plain }: Subject): Promise<void> {
  let forks = 0;
  const taken = await interleave({
    "taskd fork": () => elapsed(() => store.fork(MAIN, `fork-${++forks}`)),
    "copy in the bucket": (round) => elapsed(() => plain.copy(PLAIN, `copy-${round + 100}`)),
  }, { samples: bench.pick(30, 5), budget_ms: 30_000 });
  add({ bench, place, size_mb }, taken, "taskd fork");
}

async function flush({ bench, place, size_mb, file, store, plain }: Subject): Promise<void> {
  const session = await CaptureSession.open(store, MAIN, QUIET);
  const application = new DatabaseSync(session.checkout, { timeout: 20_000 });
  try {
    const statement = application.prepare("UPDATE orders SET status = status || '.' WHERE id = ?");
    const small: Measure = (round) => {
      statement.run(1 + (round + 100) * 13 % 700);
      return elapsed(() => session.flush());
    };
    const whole: Measure = () => elapsed(() => upload(file, plain, "again"));
    const subjects = { "taskd flush, one small transaction": small, "upload": whole };
    const taken = await interleave(subjects, { samples: bench.pick(30, 5), budget_ms: 30_000 });
    add({ bench, place, size_mb }, taken, "taskd flush, one small transaction");
  } finally {
    application.close();
    await session.close();
  }
}

async function restore({ bench, place, size_mb, plain, host }: Subject, dir: string): Promise<void> {
  const branch = { db: DB, branch: "fork-1" };
  const engine: Measure = async () => {
    const workspace = join(dir, "restored");
    const ms = await elapsed(async () => {
      using store = await host(workspace);
      await store.checkout(branch);
    });
    await Deno.remove(workspace, { recursive: true });
    return ms;
  };
  const download: Measure = async () => {
    const path = join(dir, "downloaded.db");
    const ms = await elapsed(async () => {
      using file = await Deno.open(path, { write: true, createNew: true });
      const { chunks } = await plain.getStream(PLAIN);
      for await (const chunk of chunks) {
        for (let at = 0; at < chunk.length;) at += await file.write(chunk.subarray(at));
      }
    });
    await Deno.remove(path);
    return ms;
  };
  const subjects = { "taskd restore": engine, "download": download };
  const taken = await interleave(subjects, { samples: bench.pick(10, 3), budget_ms: 30_000 });
  add({ bench, place, size_mb }, taken, "taskd restore");
}

function add(
  { bench, place, size_mb }: Pick<Subject, "bench" | "place" | "size_mb">,
  taken: Record<string, number[]>,
  first: string,
): void {
  for (const [subject, samples] of Object.entries(taken)) {
    bench.add(place, subject, "ms", samples, { size_mb, ...(subject === first ? {} : { beside: first }) });
  }
}

async function upload(file: string, to: S3Backend, key: string): Promise<void> {
  using source = await Deno.open(file);
  await to.put(key, source.readable);
}
