import { assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../lib/clock.ts";
import { longTest } from "../support/long.ts";
import { startDaemon } from "./support/daemon.ts";
import { makePlace, type Place } from "./support/taskd.ts";

/** Large enough that its copy is far from done when the first byte of it is seen. */
const SOURCE_BYTES = 128 * 1024 * 1024;

function makeLarge(path: string): void {
  const db = new DatabaseSync(path);
  try {
    db.exec(`PRAGMA synchronous=OFF; CREATE TABLE t(a); INSERT INTO t VALUES (randomblob(${SOURCE_BYTES}))`);
  } finally {
    db.close();
  }
}

/** Starts to create a large database and returns when its copy has begun. */
async function startCreate(place: Place): Promise<Deno.ChildProcess> {
  makeLarge(`${place.base}/large.db`);
  const child = place.start("create", "shop", "--from", "large.db");
  while (!hasFiles(`${place.store}/tmp`)) await systemClock.sleep(2);
  return child;
}

function hasFiles(directory: string): boolean {
  try {
    return [...Deno.readDirSync(directory)].some((entry) => entry.isFile);
  } catch {
    return false;
  }
}

for (const [signal, status] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
  Deno.test(`${signal} ends a long create with ${status} and leaves the store as it was`, async () => {
    await using place = await makePlace();
    const child = await startCreate(place);
    child.kill(signal);
    const { code, stdout, stderr } = await child.output();
    const texts = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assertEquals([code, ...texts], [status, "", "taskd: The operation was interrupted\n"]);
    assertEquals((await place.json(["branches"])).branches, []);
    assertEquals([...Deno.readDirSync(`${place.store}/tmp`)], []);
  });
}

longTest("a command ends when the daemon is stopped and does not answer, and says so", async () => {
  await using place = await makePlace();
  await using daemon = await startDaemon(place);
  const { pid } = daemon.hello;
  Deno.kill(pid, "SIGSTOP");
  try {
    const { code, stderr } = await place.taskd("branches");
    assertEquals(code, 1);
    assertStringIncludes(stderr, "has been silent for 30 seconds");
    assertStringIncludes(stderr, "kill -CONT");
  } finally {
    Deno.kill(pid, "SIGCONT");
  }
  assertEquals((await place.json(["branches"])).branches, []);
});
