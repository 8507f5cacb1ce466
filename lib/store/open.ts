/**
 * Opens a store by its location, as people write it.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { fromFileUrl } from "@std/path/from-file-url";
import { join } from "@std/path/join";
import { resolve } from "@std/path/resolve";
import { BackendError } from "../backend/backend.ts";
import { LocalBackend } from "../backend/local.ts";
import type { S3Credentials } from "../backend/s3.ts";
import { TaskdError } from "../errors.ts";
import { translated } from "./errors.ts";
import { Store, type StoreOptions } from "./store.ts";

/**
 * The directory that a location names: a path, or a `file:` URL without a host.
 *
 * @throws {TaskdError} `not_a_store` for any other URL.
 */
export function storeDirectory(location: string): string {
  if (location === "") {
    throw new TaskdError(
      "usage",
      "Cannot open the store: its location is empty",
    );
  }
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1]
    ?.toLowerCase();
  if (scheme === undefined) return resolve(location);
  if (scheme !== "file") {
    throw new TaskdError(
      "not_a_store",
      `Cannot open ${location}: ${scheme} stores are not supported`,
      {
        hint: "Name a directory, a file:/// URL or s3://bucket/prefix",
      },
    );
  }
  try {
    return fromFileUrl(location);
  } catch (cause) {
    throw new TaskdError(
      "not_a_store",
      `Cannot open ${location}: it is not a file URL with an absolute path`,
      {
        cause,
        hint: "Write file:///path/to/store",
      },
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
  /** Who asks; default what the environment, ~/.aws or the instance says. */
  credentials?: S3Credentials;
}

/** What {@linkcode openStore} accepts. */
export interface OpenStoreOptions extends Omit<StoreOptions, "backend" | "workspace"> {
  /** Directory of checkouts and caches of a store in S3; default {@linkcode defaultWorkspace}. */
  workspace?: string;
  /** Used for `s3:` locations. */
  s3?: S3StoreOptions;
}

/** Whether a location names a bucket: `s3://bucket/prefix`. */
export function isS3Location(location: string): boolean {
  return /^s3:\/\//i.test(location);
}

/** The bucket and prefix of an `s3:` location, and how it is written. */
function parseS3Location(location: string): { bucket: string; prefix: string; url: string } {
  const match = /^s3:\/\/([a-z0-9][a-z0-9.-]*)((?:\/[A-Za-z0-9_.~@-]+)*)\/?$/i.exec(location);
  if (!match) {
    throw new TaskdError("usage", `Cannot open ${location}: it is no bucket and prefix`, {
      hint: "Write s3://bucket/prefix; keys are of letters, digits and _ . ~ @ -",
    });
  }
  const [, bucket, path] = match;
  return { bucket: bucket!, prefix: path!.slice(1), url: `s3://${bucket}${path}` };
}

/**
 * The directory of a bucket store's checkouts, caches and locks on this host: `<home>/.taskd/workspaces/<hash>`. The hash
 * is of location and endpoint, so that all commands on one store share it.
 */
export function defaultWorkspace(location: string, options: { home: string; endpoint?: string }): string {
  const { url } = parseS3Location(location);
  const hash = createHash("sha256").update(`${options.endpoint ?? ""}\n${url}`).digest("hex");
  return join(options.home, ".taskd", "workspaces", hash.slice(0, 16));
}

/** Opens the store at `location`, making a new one where there is nothing yet. */
export async function openStore(location: string, options: OpenStoreOptions = {}): Promise<Store> {
  const { workspace, s3, ...rest } = options;
  if (isS3Location(location)) return await openS3Store(location, rest, { ...s3, workspace });
  const directory = storeDirectory(location);
  const backend = await translated("Cannot open the store", () => LocalBackend.open(directory, backendOptions(rest)));
  return await Store.open({ ...rest, backend, workspace: directory });
}

async function openS3Store(
  location: string,
  options: Omit<StoreOptions, "backend" | "workspace">,
  { workspace, ...s3 }: S3StoreOptions & { workspace: string | undefined },
): Promise<Store> {
  const { bucket, prefix } = parseS3Location(location);
  const directory = workspace === undefined ? workspaceAtHome(location, s3) : resolve(workspace);
  // Loaded only now: it takes longer than most commands.
  const { S3Backend } = await import("../backend/s3.ts");
  try {
    const backend = await S3Backend.open({ ...s3, bucket, prefix, ...backendOptions(options) });
    return await Store.open({ ...options, backend, workspace: directory });
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const hint = S3_HINTS[error.code];
    throw new TaskdError(error.code === "precondition_failed" ? "conflict" : error.code, error.message, {
      cause: error,
      ...(hint === undefined ? {} : { hint }),
    });
  }
}

function workspaceAtHome(location: string, { endpoint }: S3StoreOptions): string {
  const home = Deno.env.get("HOME");
  if (home === undefined) {
    throw new TaskdError("usage", `Cannot open ${location}: HOME is not set`, { hint: "Set it, or name a workspace" });
  }
  return defaultWorkspace(location, { home, ...(endpoint === undefined ? {} : { endpoint }) });
}

const S3_HINTS: Partial<Record<BackendError["code"], string>> = {
  not_found: "Create the bucket first; a store makes none",
  denied: "Check the credentials, the region and what the server supports; the guide to S3 stores lists what is needed",
  unavailable: "Check the endpoint and the network, then try again",
};

function backendOptions({ clock, random }: Pick<StoreOptions, "clock" | "random">) {
  return { ...(clock === undefined ? {} : { clock }), ...(random === undefined ? {} : { random }) };
}
