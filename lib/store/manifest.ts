/**
 * The store's manifest: marks a location as a branch store and names the layout
 * it has. It is created once and only ever raised, 1 to 2 by the first shared
 * fork, so that a program from before base pointers refuses the whole store.
 */

import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError } from "../backend/backend.ts";
import { type RandomBytes, randomHex } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { parseStoredJson } from "./_json.ts";
import { storeError, translated } from "./errors.ts";
import { COPYING_KEY, DATA_PREFIX, MANIFEST_KEY, REFS_PREFIX } from "./keys.ts";

const STORE_FORMAT = "taskd-branch-store";
/** Layout without base pointers. */
const LAYOUT_MATERIALIZED = 1;
/** Layout with base pointers. */
export const LAYOUT_SHARED = 2;

const Manifest = v.object({
  format: v.literal(STORE_FORMAT),
  layout_version: v.pipe(v.number(), v.integer(), v.minValue(1)),
  store_id: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
  created_at: v.string(),
});

/** What `bstore.json` holds. */
export type Manifest = v.InferOutput<typeof Manifest>;

const encode = (manifest: Manifest) => new TextEncoder().encode(JSON.stringify(manifest));

function parse(bytes: Uint8Array, url: string): Manifest {
  let json: unknown;
  try {
    json = parseStoredJson(bytes);
  } catch (cause) {
    throw new TaskdError("not_a_store", `Cannot use ${url} as a store: ${MANIFEST_KEY} is not JSON`, { cause });
  }
  const result = v.safeParse(Manifest, json);
  if (!result.success) {
    throw new TaskdError(
      "not_a_store",
      `Cannot use ${url} as a store: ${MANIFEST_KEY} is of another kind`,
      { hint: "Point --store at a branch store, or at an empty or new directory" },
    );
  }
  if (result.output.layout_version > LAYOUT_SHARED) {
    throw new TaskdError(
      "unsupported_layout",
      `Cannot use ${url}: its layout version is ${result.output.layout_version}, this program knows ${LAYOUT_SHARED}`,
      { hint: "Use the newer program that wrote it; there is no way back to an older layout" },
    );
  }
  return result.output;
}

/** Reads the manifest; undefined where there is none. */
export async function readManifest(backend: Backend): Promise<Manifest | undefined> {
  try {
    return parse((await backend.get(MANIFEST_KEY)).bytes, backend.url);
  } catch (error) {
    if (isBackendError(error, "not_found")) return undefined;
    throw storeError(error, `Cannot open the store ${backend.url}`);
  }
}

/** Writes the manifest of a store that has been copied here; false when there is one already. */
export async function createManifest(backend: Backend, manifest: Manifest): Promise<boolean> {
  try {
    await backend.create(MANIFEST_KEY, encode(manifest));
    return true;
  } catch (error) {
    if (isBackendError(error, "precondition_failed")) return false;
    throw storeError(error, `Cannot write the manifest of ${backend.url}`);
  }
}

/** Reads the manifest, or writes a new one into a store that holds nothing yet. */
export async function openManifest(backend: Backend, options: { now: number; random: RandomBytes }): Promise<Manifest> {
  const known = await readManifest(backend);
  if (known) return known;
  if (await isBeingCopied(backend)) {
    throw new TaskdError("not_a_store", `Cannot use ${backend.url} as a store: copying one there has not finished`, {
      hint: "Run the copy again: it goes on where it was",
    });
  }
  // Without a manifest only an empty location is a new store: anything else may be other data.
  await translated(`Cannot open the store ${backend.url}`, async () => {
    for (const prefix of [REFS_PREFIX, DATA_PREFIX]) {
      for await (const { key } of backend.list(prefix)) {
        throw new TaskdError(
          "not_a_store",
          `Cannot use ${backend.url} as a store: it has ${key} but no manifest`,
          { hint: `Restore ${MANIFEST_KEY} from a backup, or use another location` },
        );
      }
    }
  });
  const manifest: Manifest = {
    format: STORE_FORMAT,
    layout_version: LAYOUT_MATERIALIZED,
    store_id: randomHex(options.random, 16),
    created_at: new Date(options.now).toISOString(),
  };
  try {
    await backend.create(MANIFEST_KEY, encode(manifest));
    return manifest;
  } catch (error) {
    if (!isBackendError(error, "precondition_failed") && !isBackendError(error, "ambiguous")) {
      throw storeError(error, `Cannot make a store at ${backend.url}`);
    }
    return await translated(
      `Cannot open the store ${backend.url}`,
      async () => parse((await backend.get(MANIFEST_KEY)).bytes, backend.url),
    );
  }
}

async function isBeingCopied(backend: Backend): Promise<boolean> {
  try {
    await backend.head(COPYING_KEY);
    return true;
  } catch (error) {
    if (isBackendError(error, "not_found")) return false;
    throw storeError(error, `Cannot open the store ${backend.url}`);
  }
}

/** Raises the layout to at least `layout_version`, durably, before anything that needs it is written. */
export async function raiseLayout(backend: Backend, layout_version: number): Promise<Manifest> {
  for (let attempt = 0; attempt < 16; attempt++) {
    const { bytes, etag } = await translated(
      `Cannot read the manifest of ${backend.url}`,
      () => backend.get(MANIFEST_KEY),
    );
    const manifest = parse(bytes, backend.url);
    if (manifest.layout_version >= layout_version) return manifest;
    try {
      await backend.replace(MANIFEST_KEY, encode({ ...manifest, layout_version }), etag);
    } catch (error) {
      // The next read shows which writer won.
      if (!isBackendError(error, "precondition_failed") && !isBackendError(error, "ambiguous")) {
        throw storeError(error, `Cannot raise the layout of ${backend.url}`);
      }
    }
  }
  throw new TaskdError("conflict", `Cannot raise the layout of ${backend.url}: its manifest keeps changing`);
}
