/**
 * The store's manifest: marks a location as a branch store and names the layout
 * it has. It is created once and only ever raised, 1 to 2 by the first shared
 * fork, so that a program from before base pointers refuses the whole store.
 */

import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError } from "../backend/backend.ts";
import { type RandomBytes, randomHex } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import type { StoreContext } from "./context.ts";
import { ifThere, storeError, translated } from "./errors.ts";
import { COPYING_KEY, DATA_PREFIX, MANIFEST_KEY, REFS_PREFIX } from "./keys.ts";
import { correctRecord, encodeRecord, hex, OWN_BYTES, type ParsedRecord, parseRecord, readRecord } from "./records.ts";

const STORE_FORMAT = "taskd-branch-store";
/** Lineages that are whole. */
const LAYOUT_MATERIALIZED = 1;
/** Also lineages with base pointers, into which shared forks lead. */
export const LAYOUT_SHARED = 2;
const NEWEST_LAYOUT = LAYOUT_SHARED;

const Manifest = v.object({
  format: v.literal(STORE_FORMAT),
  layout_version: v.pipe(v.number(), v.integer(), v.minValue(1)),
  store_id: hex(32),
  created_at: v.string(),
});

const REPAIR_HINT = "taskd repair --all restores what can be proved";

export type Manifest = v.InferOutput<typeof Manifest>;

function parse(bytes: Uint8Array, url: string): ParsedRecord<Manifest> {
  let parsed: ParsedRecord<Manifest>;
  try {
    parsed = parseRecord(bytes, `${MANIFEST_KEY} of the store ${url}`, Manifest);
  } catch (cause) {
    // Two marks in different places: damage to one leaves the other.
    const text = new TextDecoder().decode(bytes);
    if (text.includes(`"${STORE_FORMAT}"`) || text.includes(`"sum":"`)) {
      if (!hasCode(cause, "corrupt")) throw cause;
      throw new TaskdError("corrupt", cause.message, { cause, hint: REPAIR_HINT });
    }
    throw new TaskdError("not_a_store", `Cannot use ${url} as a store: ${MANIFEST_KEY} is of another kind`, {
      cause,
      hint: "Point --store at a branch store, or at an empty or new directory",
    });
  }
  const { layout_version } = parsed.value;
  if (layout_version > NEWEST_LAYOUT) {
    throw new TaskdError(
      "unsupported_layout",
      `Cannot use ${url}: its layout version is ${layout_version}, this program knows ${NEWEST_LAYOUT}`,
      { hint: "Use the newer program that wrote it; there is no way back to an older layout" },
    );
  }
  return parsed;
}

function read(backend: Backend): Promise<{ value: Manifest; etag: string }> {
  return readRecord(backend, MANIFEST_KEY, (bytes) => parse(bytes, backend.url));
}

export async function readManifest(backend: Backend): Promise<Manifest | undefined> {
  return (await ifThere(`Cannot open the store ${backend.url}`, () => read(backend)))?.value;
}

/** The manifest of a store that is to be repaired; undefined where it has none that can be read. Writes nothing. */
export async function damagedManifest(backend: Backend): Promise<Manifest | undefined> {
  if (await isBeingCopied(backend)) throw unfinished(backend);
  return await requireManifest(backend).catch((error) => {
    if (!hasCode(error, "corrupt", "not_a_store")) throw error;
    return undefined;
  });
}

/** Writes the manifest of a store that has been copied here; false when there is one already. */
export async function createManifest(backend: Backend, manifest: Manifest): Promise<boolean> {
  try {
    await backend.create(MANIFEST_KEY, encodeRecord(manifest));
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
  if (await isBeingCopied(backend)) throw unfinished(backend);
  // Without a manifest only an empty location is a new store: anything else may be other data.
  await translated(`Cannot open the store ${backend.url}`, async () => {
    for (const prefix of [REFS_PREFIX, DATA_PREFIX]) {
      for await (const { key } of backend.list(prefix)) {
        throw new TaskdError("not_a_store", `Cannot use ${backend.url} as a store: it has ${key} but no manifest`, {
          hint: `If it is a store: ${REPAIR_HINT}; else use another location`,
        });
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
    await backend.create(MANIFEST_KEY, encodeRecord(manifest));
    return manifest;
  } catch (error) {
    if (!isBackendError(error, "precondition_failed") && !isBackendError(error, "ambiguous")) {
      throw storeError(error, `Cannot make a store at ${backend.url}`);
    }
    return (await translated(`Cannot open the store ${backend.url}`, () => read(backend))).value;
  }
}

/** Reads the manifest of what is a store; `corrupt` or `not_a_store` when it is damaged or missing. */
export async function requireManifest(backend: Backend): Promise<Manifest> {
  const manifest = await readManifest(backend);
  if (manifest) return manifest;
  throw new TaskdError("corrupt", `Cannot read ${MANIFEST_KEY}: it is missing`, { hint: REPAIR_HINT });
}

/**
 * A manifest for a store whose own is damaged or missing: what its checksum proves, or that of a copy. Else the id is the
 * one that the workspace was marked with, or what is left of it; with another id a copy no longer counts as one of the
 * same store, and nothing else goes by it. The layout is the newest: an older program is then refused, never misled.
 */
export async function rebuildManifest(
  { backend, workspace, clock, random }: Pick<StoreContext, "backend" | "workspace" | "clock" | "random">,
  copy: Backend | undefined,
): Promise<{ bytes: Uint8Array; from: string; etag: string | undefined; layout_version: number }> {
  const found = await ifThere(`Cannot read ${MANIFEST_KEY}`, () => backend.get(MANIFEST_KEY));
  const rebuilt = (manifest: Manifest, from: string) => {
    const { layout_version } = manifest;
    return { bytes: encodeRecord(manifest), from, etag: found?.etag, layout_version };
  };
  const corrected = found && correctRecord(found.bytes, (bytes) => parse(bytes, backend.url).value);
  if (corrected) return rebuilt(corrected, OWN_BYTES);
  const copied = copy && await readManifest(copy).catch(() => undefined);
  if (copied && await sharesLineage(backend, copy!)) {
    return rebuilt({ ...copied, layout_version: NEWEST_LAYOUT }, copy!.url);
  }
  const text = new TextDecoder().decode(found?.bytes);
  const left = /"store_id":"([0-9a-f]{32})"/.exec(text)?.[1];
  const created_at = /"created_at":"(\d{4}-\d\d-\d\dT[\d:.]+Z)"/.exec(text)?.[1] ??
    new Date(clock.now()).toISOString();
  const workspace_id = workspace.claimant();
  const store_id = workspace_id ?? left ?? randomHex(random, 16);
  const from = workspace_id ? "the workspace" : left ? "its own fields" : "nothing: the store has a new id";
  return rebuilt({ format: STORE_FORMAT, layout_version: NEWEST_LAYOUT, store_id, created_at }, from);
}

/** Lineages are random: a store that has one of another's is a copy of it. */
async function sharesLineage(backend: Backend, copy: Backend): Promise<boolean> {
  const keysOf = async (of: Backend) => (await Array.fromAsync(of.list(DATA_PREFIX))).map(({ key }) => key);
  const [here, there] = await translated(`Cannot list ${copy.url}`, () => Promise.all([keysOf(backend), keysOf(copy)]));
  return new Set(here).intersection(new Set(there)).size > 0;
}

function unfinished(backend: Backend): TaskdError {
  return new TaskdError("not_a_store", `Cannot use ${backend.url} as a store: copying one there has not finished`, {
    hint: "Run the copy again: it goes on where it was",
  });
}

async function isBeingCopied(backend: Backend): Promise<boolean> {
  return await ifThere(`Cannot open the store ${backend.url}`, () => backend.head(COPYING_KEY)) !== undefined;
}

/** Raises the layout to at least `layout_version`, durably, before anything that needs it is written. */
export async function raiseLayout(backend: Backend, layout_version: number): Promise<Manifest> {
  for (let attempt = 0; attempt < 16; attempt++) {
    const attempted = `Cannot read the manifest of ${backend.url}`;
    const { value: manifest, etag } = await translated(attempted, () => read(backend));
    if (manifest.layout_version >= layout_version) return manifest;
    try {
      await backend.replace(MANIFEST_KEY, encodeRecord({ ...manifest, layout_version }), etag);
    } catch (error) {
      // The next read shows which writer won.
      if (!isBackendError(error, "precondition_failed") && !isBackendError(error, "ambiguous")) {
        throw storeError(error, `Cannot raise the layout of ${backend.url}`);
      }
    }
  }
  throw new TaskdError("conflict", `Cannot raise the layout of ${backend.url}: its manifest keeps changing`);
}
