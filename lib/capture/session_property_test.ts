import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { raiseDoubt, Scene } from "../../tests/support/session.ts";
import { at, rows, stored, withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { seededFaults } from "../../tests/support/faulty_backend.ts";
import { LocalBackend } from "../backend/local.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { systemClock } from "../clock.ts";
import { hasCode } from "../errors.ts";
import { PollSchedule } from "./_poll_schedule.ts";
import type { CaptureSession } from "./session.ts";
import { longTest } from "../../tests/support/long.ts";

const NO_FAULTS = () => undefined;
const NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)";

/** What an application may do. */
const WORK = [
  (id: number) => `INSERT INTO t VALUES('${id}')`,
  (id: number) => `BEGIN; INSERT INTO t VALUES('${id}a'); INSERT INTO t VALUES('${id}b'); COMMIT`,
  () => "DELETE FROM t WHERE rowid % 3 = 1",
  () => `${NUMBERS} INSERT INTO t SELECT hex(randomblob(200)) FROM n`,
  () => "DELETE FROM t WHERE length(v) > 100",
  () => "VACUUM",
  () => "PRAGMA wal_checkpoint(TRUNCATE)",
];

/** A random history of a branch: sessions, commits, faults, doubts. What a flush acknowledges is in the store. */
async function live(seed: number, scene: Scene, on_disk: boolean): Promise<void> {
  let passed_ms = 0;
  const random = new SeededRandom(seed);
  // The sessions of every other history get out of the application's way again and again.
  const ways = random.fork();
  const { inTheWay } = PollSchedule.prototype;
  PollSchedule.prototype.inTheWay = () => seed % 2 === 0 && ways.chance(0.1);
  using _restored = { [Symbol.dispose]: () => void (PollSchedule.prototype.inTheWay = inTheWay) };
  const faults = seededFaults(random.fork().bytes, 0.25);
  const path = (await scene.store.checkout(at("app"))).path;
  const application = new DatabaseSync(path);
  application.exec("CREATE TABLE t(v)");
  let reader: DatabaseSync | undefined;
  const names = new Map<string, string>();

  /** Runs `work` while the store fails; time goes on until it is done. */
  const tried = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    scene.plan = faults;
    let done = false;
    const running = work().finally(() => done = true);
    running.catch(() => {});
    while (!done) {
      await scene.pass(1, 1);
      // Clones and disks take real time: a lease of 30 virtual seconds must not run out before some real ones are over.
      if (on_disk && ++passed_ms % 5 === 0) await systemClock.sleep(1);
    }
    scene.plan = NO_FAULTS;
    try {
      return await running;
    } catch (error) {
      if (hasCode(error, "unavailable", "ambiguous", "stalled", "corrupt", "conflict", "lease_held")) return undefined;
      throw error;
    }
  };
  const same = async (what: string) =>
    assertEquals(await stored(scene.store, "app"), rows(path), `seed ${seed}: ${what}`);

  let session: CaptureSession | undefined = await scene.open({ snapshot_every: 3 });
  for (let step = 0; step < 60; step++) {
    const what = random.between(1, 20);
    if (what <= 9) {
      for (let i = random.between(1, 3); i > 0; i--) application.exec(random.pick(WORK)(step));
    } else if (what <= 15 && session) {
      if (await tried(() => session!.flush())) await same(`flush ${step}`);
    } else if (what === 16 && session) {
      if (await tried(() => session!.checkpoint(`c${step}`))) names.set(`app@main@c${step}`, rows(path));
    } else if (what === 17 && session) {
      application.exec("INSERT INTO t VALUES('doubt')");
      session.status();
      raiseDoubt(session);
    } else if (what === 18) {
      if (reader) reader.close();
      else (reader = new DatabaseSync(path)).exec("BEGIN; SELECT count(*) FROM t");
      if (!reader!.isOpen) reader = undefined;
    } else if (what === 19) {
      await scene.pass(random.between(100, 3_000), 50);
    } else if (session) {
      const closing = session;
      session = undefined;
      await tried(() => closing.close().then(() => true));
      // A lease whose release failed is honoured until it runs out.
      scene.clock.advance(31_000);
    }
    session ??= await scene.open({ snapshot_every: 3 });
    assertEquals(session.status().state, "active", `seed ${seed}, step ${step}: ${session.status().error?.message}`);
  }
  await session.flush();
  await same("the last flush");
  await session.close();
  reader?.close();
  application.close();
  await same("close");
  for (const [name, content] of names) assertEquals(await stored(scene.store, name), content, `seed ${seed}: ${name}`);
  assertEquals((await scene.store.verify(at("app"))).problems, [], `seed ${seed}`);
}

Deno.test("what a flush acknowledges is in the store and stays, whatever fails around the session", async (t) => {
  for (let seed = 1; seed <= 8; seed++) {
    await t.step(`seed ${seed}`, () =>
      withDirectory(async (directory) => {
        const scene = await Scene.make(directory, new MemoryBackend());
        await live(seed, scene, false);
        scene.store.close();
      }));
  }
});

const why = await whyNotMountable("xfs");

longTest({
  name: `the same where snapshots are clones of the checkout${why}`,
  ignore: why !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (root) => {
      for (let seed = 101; seed <= 103; seed++) {
        await withDirectory(async (directory) => {
          const scene = await Scene.make(directory, await LocalBackend.open(directory));
          await live(seed, scene, true);
          scene.store.close();
        }, root);
      }
    }),
});
