/**
 * One bit flipped in any small record of a store, on the disk or in one read: whatever people do then answers as before,
 * or fails and names what is damaged. Nothing wrong is returned, and nothing wrong is written back.
 */

import { assert, assertEquals } from "@std/assert";
import type { Backend } from "../../lib/backend/backend.ts";
import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { decodeRef } from "../../lib/store/ref.ts";
import { Store } from "../../lib/store/store.ts";
import { VirtualClock } from "../support/clock.ts";
import { flippingBackend } from "../support/flipping_backend.ts";
import { scaled, scaledTest } from "../support/long.ts";
import { MemoryBackend } from "../support/memory_backend.ts";
import { at, fails, makeDatabase, rows, sql, stored, withDirectory } from "../support/stores.ts";
import { SeededRandom } from "../support/writers/random.ts";

/** What the branches hold. */
const CONTENT: Record<string, string> = {
  "app@main": "1,2,3",
  "app@main@c2": "1,2",
  "app@side": "1,2,4",
  "app@twig": "1,2,4",
};
/** What damage is reported as: of the record itself, of a branch whose history it belongs to, or of a whole pass. */
const CODES: ErrorCode[] = ["corrupt", "unsupported_format", "unsupported_layout", "not_a_store", "gc_failed", "dirty"];

/** Objects by key. */
type Image = Map<string, Uint8Array>;

async function imageOf(backend: Backend): Promise<Image> {
  const image: Image = new Map();
  for await (const { key } of backend.list("")) image.set(key, (await backend.get(key)).bytes);
  return image;
}

async function backendOf(image: Image): Promise<MemoryBackend> {
  const backend = new MemoryBackend();
  for (const [key, bytes] of image) await backend.put(key, bytes);
  return backend;
}

/** A store with all kinds of records, and where its checkouts are. */
async function makeStore(directory: string): Promise<{ image: Image; clock: VirtualClock }> {
  const clock = new VirtualClock();
  const backend = new MemoryBackend();
  using store = await Store.open({ workspace: directory, clock, backend });
  makeDatabase(`${directory}/source.db`, "1");
  await store.create("app", { from: `${directory}/source.db` });
  const edit = async (branch: string, value: string, checkpoint: string) => {
    sql((await store.checkout(at(`app@${branch}`))).path, `INSERT INTO t VALUES('${value}')`);
    await store.checkpoint(at(`app@${branch}`), checkpoint);
  };
  await edit("main", "2", "c2");
  await store.fork(at("app"), "side", { ttl_ms: 1e12 });
  await edit("main", "3", "c3");
  await edit("side", "4", "c4");
  await store.fork(at("app@side"), "twig");
  for (const [branch, grace_ms] of [["gone", 0], ["going", 1e9]] as const) {
    await store.fork(at("app"), branch, { materialize: true });
    await store.destroy(at(`app@${branch}`), { safety: false });
    await store.collectGarbage({ grace_ms });
    await store.collectGarbage({ grace_ms });
  }
  return { image: await imageOf(backend), clock };
}

/** Objects that are small records. */
const isRecord = (key: string) => !key.startsWith("data/") || key.endsWith("/base.json");

interface Tried {
  problems: string[];
  answered: number;
}

/** Does everything; what it answers is right, and what fails is a report of damage. */
async function useAll(open: () => Promise<Store>): Promise<Tried> {
  const tried: Tried = { problems: [], answered: 0 };
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
      tried.answered++;
    } catch (error) {
      if (!(error instanceof TaskdError)) throw error;
      assert(CODES.includes(error.code), `${error.code}: ${error.message}`);
      tried.problems.push(error.message);
    }
  };
  let opened: Store | undefined;
  await attempt(async () => {
    opened = await open();
  });
  if (opened === undefined) return tried;
  using store = opened;
  await attempt(async () => {
    const listed = await store.branches();
    assertEquals(listed.map(({ branch }) => branch).sort(), ["main", "side", "twig"]);
  });
  for (const [address, content] of Object.entries(CONTENT)) {
    await attempt(async () => assertEquals(await stored(store, address), content, address));
  }
  await attempt(async () => {
    await store.fork(at("app@side"), "new");
    assertEquals(await stored(store, "app@new"), CONTENT["app@side"]);
  });
  await attempt(async () => {
    await store.touch(at("app@main"));
  });
  await attempt(async () => {
    await store.checkpoint(at("app@twig"), "t1");
    assertEquals(await stored(store, "app@twig@t1"), CONTENT["app@twig"]);
  });
  await attempt(async () => {
    await store.collectGarbage({ grace_ms: 0 });
  });
  return tried;
}

/** Whether every ref says what it said, except those that are damaged as they lay. */
async function assertNothingWrongWritten(
  backend: Backend,
  before: Image,
  damaged?: { key: string; bytes: Uint8Array },
) {
  for (const [key, bytes] of await imageOf(backend)) {
    const was = before.get(key);
    if (!key.startsWith("refs/") || was === undefined) continue;
    if (key === damaged?.key && String(bytes) === String(damaged.bytes)) continue;
    const [now, then] = [decodeRef(bytes, key), decodeRef(was, key)];
    const { lineage, txid, digest } = then;
    if (key !== "refs/app/twig.json") assertEquals([now.lineage, now.txid, now.digest], [lineage, txid, digest], key);
    assertEquals(now.checkpoints.slice(0, then.checkpoints.length), then.checkpoints, key);
    assertEquals(now.ttl_ms, then.ttl_ms, key);
  }
}

scaledTest("a bit flipped in any record of a store is never believed", () =>
  withDirectory(async (directory) => {
    const { image, clock } = await makeStore(directory);
    const random = new SeededRandom(7);
    const flips = scaled({ short: 6, long: 60 });
    let reported = 0;
    for (const [key, bytes] of [...image].filter(([key]) => isRecord(key))) {
      for (let flip = 0; flip < flips; flip++) {
        const bit = random.between(0, bytes.length * 8 - 1);
        const spoilt = bytes.with(bit >> 3, bytes[bit >> 3]! ^ (1 << (bit & 7)));
        const backend = await backendOf(new Map(image).set(key, spoilt));
        const { problems } = await useAll(() => Store.open({ workspace: directory, clock, backend }));
        const name = key.replace(/^refs\/(\w+)\/(\w+)\.json$/, "$1@$2");
        assert(
          problems.length > 0 && problems.some((text) => text.includes(name)),
          `bit ${bit} of ${key}: ${problems}`,
        );
        reported += problems.length;
        await assertNothingWrongWritten(backend, image, { key, bytes: spoilt });
      }
    }
    assert(reported > 0);
  }));

scaledTest("a bit flipped in one read of a record changes no answer", () =>
  withDirectory(async (directory) => {
    const { image, clock } = await makeStore(directory);
    const random = new SeededRandom(8);
    const flips = scaled({ short: 6, long: 60 });
    let flipped = 0;
    for (const [key, bytes] of [...image].filter(([key]) => isRecord(key))) {
      for (let flip = 0; flip < flips; flip++) {
        const inner = await backendOf(image);
        const bit = random.between(0, bytes.length * 8 - 1);
        const flipping = flippingBackend(inner, { key, read: random.between(0, 5), bit });
        const { problems } = await useAll(() => Store.open({ workspace: directory, clock, backend: flipping.backend }));
        assertEquals(problems, [], `bit ${bit} of ${key}`);
        flipped += flipping.flipped();
        await assertNothingWrongWritten(inner, image);
      }
    }
    assert(flipped > flips);
  }));

scaledTest(
  "a bit flipped in any sidecar of a checkout loses no edit and changes no answer",
  () =>
    withDirectory(async (directory) => {
      const clock = new VirtualClock();
      const backend = new MemoryBackend();
      using store = await Store.open({ workspace: directory, clock, backend });
      makeDatabase(`${directory}/source.db`, "1");
      await store.create("app", { from: `${directory}/source.db` });
      const { path } = await store.checkout(at("app"));
      const random = new SeededRandom(9);
      for (let flip = 0; flip < scaled({ short: 40, long: 800 }); flip++) {
        const edited = flip % 8 === 7;
        if (edited) sql(path, `INSERT INTO t VALUES('${flip}')`);
        const bytes = await Deno.readFile(`${path}.sum`);
        const bit = random.between(0, bytes.length * 8 - 1);
        await Deno.writeFile(`${path}.sum`, bytes.with(bit >> 3, bytes[bit >> 3]! ^ (1 << (bit & 7))));
        assertEquals((await store.branches()).map(({ state }) => state), [edited ? "dirty" : "idle"], `bit ${bit}`);
        if (edited) {
          const { message } = await fails("dirty", store.checkpoint(at("app"), `c${flip}`));
          assert(message.includes(`${path}.sum`), message);
          await fails("dirty", store.checkout(at("app")));
          await Deno.writeFile(`${path}.sum`, bytes);
          await store.checkpoint(at("app"), `c${flip}`);
        } else await store.checkout(at("app"));
        assertEquals(rows(path), await stored(store, "app"));
      }
      assertEquals((await stored(store, "app")).split(",").length, 1 + scaled({ short: 40, long: 800 }) / 8);
    }),
);
