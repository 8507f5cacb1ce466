/**
 * Opens a store by its location, as people write it.
 *
 * @module
 */

import { resolve } from "@std/path/resolve";
import { fromFileUrl } from "@std/path/from-file-url";
import { LocalBackend } from "../backend/local.ts";
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
        hint: "Name a directory or a file:/// URL",
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

/** Opens the store at `location`, making a new one where there is nothing yet. */
export async function openStore(
  location: string,
  options: Omit<StoreOptions, "backend" | "workspace"> = {},
): Promise<Store> {
  const directory = storeDirectory(location);
  const { clock, random } = options;
  const backend = await translated("Cannot open the store", () =>
    LocalBackend.open(directory, {
      ...(clock === undefined ? {} : { clock }),
      ...(random === undefined ? {} : { random }),
    }));
  return await Store.open({ ...options, backend, workspace: directory });
}
