/** Heads and checkpoints that come back from whole files: kinds of damage, and what else there is. */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { cutOff } from "../../tests/support/cut_off.ts";
import { longTest, scaledTest, shortened } from "../../tests/support/long.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { copyTree, filesOf, rewrite } from "../../tests/support/rot.ts";
import { at, makeDatabase, openAt, rows, sql, stored, withApp, withDirectory } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";
import type { Store } from "./store.ts";

const NO_XFS = await whyNotMountable("xfs");
const SESSION = { flush_every_ms: 0, snapshot_every: 16 };
const CHECKOUT = "checkouts/app/main.db";

/** What is beside the damaged objects: how the checkout came to be so, and what repair may lose of the head. */
interface State {
  arrange: (place: string) => void | Promise<void>;
  /** All of the head comes back: always; never for certain; where the objects after this one are sound. */
  whole: boolean | number;
  /** Rows of the checkout beyond the head. */
  edits?: string;
}

function removeCheckout(place: string): void {
  Deno.removeSync(`${place}/checkouts`, { recursive: true });
}

const STATES: Record<string, State> = {
  clean: { arrange: () => {}, whole: true },
  "clean, of another time": { arrange: (place) => Deno.utimeSync(`${place}/${CHECKOUT}`, 1, 1), whole: true },
  "edited, in the log": {
    arrange: async (place) => {
      // As an application leaves it that is killed.
      const path = `${place}/${CHECKOUT}`;
      using application = new DatabaseSync(path);
      application.exec("INSERT INTO t VALUES('edit')");
      await copyTree(`${path}-wal`, `${place}/wal`);
      await copyTree(path, `${place}/main`);
      application.close();
      Deno.renameSync(`${place}/main`, path);
      Deno.renameSync(`${place}/wal`, `${path}-wal`);
    },
    whole: true,
    edits: ",edit",
  },
  "edited, in the file": {
    arrange: (place) => sql(`${place}/${CHECKOUT}`, "INSERT INTO t VALUES('edit')"),
    whole: false,
    edits: ",edit",
  },
  "a byte differs": {
    arrange: (place) => {
      const bytes = Deno.readFileSync(`${place}/${CHECKOUT}`);
      // In a row: SQLite finds nothing wrong.
      bytes[bytes.length - 1] = bytes.at(-1)! ^ 1;
      rewrite(`${place}/${CHECKOUT}`, bytes);
    },
    whole: false,
  },
  "gone, but a cached file of the head": { arrange: removeCheckout, whole: true },
  "gone, but a cached file of a checkpoint": { arrange: removeCheckout, whole: 2 },
  gone: { arrange: removeCheckout, whole: false },
};

/** Which objects of base and three segments are damaged. */
const DAMAGED = [[3], [2], [1], [0], [1, 3], [0, 1, 2, 3]];

/** A store of a branch with a base, a segment for each of three flushes and two forks, one with a commit of its own. */
async function grow(place: string): Promise<string[]> {
  makeDatabase(`${place}.db`, "0");
  using store = await openAt(place);
  await store.create("app", { from: `${place}.db` });
  const session = await CaptureSession.open(store, at("app"), SESSION);
  for (const value of [1, 2, 3]) {
    sql(session.checkout, `INSERT INTO t VALUES('${value}')`);
    await session.checkpoint(`c${value}`);
  }
  await session.close();
  await store.fork(at("app"), "same");
  await store.fork(at("app"), "further");
  const further = await CaptureSession.open(store, at("app@further"), SESSION);
  sql(further.checkout, "INSERT INTO t VALUES('4')");
  await further.close();
  const { ref } = await store.context.refs.read("app", "main");
  return (await store.context.chains.resolve(ref.lineage, ref.txid)).objects.map(({ key }) => key);
}

/** What each branch holds. */
const TRUTH: Record<string, string> = { main: "0,1,2,3", same: "0,1,2,3", further: "0,1,2,3,4" };

interface Cell {
  name: string;
  state: State;
  damaged: number[];
  remove: boolean;
}

async function check(store: Store, place: string, keys: string[], { name, state, damaged, remove }: Cell) {
  const checkout = () =>
    [CHECKOUT, `${CHECKOUT}-wal`].map((file) => {
      try {
        return Deno.readFileSync(`${place}/${file}`).toString();
      } catch {
        return "";
      }
    });
  for (const i of damaged) {
    const path = `${place}/${keys[i]}`;
    if (remove) Deno.removeSync(path);
    else rewrite(path, new Uint8Array(Deno.statSync(path).size));
  }
  const before = checkout();
  const planned = await store.repair({ dry_run: true });
  assertEquals(checkout(), before, name);
  const { restored, moved, left } = await store.repair();
  // Points that come back beside objects are not foreseen: the objects may be enough for them.
  const objects = restored.filter(({ what }) => what !== "point");
  const foreseen = objects.length > 0 ? objects : restored;
  assertEquals(planned.restored.map(({ where }) => where), foreseen.map(({ where }) => where), name);
  assertEquals(moved.map(({ safety_branch: _, ...rest }) => rest), planned.moved, name);
  // The files of applications are never touched.
  assertEquals(checkout(), before, name);
  const whole = typeof state.whole === "number" ? damaged.every((i) => i <= Number(state.whole)) : state.whole;
  const behind = new Set(
    [...moved.filter(({ lost }) => lost), ...left].map((each) =>
      "branch" in each ? each.branch : each.where.split("@")[1]
    ),
  );
  for (const [branch, truth] of Object.entries(TRUTH)) {
    if (whole) assert(!behind.has(branch), `${name}: ${branch}`);
    if (left.some(({ where }) => where === `app@${branch}`)) continue;
    const now = await stored(store, `app@${branch}`);
    assert(behind.has(branch) ? truth.startsWith(now) && now !== truth : now === truth, `${name}: ${branch}: ${now}`);
  }
  // Nothing is deleted: what is damaged is where it was, or kept.
  const kept = filesOf(place);
  if (!remove) { for (const i of damaged) assert(kept.some((path) => path.endsWith(keys[i]!)), name); }
  if (left.length > 0) return;
  const { findings } = await store.verifyAll();
  assertEquals(findings.filter(({ needed_by }) => needed_by.some((point) => !point.includes("-pre-"))), [], name);
  if (!whole) return;
  await store.collectGarbage({ grace_ms: 0 });
  // What the checkout has beyond the head is taken up by the next session.
  const session = await CaptureSession.open(store, at("app"), SESSION);
  sql(session.checkout, "INSERT INTO t VALUES('more')");
  await session.close();
  assertEquals(await stored(store, "app"), `${TRUTH.main}${state.edits ?? ""},more`, name);
}

/** Does every kind of damage in every state, in a directory of their own. */
async function damageAll(parent?: string): Promise<void> {
  await withDirectory(async (directory) => {
    const keys = await grow(`${directory}/store`);
    const cells = Object.entries(STATES).flatMap(([what, state]) =>
      DAMAGED.flatMap((damaged) =>
        [true, false].map((remove) => ({
          name: `${remove ? "removed" : "zeroed"} ${damaged}, checkout ${what}`,
          state,
          damaged,
          remove,
        }))
      )
    );
    for (const cell of shortened(cells, 14)) {
      const { name, state } = cell;
      const place = `${directory}/${cells.indexOf(cell)}`;
      await copyTree(`${directory}/store`, place);
      using store = await openAt(place);
      const cached = name.endsWith("file of the head") ? "c3" : name.includes("cached") ? "c2" : undefined;
      if (cached) await store.checkout(at(`app@main@${cached}`));
      await state.arrange(place);
      await check(store, place, keys, cell);
    }
  }, parent);
}

scaledTest(
  "a head of which objects are lost comes back from a whole file that its checksum proves",
  () => damageAll(),
);

longTest({
  name: `and likewise where checkouts are clones of cached files and have shadows${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () => withMount("xfs", MIN_XFS_MB, damageAll),
});

Deno.test("a segment that is damaged under an open session costs nothing when its checkout is closed", () =>
  withDirectory(async (directory) => {
    const place = `${directory}/store`;
    makeDatabase(`${directory}/source.db`, "0");
    using store = await openAt(place);
    await store.create("app", { from: `${directory}/source.db` });
    const session = await CaptureSession.open(store, at("app"), SESSION);
    sql(session.checkout, "INSERT INTO t VALUES('1')");
    await session.flush();
    const { ref } = await store.context.refs.read("app", "main");
    const newest = `${place}/${(await store.context.chains.resolve(ref.lineage, ref.txid)).objects.at(-1)!.key}`;
    Deno.writeFileSync(newest, new Uint8Array(Deno.statSync(newest).size));
    sql(session.checkout, "INSERT INTO t VALUES('2')");
    await session.flush();
    await session.close();
    const { restored, moved, left } = await store.repair({ branch: at("app") });
    assertEquals([restored.map(({ what, where }) => `${what} ${where}`), left], [["point app@main"], []]);
    assertEquals(moved.map(({ lost_points }) => lost_points), [1], "where it stood before the second flush");
    assertEquals(restored[0]!.from, session.checkout);
    assertEquals(await stored(store, "app"), "0,1,2");
    assertEquals((await store.verifyAll()).findings, []);
    assertEquals((await store.status(at("app"))).state, "idle");
    assertEquals(rows(session.checkout), "0,1,2");
  }));

Deno.test("a head comes from a cached file where its session was killed, and edits made since stay", () =>
  withDirectory(async (directory) => {
    const place = `${directory}/store`;
    makeDatabase(`${directory}/source.db`, "0");
    {
      using made = await openAt(place);
      await made.create("app", { from: `${directory}/source.db` });
    }
    const flush = (value: number) =>
      `sql(session.checkout, "INSERT INTO t VALUES('${value}')"); await session.flush();`;
    await cutOff(place, `${flush(1)} ${flush(2)} await session.checkpoint("c");`);
    using store = await openAt(place);
    await store.checkout(at("app@main@c"));
    const { ref } = await store.context.refs.read("app", "main");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    // The last application to close folds the log: no flush is in it any more.
    sql(`${place}/${CHECKOUT}`, "INSERT INTO t VALUES('3')");
    for (const { key } of objects) rewrite(`${place}/${key}`, new Uint8Array(Deno.statSync(`${place}/${key}`).size));
    const { restored, moved, left } = await store.repair({ branch: at("app") });
    assertEquals([restored.map(({ where }) => where), left], [["app@main", "app@main@c"], []]);
    assertEquals(moved.map(({ lost_points }) => lost_points), [2], "what no file holds");
    assertEquals([await stored(store, "app"), rows(`${place}/${CHECKOUT}`)], ["0,1,2", "0,1,2,3"]);
    const session = await CaptureSession.open(store, at("app"), SESSION);
    await session.close();
    assertEquals([await stored(store, "app"), session.recovery?.outcome], ["0,1,2,3", "kept_both"]);
  }));

Deno.test("a repair that ends at any of its writes is finished by the next", async () => {
  for (let ends_at = 1, done = false; !done; ends_at++) {
    await withApp([1, 2, 3], async ({ store, directory, faults }) => {
      const { backend } = store.context;
      for (const { key } of await Array.fromAsync(backend.list("data/"))) await backend.put(key, new Uint8Array(9));
      let writes = 0;
      const reads = ["get", "getRange", "getStream", "head", "list"];
      faults.plan = ({ method }) => {
        if (reads.includes(method) || ++writes < ends_at) return undefined;
        return { kind: ends_at % 2 === 0 ? "before" : "after", code: "unavailable" };
      };
      await store.repair().catch(() => {});
      done = writes < ends_at;
      faults.plan = () => undefined;
      // As a process that died, whose lease has run out.
      await store.context.refs.update("app", "main", ({ lease: _, ...ref }) => ref);
      using next = await openAt(directory, { backend });
      assertEquals((await next.repair()).left, [], `write ${ends_at}`);
      assertEquals(await stored(next, "app"), "1,2,3", `write ${ends_at}`);
      const session = await CaptureSession.open(next, at("app"), SESSION);
      sql(session.checkout, "INSERT INTO t VALUES('4')");
      await session.close();
      assertEquals(await stored(next, "app"), "1,2,3,4", `write ${ends_at}`);
      assertEquals((await next.branches()).map(({ branch }) => branch).filter((name) => name.includes("found")), []);
    });
  }
});
