/**
 * The local files that go with a head or checkpoint and are used as they are: the one table by which verify, repair and
 * scrubbing go. Files that would not be used, and the checkout itself, which its applications write, are not in it.
 */

import { hasCode } from "../errors.ts";
import { exists } from "../fs.ts";
import { ImageFile, stampFile } from "../sqlite/checkout_file.ts";
import type { Chain, ChainObject } from "./chain.ts";
import { copiesOf, imageSha256 } from "./chain_cache.ts";
import type { StoreContext } from "./context.ts";
import type { PromisedPoint } from "./history.ts";
import { PageChecksums } from "./page_checksums.ts";
import type { Ref } from "./ref.ts";
import type { Workspace } from "./workspace.ts";

export interface LocalFile {
  /** `sidecar`: a record beside a checkout that cannot be read; of the others the content has to be compared. */
  what: "cache" | "shadow" | "sidecar";
  path: string;
}

export function localFilesOf(
  { workspace, checkouts }: Pick<StoreContext, "workspace" | "checkouts">,
  point: Pick<PromisedPoint, "address" | "digest">,
  content: { ref: Ref; chain: Chain },
): LocalFile[] {
  const { db, branch, checkpoint } = point.address;
  const files: LocalFile[] = copiesOf(workspace, point, content.chain.id).map((path) => ({ what: "cache", path }));
  if (checkpoint !== undefined) return files;
  const path = workspace.checkout(db, branch);
  const shadow = checkouts.shadow(path, content);
  if (shadow) files.push({ what: "shadow", path: shadow });
  return [...files, ...damagedRecords(workspace, path).map((path) => ({ what: "sidecar" as const, path }))];
}

/** The records beside a checkout that are there and cannot be read. */
export function damagedRecords(workspace: Workspace, path: string): string[] {
  if (!stampFile(path)) return [];
  const readers = { ".sum": () => workspace.sidecar(path), ".session": () => workspace.sessionRecord(path) };
  return Object.entries(readers)
    // Read once more after that: a session writes and removes them at any moment.
    .filter(([suffix, read]) => read() === undefined && exists(path + suffix) && read() === undefined)
    .map(([suffix]) => path + suffix)
    .filter(exists);
}

/** How an image in a file differs from these objects, which are sound; undefined when it does not, or is gone. */
export async function fileProblem(
  { backend, workspace }: Pick<StoreContext, "backend" | "workspace">,
  path: string,
  { objects, digest, fast }: { objects: readonly ChainObject[]; digest: string; fast?: boolean },
): Promise<string | undefined> {
  const checksums = await PageChecksums.read(backend, objects, digest);
  if (!checksums) return undefined;
  const differs = (why: string) => `Cannot use ${path}: ${why}`;
  let image: ImageFile;
  try {
    image = ImageFile.open(path);
  } catch (error) {
    if (hasCode(error, "not_found")) return undefined;
    return differs("it is not a database");
  }
  try {
    const page = await checksums.firstDifference(image);
    if (page !== undefined) return differs(page === 0 ? "it has another number of pages" : `page ${page} is damaged`);
    const known = fast ? undefined : workspace.sidecar(path)?.sha256;
    if (known !== undefined && known !== await imageSha256(image)) return differs("the hash beside it is another");
  } finally {
    image.close();
  }
}
