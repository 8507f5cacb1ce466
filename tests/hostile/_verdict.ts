/**
 * The verdict on a store after an operation on it was cut off: everything is as before or as
 * after, the next run finishes it, edits are where they were, and collecting garbage leaves
 * nothing of it behind.
 */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { openStore } from "../../lib/store/open.ts";
import type { Store } from "../../lib/store/store.ts";
import { filesBelow } from "../../lib/store/workspace.ts";
import { assertAfter, assertBeforeOrAfter, contentAt, PREPARED, run, type Scenario } from "../sim/scenarios.ts";

/** The system's clock, later. */
function later(ms: number): Clock {
  return { ...systemClock, now: () => systemClock.now() + ms, monotonic: () => systemClock.monotonic() + ms };
}

/** A minute, after which every lease and claim of the killed is stale. */
const STALE_MS = 61_000;
/** Two days, after which no live process works on what the killed left. */
const FORGOTTEN_MS = 2 * 24 * 3600 * 1000;

/** Verifies the store at `location`, on which `scenario` was cut off or, `acknowledged`, done. */
export async function verify(
  location: string,
  directory: string,
  scenario: Scenario,
  acknowledged: boolean,
): Promise<void> {
  {
    using store = await openStore(location);
    await assertBeforeOrAfter(store, scenario, directory);
    await assertCheckouts(location, directory, scenario);
    if (acknowledged) await assertAfter(store, scenario, directory);
    else await finish(store, location, directory, scenario);
    await assertUsable(store, location, directory);
  }
  await assertNothingLeft(location);
}

async function finish(store: Store, location: string, directory: string, scenario: Scenario): Promise<void> {
  // The killed process was one of this workspace: only its claim has to be waited for, not its lease.
  const repeated = await repeat(store, scenario, directory);
  assert(repeated !== "lease_held", "a dead process of this workspace still holds the lease");
  if (repeated === "branch_deleting") {
    using later_store = await openStore(location, { clock: later(STALE_MS) });
    assert(
      await repeat(later_store, scenario, directory) !== "branch_deleting",
      "a claim outlived its process for good",
    );
  }
  await assertAfter(store, scenario, directory);
}

async function repeat(store: Store, scenario: Scenario, directory: string): Promise<string> {
  try {
    await run(scenario, store, directory);
    return "ok";
  } catch (error) {
    if (hasCode(error, ...scenario.repeated ?? [])) return error.code;
    assert(hasCode(error, "lease_held", "branch_deleting"), String(error));
    return error.code;
  }
}

/** The files that applications use: the edit is in one, the other holds a state of its branch. */
async function assertCheckouts(location: string, directory: string, { changes }: Scenario): Promise<void> {
  assertEquals(await rowsOf(`${location}/checkouts/app/main.db`, directory), "1,2,3,4", "an edit was lost");
  const side = await rowsOf(`${location}/checkouts/app/side.db`, directory);
  assert([PREPARED["app@side"], changes["app@side"]].includes(side), `the checkout of app@side holds ${side}`);
}

/** The rows of a copy, so that nothing is changed by looking. */
async function rowsOf(path: string, directory: string): Promise<string> {
  const copy = await Deno.makeTempDir({ dir: directory });
  try {
    await Deno.copyFile(path, `${copy}/copy.db`);
    await Deno.copyFile(`${path}-wal`, `${copy}/copy.db-wal`).catch(() => {});
    const database = new DatabaseSync(`${copy}/copy.db`);
    try {
      assertEquals(database.prepare("PRAGMA integrity_check").get()?.integrity_check, "ok", path);
      return database.prepare("SELECT v FROM t ORDER BY rowid").all().map((row) => String(row.v)).join(",");
    } finally {
      database.close();
    }
  } finally {
    await Deno.remove(copy, { recursive: true });
  }
}

/** An unedited checkout follows its branch without force, and the edit in the other can be kept. */
async function assertUsable(store: Store, location: string, directory: string): Promise<void> {
  await store.checkout(parseAddress("app@side"));
  const side = await rowsOf(`${location}/checkouts/app/side.db`, directory);
  assertEquals(side, await contentAt(store, "app@side", directory), "the checkout of app@side");
  await store.checkpoint(parseAddress("app@main"), "last");
  assertEquals(await contentAt(store, "app@main", directory), "1,2,3,4");
}

/** What may stay in a store, relative to it; whether an object is reached is asked of its lineage. */
const STAYS =
  /^(bstore\.json|clock\.json|gc\/tombstones\.json|\.taskd\/locks\/..|holders\/[0-9a-f]{16}|refs\/app|refs\/fresh|data|checkouts\/app\/(main|side|other)\.db|checkouts-ro\/app\/(main@\w+|~by-chain\/[0-9a-f]{64})\.db)/;
const TEMPORARY = /\.tmp|partial/;

async function assertNothingLeft(location: string): Promise<void> {
  // What the first pass sees ages until the next ones.
  for (let pass = 1; pass <= 3; pass++) {
    using store = await openStore(location, { clock: later(pass * FORGOTTEN_MS) });
    await store.collectGarbage({ grace_ms: 0 });
  }
  const files = [...filesBelow(location, 5)].map((path) => path.slice(location.length + 1));
  assertEquals(files.filter((file) => !STAYS.test(file) || TEMPORARY.test(file)), [], "left behind");
  const reached = lineagesOf(location, files);
  const garbage = files.filter((file) => file.startsWith("data/") && !reached.has(file.split("/")[1]!));
  assertEquals(garbage, [], "garbage left behind");
}

/** Lineages that refs name, and those that base pointers lead to from them. */
function lineagesOf(location: string, files: string[]): Set<string> {
  const reached = new Set<string>();
  const reach = (lineage: string) => {
    if (reached.has(lineage)) return;
    reached.add(lineage);
    const base = `data/${lineage}/base.json`;
    if (files.includes(base)) reach((JSON.parse(Deno.readTextFileSync(`${location}/${base}`)) as Named).lineage);
  };
  for (const file of files.filter((file) => file.startsWith("refs/"))) {
    const { lineage, checkpoints = [] } = JSON.parse(Deno.readTextFileSync(`${location}/${file}`)) as Named;
    reach(lineage);
    for (const checkpoint of checkpoints) reach(checkpoint.lineage ?? lineage);
  }
  return reached;
}

interface Named {
  lineage: string;
  checkpoints?: { lineage?: string }[];
}
