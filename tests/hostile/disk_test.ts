import { assert, assertEquals } from "@std/assert";
import { type ErrorCode, hasCode, TaskdError } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { openStore } from "../../lib/store/open.ts";
import { assertAfter, assertBeforeOrAfter, prepare, run, type Scenario, SCENARIOS } from "../sim/scenarios.ts";
import { copyDirectory } from "../sim/template.ts";
import { sqlite3Write } from "../support/writers/oracle.ts";
import { Bench, contentOf } from "./_bench.ts";
import { fillDisk, makeRoom } from "../support/full_disk.ts";
import { mountReadOnlyView, withMount } from "../support/mounts.ts";
import { scaledTest, shortened } from "../support/long.ts";

/** Operations that need nothing but to read the store; diff and verify build images in it. */
const READING: Scenario["op"][] = ["export", "status"];

async function withTemplate(work: (template: string, directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "disk-" });
  try {
    await prepare(await openStore(`${directory}/template`), directory);
    await work(`${directory}/template`, directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function attempt(work: () => Promise<unknown>, codes: ErrorCode[], what: string): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    assert(error instanceof TaskdError, `${what}: ${(error as Error).stack}`);
    assert(hasCode(error, ...codes), `${what}: ${error.code}: ${error.message}`);
    return false;
  }
}

/** Runs one operation on a store whose disk has `spare_bytes` left, and again once there is room. */
async function fillUp(
  location: string,
  filler: string,
  { scenario, spare_bytes, directory }: { scenario: Scenario; spare_bytes: number; directory: string },
): Promise<void> {
  using store = await openStore(location);
  const what = `${scenario.name} with ${spare_bytes} bytes left`;
  fillDisk(filler, spare_bytes);
  let done: boolean;
  try {
    done = await attempt(() => run(scenario, store, directory), ["no_space"], what);
  } finally {
    makeRoom(filler);
  }
  await assertBeforeOrAfter(store, scenario, directory);
  if (!done) await attempt(() => run(scenario, store, directory), scenario.repeated ?? [], `${what}, again`);
  await assertAfter(store, scenario, directory);
}

scaledTest(
  "a full disk is no_space in every operation, and nothing is lost once there is room again",
  async (t) => {
    await withTemplate(async (template, directory) => {
      await withMount("tmpfs", 16, async (disk) => {
        for (const scenario of shortened(SCENARIOS, 4)) {
          await t.step(scenario.name, async () => {
            for (const spare_bytes of [0, 4096, 16_384]) {
              const location = `${disk}/store`;
              await copyDirectory(template, location);
              try {
                await fillUp(location, `${disk}/filler`, { scenario, spare_bytes, directory });
              } finally {
                await Deno.remove(location, { recursive: true });
              }
            }
          });
        }
      });
    });
  },
);

Deno.test("a read-only store can be read, and refuses everything else with denied", async (t) => {
  await withTemplate(async (template, directory) => {
    {
      await using view = await mountReadOnlyView(template);
      const location = view.directory;
      for (const scenario of SCENARIOS) {
        await t.step(scenario.name, async () => {
          using store = await openStore(location);
          const done = await attempt(() => run(scenario, store, directory), ["denied"], scenario.name);
          if (READING.includes(scenario.op)) assert(done, `${scenario.name} was refused`);
          else assert(!done || scenario.op === "checkout", `${scenario.name} said that it succeeded`);
        });
      }
    }
    await assertBeforeOrAfter(await openStore(template), { name: "", op: "status", args: [], changes: {} }, directory);
  });
});

Deno.test("a session on a full disk fails its flush and stores everything once there is room", async () => {
  await withMount("tmpfs", 16, async (disk) => {
    const bench = await Bench.make(`${disk}/store`);
    await using _ = bench;
    const operator = bench.operator();
    const main = parseAddress("app");
    await operator.ok("create", "app", { from: await bench.database() });
    const checkout = String(await operator.ok("session_open", main));
    await sqlite3Write(checkout, "INSERT INTO t(body) VALUES(hex(randomblob(20000)))");
    fillDisk(`${disk}/filler`);
    await operator.fails("no_space", "session_flush");
    await operator.fails("no_space", "session_flush");
    assertEquals((await operator.ok("session_status")).state, "active");
    makeRoom(`${disk}/filler`);
    await sqlite3Write(checkout, "INSERT INTO t(body) VALUES('after')");
    await operator.ok("session_flush");
    await operator.ok("session_close");
    assertEquals(await bench.read(operator, "app@main"), contentOf(checkout));
    await operator.end();
  });
});

Deno.test("a session that cannot close on a full disk is followed by one that stores everything", async () => {
  await withMount("tmpfs", 16, async (disk) => {
    const bench = await Bench.make(`${disk}/store`);
    await using _ = bench;
    const operator = bench.operator();
    const main = parseAddress("app");
    await operator.ok("create", "app", { from: await bench.database() });
    fillDisk(`${disk}/filler`);
    await operator.fails("no_space", "session_open", main);
    makeRoom(`${disk}/filler`);
    const checkout = String(await operator.ok("session_open", main));
    await sqlite3Write(checkout, "INSERT INTO t(body) VALUES(hex(randomblob(20000)))");
    fillDisk(`${disk}/filler`);
    await operator.fails("no_space", "session_close");
    const committed = contentOf(checkout);
    makeRoom(`${disk}/filler`);
    assertEquals(contentOf(String(await operator.ok("session_open", main))), committed);
    await operator.ok("session_close");
    assertEquals(await bench.read(operator, "app@main"), committed);
    await operator.end();
  });
});
