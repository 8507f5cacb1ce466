import { assert, assertEquals } from "@std/assert";
import { CaptureSession } from "../../lib/capture/session.ts";
import { type ErrorCode, hasCode } from "../../lib/errors.ts";
import { openStore } from "../../lib/store/open.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { makeMemoryDirectory } from "../sim/memory_directory.ts";
import { contentAt, type Contents, insertValue, prepare, PREPARED } from "../sim/scenarios.ts";
import { longTest } from "../support/long.ts";

const DAMAGE_CODES: ErrorCode[] = ["corrupt", "chain_gap", "unsupported_format"];

const CONTENTS: Contents = {
  ...PREPARED,
  "app@other": "1,2,3,7,8,9",
  "app@live": "1,2,3,7,8,9",
  "second@main": "f",
};

/** A store with two databases, and every data object in it. */
async function prepared(directory: string): Promise<{ location: string; objects: string[] }> {
  const location = `${directory}/store`;
  const store = await openStore(location);
  await prepare(store, directory);
  await store.create("second", { from: `${directory}/fresh.db` });
  // Segments: at rest, a file system that cannot clone only ever gets snapshots.
  const address = parseAddress("app@other");
  const session = await CaptureSession.open(store, address, { flush_every_ms: 0, snapshot_every: 16 });
  for (const value of ["7", "8", "9"]) {
    insertValue(session.checkout, value);
    await session.flush();
  }
  await session.close();
  await store.fork(address, "live");
  store.close();
  const objects: string[] = [];
  await walk(`${location}/data`, objects);
  const reachable: string[] = [];
  for (const object of objects.sort()) {
    await Deno.rename(object, `${directory}/away`);
    if ((await readAll(location, directory, "finding out what is reachable")).length > 0) reachable.push(object);
    await Deno.rename(`${directory}/away`, object);
  }
  return { location, objects: reachable };
}

async function walk(directory: string, found: string[]): Promise<void> {
  for await (const entry of Deno.readDir(directory)) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory) await walk(path, found);
    else found.push(path);
  }
}

/**
 * Reads every address of a store that was damaged: each gives its true content or one of
 * the codes for damage, never another content. Returns the codes.
 */
async function readAll(location: string, directory: string, what: string): Promise<string[]> {
  // Caches would answer in place of damaged objects.
  await Deno.remove(`${location}/checkouts-ro`, { recursive: true }).catch(() => {});
  using store = await openStore(location);
  const codes: string[] = [];
  for (const [address, content] of Object.entries(CONTENTS)) {
    try {
      assertEquals(await contentAt(store, address, directory), content, `${what}: ${address}`);
    } catch (error) {
      if (!hasCode(error, ...DAMAGE_CODES)) throw new Error(`${what}: ${address}`, { cause: error });
      codes.push(error.code);
      const verdict = await store.verify(parseAddress(address)).catch((error) => error as Error);
      if (verdict instanceof Error) assert(hasCode(verdict, ...DAMAGE_CODES), `${what}: verify: ${verdict}`);
      else assert(!verdict.ok && verdict.problems.length > 0, `${what}: verify finds ${address} sound`);
    }
  }
  return codes;
}

type Work = (location: string, objects: string[], directory: string) => Promise<void>;

async function withStore(directory: string, work: Work): Promise<void> {
  const { location, objects } = await prepared(directory);
  await work(location, objects, directory);
  assertEquals(await readAll(location, directory, "repaired"), []);
}

const why = await whyNotMountable("xfs");

/** Runs `work` on plain and on cloning file systems: there, snapshots are plain images with their checksums beside them. */
function onStores(name: string, work: Work): void {
  Deno.test(name, async () => {
    const directory = await makeMemoryDirectory("hostile-");
    try {
      await withStore(directory, work);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  });
  longTest({
    name: `${name}, where blocks can be cloned${why}`,
    ignore: why !== "",
    fn: () => withMount("xfs", MIN_XFS_MB, (directory) => withStore(directory, work)),
  });
}

const DAMAGES: Record<string, (bytes: Uint8Array) => Uint8Array> = {
  "emptied": () => new Uint8Array(0),
  "cut in half": (bytes) => bytes.slice(0, bytes.length >> 1),
  "cut by one byte": (bytes) => bytes.slice(0, -1),
  "longer by one byte": (bytes) => new Uint8Array([...bytes, 0]),
  "flipped at the start": (bytes) => flip(bytes, 0),
  "flipped in the header": (bytes) => flip(bytes, 20),
  "flipped in the middle": (bytes) => flip(bytes, bytes.length >> 1),
  "flipped at the end": (bytes) => flip(bytes, bytes.length - 1),
  "zeroed": (bytes) => new Uint8Array(bytes.length),
};

function flip(bytes: Uint8Array, at: number): Uint8Array {
  const copy = bytes.slice();
  copy[at]! ^= 0x10;
  return copy;
}

onStores(
  "a damaged object is an error that says so, and never another content",
  async (location, objects, directory) => {
    assert(objects.length >= 6);
    for (const object of objects) {
      const original = await Deno.readFile(object);
      for (const [name, damage] of Object.entries(DAMAGES)) {
        await Deno.writeFile(object, damage(original));
        const what = `${object.slice(location.length)} ${name}`;
        const codes = await readAll(location, directory, what);
        assert(codes.length > 0, `${what}: not noticed`);
      }
      await Deno.writeFile(object, original);
    }
  },
);

onStores(
  "a missing object is a gap that is named, and the other branches go on",
  async (location, objects, directory) => {
    for (const object of objects) {
      await Deno.rename(object, `${directory}/away`);
      const what = `${object.slice(location.length)} missing`;
      const codes = await readAll(location, directory, what);
      assert(codes.length > 0, `${what}: not noticed`);
      assert(codes.every((code) => code === "chain_gap" || code === "corrupt"), `${what}: ${codes}`);
      await Deno.rename(`${directory}/away`, object);
    }
  },
);

onStores(
  "an object in another's place is noticed, also across lineages and databases",
  async (location, objects, directory) => {
    for (const [index, object] of objects.entries()) {
      const original = await Deno.readFile(object);
      for (const step of [1, 3]) {
        const other = objects[(index + step) % objects.length]!;
        await Deno.copyFile(other, object);
        const what = `${object.slice(location.length)} replaced by ${other.slice(location.length)}`;
        assert((await readAll(location, directory, what)).length > 0, `${what}: not noticed`);
      }
      await Deno.writeFile(object, original);
    }
  },
);
