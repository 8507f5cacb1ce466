/**
 * Opens a store by its location, as people write it.
 */

import { resolve } from "node:path/posix";
import { type Backend, BackendError } from "../backend/backend.ts";
import { LocalBackend } from "../backend/local.ts";
import type { S3Credentials } from "../backend/s3.ts";
import { TaskdError } from "../errors.ts";
import { translated } from "./errors.ts";
import { defaultWorkspace, isS3Location, parseS3Location } from "./s3_location.ts";
import { Store, type StoreOptions } from "./store.ts";

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
  if (location === "") {
    throw new TaskdError("usage", "Cannot open the store: its location is empty");
  }
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1]
    ?.toLowerCase();
  if (scheme === undefined) return resolve(location);
  if (scheme !== "file") {
    throw new TaskdError(
      "not_a_store",
      `Cannot open ${location}: ${scheme} stores are not supported`,
      { hint: "Name a directory, a file:/// URL or s3://bucket/prefix" },
    );
  }
  try {
    // A percent sign that begins no escape is literal.
    return decodeURIComponent(new URL(location).pathname.replace(/%(?![0-9A-Fa-f]{2})/g, "%25"));
  } catch (cause) {
    throw new TaskdError(
      "not_a_store",
      `Cannot open ${location}: it is not a file URL with an absolute path`,
      { cause, hint: "Write file:///path/to/store" },
    );
  }
}

/** How an S3 server is reached; see `S3BackendOptions` of lib/backend/s3.ts. */
export interface S3StoreOptions {
  /** The server's URL; default AWS. */
  endpoint?: string;
  /** Default `us-east-1`. */
  region?: string;
  /** Whether the bucket is in the path and not in the host's name; default: yes with an endpoint. */
  path_style?: boolean;
  /** Credentials; by default those of the environment, ~/.aws or the instance. */
  credentials?: S3Credentials;
}

/** What {@linkcode openStore} accepts. */
export interface OpenStoreOptions extends Omit<StoreOptions, "backend" | "workspace" | "separate_workspace"> {
  /** Directory of checkouts and caches of a store in S3; default `~/.taskd/workspaces/<hash>`. */
  workspace?: string;
  /** Used for `s3:` locations. */
  s3?: S3StoreOptions;
}

/** What {@linkcode openBackend} accepts. */
export type OpenBackendOptions = Pick<OpenStoreOptions, "clock" | "random" | "s3">;

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
  const { clock, random, s3 } = options;
  const ambient = { ...(clock === undefined ? {} : { clock }), ...(random === undefined ? {} : { random }) };
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
    const code = error.code === "precondition_failed" ? "conflict" : error.code;
    throw new TaskdError(code, error.message, { cause: error, hint });
  }
}

/**
 * Opens the store at `location`, making a new one where there is nothing yet.
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
  const { workspace, s3, ...rest } = options;
  const backend = await openBackend(location, options);
  if (!isS3Location(location)) return await Store.open({ ...rest, backend, workspace: storeDirectory(location) });
  const directory = workspace === undefined ? workspaceAtHome(location, s3?.endpoint) : resolve(workspace);
  return await Store.open({ ...rest, backend, workspace: directory, separate_workspace: true });
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
