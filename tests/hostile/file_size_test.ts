/**
 * A limit on the size of files (`ulimit -f`): its signal would end a program without a word.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../lib/clock.ts";
import { lstatIfPresent } from "../../lib/fs.ts";
import { startDaemon } from "../cli/support/daemon.ts";
import { makePlace } from "../cli/support/taskd.ts";
import { sqlite3Write } from "../support/writers/oracle.ts";
import { longTest } from "../support/long.ts";

const LIMIT_BYTES = 1 << 20;
const HINT = "ulimit -f";
/** More than the limit, and no smaller when it is compressed. */
const LARGE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)" +
  " INSERT INTO t SELECT randomblob(1000) FROM n;";

/** Programs that are started have caches of their own to write: so the limit is set once they run. */
async function limit(pid: number, bytes: number | "unlimited"): Promise<void> {
  const { success } = await new Deno.Command("prlimit", { args: [`--pid=${pid}`, `--fsize=${bytes}:unlimited`] })
    .output();
  assert(success);
}

longTest("a daemon whose files may not grow names the limit, lives on, and stores what was left", async () => {
  await using place = await makePlace();
  await using daemon = await startDaemon(place);
  await place.json(["create", "shop"]);
  const { checkout } = await place.json(["session", "open", "shop"]);
  await sqlite3Write(String(checkout), "CREATE TABLE t(v);");
  await place.json(["session", "flush", "shop"]);
  await limit(daemon.pid, LIMIT_BYTES);
  await sqlite3Write(String(checkout), LARGE);
  const refused = await place.json(["session", "flush", "shop"], 1);
  assertEquals(refused.code, "no_space");
  assertStringIncludes(String(refused.hint), HINT);
  await limit(daemon.pid, "unlimited");
  await place.json(["session", "flush", "shop"]);
  await place.json(["session", "close", "shop"]);
  assertEquals((await place.json(["verify", "shop"])).intact, true);
  await place.json(["export", "shop", `${place.base}/out.db`]);
  assertEquals(await sqlite3Write(`${place.base}/out.db`, "SELECT count(*) FROM t;"), "3000\n");
  assertEquals((await daemon.stop()).code, 0);
});

Deno.test("a command whose files may not grow names the limit", async () => {
  await using place = await makePlace();
  const from = `${place.base}/large.db`;
  await sqlite3Write(from, `CREATE TABLE t(v); ${LARGE.replace("3000", "40000")}`);
  // The command waits for the writer of the file, and so for its limit.
  const writer = new DatabaseSync(from);
  writer.exec("BEGIN EXCLUSIVE");
  const child = place.start("create", "shop", "--from", from, "--json");
  while (lstatIfPresent(place.store) === undefined) await systemClock.sleep(1);
  await limit(child.pid, LIMIT_BYTES);
  writer.close();
  const { code, stdout } = await child.output();
  assertEquals(code, 1);
  const refused = JSON.parse(new TextDecoder().decode(stdout));
  assertStringIncludes(refused.hint, HINT);
});
