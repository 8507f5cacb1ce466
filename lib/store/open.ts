/**
 * Opens a store by its location, as people write it.
 */

import { join, resolve } from "node:path/posix";
import { type Backend, BackendError } from "../backend/backend.ts";
import { LocalBackend } from "../backend/local.ts";
import type { S3StoreOptions } from "../backend/s3.ts";
import { TaskdError } from "../errors.ts";
import { exists, lstatIfPresent } from "../fs.ts";
import { codeOf, translated } from "./errors.ts";
import { COPYING_KEY, DATA_PREFIX, MANIFEST_KEY, REFS_PREFIX } from "./keys.ts";
import { readManifest } from "./manifest.ts";
import { defaultWorkspace, isS3Location, parseS3Location } from "./s3_location.ts";
import { Store, type StoreOptions } from "./store.ts";

export type { S3StoreOptions } from "../backend/s3.ts";

/**
 * The directory that a location names: a path, or a `file:` URL without a host.
 *
 * @example
 * ```ts
 * import { storeDirectory } from "@taskd/taskd";
 *
 * console.log(storeDirectory("file:///srv/store")); // /srv/store
 * ```
 *
 * @returns An absolute path.
 * @throws {TaskdError} `not_a_store` for any other URL, `usage` for an empty location.
 */
export function storeDirectory(location: string): string {
  if (location === "") throw new TaskdError("usage", "Cannot open the store: its location is empty");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1]
    ?.toLowerCase();
  if (scheme === undefined) return resolve(location);
  if (scheme !== "file") {
    throw new TaskdError("not_a_store", `Cannot open ${location}: ${scheme} stores are not supported`, {
      hint: "Name a directory, a file:/// URL or s3://bucket/prefix",
    });
  }
  try {
    // A percent sign that begins no escape is literal.
    return decodeURIComponent(new URL(location).pathname.replace(/%(?![0-9A-Fa-f]{2})/g, "%25"));
  } catch (cause) {
    throw new TaskdError("not_a_store", `Cannot open ${location}: it is not a file URL with an absolute path`, {
      cause,
      hint: "Write file:///path/to/store",
    });
  }
}

/** What {@linkcode openStore} accepts. */
export interface OpenStoreOptions
  extends Omit<StoreOptions, "backend" | "workspace" | "separate_workspace" | "openOther"> {
  /** Directory of checkouts and caches of a store in S3; default `~/.taskd/workspaces/<hash>`. */
  workspace?: string;
  /** Used for `s3:` locations, also for another one than the store's own. */
  s3?: S3StoreOptions;
  /** Make a store where there is none; default true. Without, nothing at all is written there. */
  create?: boolean;
}

/** What {@linkcode openBackend} accepts. */
export interface OpenBackendOptions extends Pick<OpenStoreOptions, "clock" | "random" | "s3"> {
  /** Write nothing there, and make nothing that writing needs: only reading works then. */
  read_only?: boolean;
}

/**
 * Opens the place that a location names, without asking whether a store is there.
 *
 * @example
 * ```ts
 * import { openBackend } from "@taskd/taskd";
 *
 * const directory = await Deno.makeTempDir();
 * console.log((await openBackend(directory)).url);
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @throws {TaskdError} `not_found` (no such bucket), `denied`, `unavailable`, `not_a_store`, `usage`.
 */
export async function openBackend(location: string, options: OpenBackendOptions = {}): Promise<Backend> {
  const { clock, random, s3, read_only = false } = options;
  const ambient = { read_only, ...(clock === undefined ? {} : { clock }), ...(random === undefined ? {} : { random }) };
  if (!isS3Location(location)) {
    return await translated("Cannot open the store", () => LocalBackend.open(storeDirectory(location), ambient));
  }
  const { bucket, prefix } = parseS3Location(location);
  // Loaded only now: it takes longer than most commands.
  const { S3Backend } = await import("../backend/s3.ts");
  try {
    return await S3Backend.open({ ...s3, bucket, prefix, ...ambient });
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const hint = S3_HINTS[error.code];
    throw new TaskdError(codeOf(error), error.message, { cause: error, hint });
  }
}

/**
 * Opens the store at `location`, making a new one where there is nothing yet, unless `create` is false.
 *
 * Requires `--allow-read` and `--allow-write` of the directory; for `s3:` also `--allow-net` and `--allow-env`.
 *
 * @example
 * ```ts
 * import { openStore } from "@taskd/taskd";
 *
 * const directory = await Deno.makeTempDir();
 * // Or in a bucket: openStore("s3://bucket/prefix", { s3: { region: "eu-central-1" } })
 * using store = await openStore(directory);
 * await store.create("shop");
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @param location A directory, a `file:` URL or `s3://bucket/prefix`.
 * @throws {TaskdError} `not_a_store`, `unsupported_layout`, `usage` (the location, or another store's workspace),
 * `not_found` (no such bucket), `denied`, `unavailable`.
 */
export async function openStore(location: string, options: OpenStoreOptions = {}): Promise<Store> {
  const { workspace, s3, create = true, ...rest } = options;
  if (!create && !isS3Location(location)) requireStoreIn(storeDirectory(location));
  const backend = await openBackend(location, options);
  if (!create || rest.damaged) {
    // Where there is a manifest, opening the store says what is wrong with it.
    const missing = await readManifest(backend).then((manifest) => !manifest, () => false);
    if (missing) await refuseMissing(backend);
  }
  const openOther = (other: string) => openBackend(other, { ...options, read_only: true });
  const parts = { ...rest, backend, openOther };
  if (!isS3Location(location)) return await Store.open({ ...parts, workspace: storeDirectory(location) });
  const directory = workspace === undefined ? workspaceAtHome(location, s3?.endpoint) : resolve(workspace);
  return await Store.open({ ...parts, workspace: directory, separate_workspace: true });
}

/** Refuses a directory that holds nothing of a store: opening its backend would leave files there. */
function requireStoreIn(directory: string): void {
  // Opening it says what else is there than a directory.
  if (lstatIfPresent(directory)?.isFile) return;
  if ([MANIFEST_KEY, COPYING_KEY, REFS_PREFIX, DATA_PREFIX].some((part) => exists(join(directory, part)))) return;
  throw noStore(directory);
}

/** A store without a manifest is unfinished or another's; opening it says so. */
async function refuseMissing(backend: Backend): Promise<void> {
  for (const prefix of [COPYING_KEY, REFS_PREFIX, DATA_PREFIX]) {
    const first = await translated(
      `Cannot open ${backend.url}`,
      () => backend.list(prefix)[Symbol.asyncIterator]().next(),
    );
    if (!first.done) return;
  }
  throw noStore(backend.url);
}

function noStore(location: string): TaskdError {
  return new TaskdError("not_a_store", `There is no store at ${location}`, {
    hint: "Check --store and BSTORE_STORE; `taskd create <db>` makes a store",
  });
}

function workspaceAtHome(location: string, endpoint: string | undefined): string {
  const home = Deno.env.get("HOME");
  if (home !== undefined) return defaultWorkspace(location, { home, ...(endpoint === undefined ? {} : { endpoint }) });
  throw new TaskdError("usage", `Cannot open ${location}: HOME is not set`, { hint: "Set it, or name a workspace" });
}

const S3_HINTS: Partial<Record<BackendError["code"], string>> = {
  not_found: "Create the bucket first; a store makes none",
  denied: "Check the credentials, the region and what the server supports; the guide to S3 stores lists what is needed",
  unavailable: "Check the endpoint and the network, then try again",
};
