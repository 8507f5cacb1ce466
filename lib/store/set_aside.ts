/**
 * What is damaged and was replaced is kept under `damaged/<time>/`, by its own path: garbage collection does not know
 * that folder, and a person may remove it.
 */

import { createHash } from "node:crypto";
import { dirname, join } from "node:path/posix";
import { type Backend, isBackendError } from "../backend/backend.ts";
import { fileError } from "../fs.ts";
import { copyRaw, hasWal, readWhole } from "../sqlite/checkout_file.ts";
import { translated } from "./errors.ts";
import { filesBelow, makeDirectory, type Workspace } from "./workspace.ts";

/** Where damaged objects, refs and cached files are kept. */
export const DAMAGED = "damaged";

export function damagedFolder(now_ms: number): string {
  return `${DAMAGED}/${new Date(now_ms).toISOString().replace(/[-:]|\.\d+/g, "").toLowerCase()}`;
}

/** Keeps a copy of a stored object; false when it cannot be read at all. */
export async function setObjectAside(backend: Backend, folder: string, key: string): Promise<boolean> {
  try {
    await translated(`Cannot keep ${key}`, () => backend.copy(key, `${folder}/${key}`));
    return true;
  } catch (error) {
    const cause = (error as Error).cause;
    if (isBackendError(cause, "not_found") || isBackendError(cause, "unavailable")) return false;
    throw error;
  }
}

/** Moves a local file away from where it would be used. */
export function setFileAside(workspace: Workspace, folder: string, path: string): void {
  const target = join(workspace.root, folder, path.slice(workspace.root.length + 1));
  makeDirectory(dirname(target), workspace.root);
  try {
    Deno.renameSync(path, target);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw fileError(error, `Cannot move ${path} away`);
  }
}

/** Copies a database and its log as they are, unless such a copy is there; returns its folder. */
export async function keepCopy(workspace: Workspace, path: string, now_ms: number): Promise<string> {
  const name = path.slice(workspace.root.length + 1);
  const content = await digestOf(path);
  for (const known of filesBelow(join(workspace.root, DAMAGED), 16)) {
    if (known.endsWith(`/${name}`) && await digestOf(known) === content) return known.slice(0, -name.length - 1);
  }
  const folder = join(workspace.root, damagedFolder(now_ms));
  const target = join(folder, name);
  makeDirectory(dirname(target), workspace.root);
  await copyRaw(path, target);
  await workspace.settle(target);
  return folder;
}

async function digestOf(path: string): Promise<string> {
  const digests: string[] = [];
  for (const suffix of hasWal(path) ? ["", "-wal"] : [""]) {
    const hash = createHash("sha256");
    for await (const bytes of readWhole(path + suffix)) hash.update(bytes);
    digests.push(hash.digest("hex"));
  }
  return digests.join(" ");
}

export async function countSetAside(
  { backend, workspace }: { backend: Backend; workspace: Workspace },
): Promise<number> {
  const names = new Set<string>();
  await translated(`Cannot list ${DAMAGED}`, async () => {
    for await (const { key } of backend.list(`${DAMAGED}/`)) names.add(key);
  });
  for (const path of filesBelow(join(workspace.root, DAMAGED), 16)) names.add(path.slice(workspace.root.length + 1));
  return names.size;
}
