/**
 * The program killed at any moment of a destroy and of an undo: the branch is there whole, or what brings it back is.
 */

import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { openStore } from "../../lib/store/open.ts";
import { LONG, scaled, scaledTest } from "../support/long.ts";
import { at, rows, sql } from "../support/stores.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { makePlace } from "./support/taskd.ts";

const ROUNDS = scaled({ short: 2, long: 40 });

scaledTest("a branch is whole or can be brought back, whenever its destroy or undo is killed", async () => {
  await using place = await makePlace();
  await place.json(["create", "shop"]);
  const { path } = await place.json(["checkout", "shop"]) as { path: string };
  sql(path, "CREATE TABLE t(v)", "INSERT INTO t VALUES('kept')");
  await place.json(["checkpoint", "shop", "v1"]);
  await place.json(["fork", "shop", "try"]);
  const random = new SeededRandom(9);
  const outcomes: string[] = [];
  let whole_ms = 0;

  /** Runs a command and kills it on its way; what it takes on its own is learned by the first. */
  async function kill(...words: string[]): Promise<void> {
    const began_ms = systemClock.monotonic();
    const child = place.start(...words);
    const ended = child.output().then(() => whole_ms = Math.max(whole_ms, systemClock.monotonic() - began_ms));
    if (whole_ms === 0) return void await ended;
    // The second half is where it works: before, it loads.
    await Promise.race([ended, systemClock.sleep(random.between(whole_ms / 3, whole_ms))]);
    try {
      child.kill("SIGKILL");
    } catch {
      // It was faster.
    }
    await ended;
  }

  /** The branch as it was, brought back if it is gone; what a killed process held on to is not waited for. */
  async function checked(what: string): Promise<void> {
    const out = `${place.base}/out.db`;
    using store = await openStore(place.store);
    const names = (await store.branches("shop")).map(({ branch }) => branch);
    const gone = !names.includes("try");
    if (gone) await store.undo(at("shop@try"));
    await store.export(at("shop@try"), out, { force: true });
    assertEquals(rows(out), "kept", `${what}: ${names}`);
    assertEquals((await store.verifyAll()).findings, [], what);
    outcomes.push(`${what} ${gone ? "gone" : "there"}`);
  }

  for (let round = 0; round < ROUNDS; round++) {
    await kill("destroy", "shop@try", "--yes");
    await checked("destroy");
    await place.json(["destroy", "shop@try", "--yes"]);
    await kill("undo", "shop@try");
    await checked("undo");
  }
  if (LONG) assert(new Set(outcomes).size === 4, outcomes.join(", "));
});
