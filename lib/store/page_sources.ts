/**
 * The local files that may hold pages of a damaged object: cached copies, shadows, checkouts that no session has, under
 * the edits in their logs, too, and other points of the database, rebuilt for the purpose.
 *
 * Where an object is lost for good, the same files bring whole points back: one that is the database as it was there, or at
 * a point before it from which on all objects are sound. The digest of the content that was recorded beside a file when it
 * was known to be that proves it; size and time alone never do.
 */

import { join } from "node:path/posix";
import { CheckoutFile, hasWal, ImageFile } from "../sqlite/checkout_file.ts";
import { compareLog } from "../sqlite/log_place.ts";
import { rawImage } from "../sqlite/raw_image.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import type { Audit } from "./audit.ts";
import type { ChainObject } from "./chain.ts";
import { contentIn } from "./chain_cache.ts";
import type { StoreContext } from "./context.ts";
import { chainTo, type HistoryNode, type PromisedPoint } from "./history.ts";
import { isLeased } from "./lease.ts";
import { TreeImage } from "./materialize.ts";
import { formatAddress } from "./names.ts";
import { readObjectIndex } from "./object_index.ts";
import { contentOf } from "./page_checksums.ts";
import type { PageSource } from "./rebuild.ts";
import { filesBelow } from "./workspace.ts";

const MAX_FILES = 128;
/** Points that are rebuilt: each costs as much as a checkout. */
const MAX_REBUILT = 4;

/** Opens what there is, `before`: the database before the object; `[Symbol.dispose]` closes all of it. */
export async function localSources(
  context: StoreContext,
  audit: Audit,
  node: HistoryNode,
  dbs: string[],
): Promise<Disposable & { pages: PageSource[]; before: DatabaseImage | undefined }> {
  const { workspace, backend } = context;
  using open = new DisposableStack();
  const rebuilt = async (end: HistoryNode) => {
    const image = open.use(new TreeImage(backend, workspace.beside(join(workspace.root, "tmp", "repair"))));
    await image.rebuild(chainTo(end), () => {});
    return open.use(ImageFile.open(image.path));
  };
  const pages = await localFiles(context, dbs, open);
  const before = node.parent && await rebuilt(node.parent).catch(() => undefined);
  const seen = new Set<HistoryNode>();
  for (const point of audit.points) {
    const end = audit.endOf(point);
    if (!end || seen.has(end) || seen.size >= MAX_REBUILT || !audit.isSound(point)) continue;
    if (!dbs.includes(point.address.db)) continue;
    seen.add(end);
    const image = await rebuilt(end).catch(() => undefined);
    if (image) pages.push({ name: formatAddress(point.address), image });
  }
  const owned = open.move();
  return { pages, before, [Symbol.dispose]: () => owned.dispose() };
}

/** Opens the files that are there, without SQLite, which would change them. `open` closes them. */
async function localFiles(
  context: StoreContext,
  dbs: readonly string[],
  open: DisposableStack,
): Promise<PageSource[]> {
  const { workspace } = context;
  const pages: PageSource[] = [];
  const add = (name: string, read: () => DatabaseImage) => {
    try {
      if (pages.length < MAX_FILES) pages.push({ name, image: read() });
    } catch {
      // Not a database, or not there.
    }
  };
  for (const db of dbs) {
    const files = [...filesBelow(join(workspace.root, "checkouts-ro", db), 1)].filter((path) => path.endsWith(".db"));
    const branches = await context.refs.list(db);
    const shadows = branches.map(({ branch }) => `${workspace.checkout(db, branch)}.shadow`);
    for (const path of [...files, ...shadows]) add(path, () => open.use(ImageFile.open(path)));
    for (const { branch } of branches) {
      const path = workspace.checkout(db, branch);
      const found = await context.refs.find(db, branch).catch(() => undefined);
      if (!found || isLeased(found.ref, context)) continue;
      let file: CheckoutFile;
      add(path, () => rawImage(file = open.use(CheckoutFile.open(path, { busy_timeout_ms: 0, min_bytes: 0 }))));
      // Without the commits in its log, and heads as they were flushed, under those that an application has made since.
      if (hasWal(path)) add(path, () => rawImage(file, null));
      const heads = workspace.sessionRecord(path)?.heads ?? [];
      for (const mark of new Set([found.ref.captured?.log, ...heads.map(({ mark }) => mark)])) {
        if (mark) add(`${path}-wal`, () => rawImage(file, compareLog(file, [mark]).before ?? null));
      }
    }
  }
  return pages;
}

/** By a point's digest, the digests of content that files were known to have when they were that point. */
export type RecordedContents = ReadonlyMap<string, ReadonlySet<string>>;

/** Reads what is recorded beside files; before any branch is moved, because the records of its checkout move with it. */
export function recordedContents({ workspace }: StoreContext): RecordedContents {
  const found = new Map<string, Set<string>>();
  for (const folder of ["checkouts", "checkouts-ro"]) {
    for (const path of filesBelow(join(workspace.root, folder), 2)) {
      const { digest, content } = (path.endsWith(".db") ? workspace.sidecar(path) : undefined) ?? {};
      if (digest === undefined || content === undefined) continue;
      found.getOrInsert(digest, new Set()).add(content);
    }
  }
  return found;
}

/** Rebuilds a point that needs a lost object from a whole file. */
export async function wholePoint(
  context: StoreContext,
  audit: Audit,
  recorded: RecordedContents,
  point: PromisedPoint,
): Promise<{ image: TreeImage; from: string } | undefined> {
  const { workspace, backend } = context;
  const after: ChainObject[] = [];
  using open = new DisposableStack();
  let sources: PageSource[] | undefined;
  let { digest } = point;
  for (let at = audit.endOf(point);; at = at?.parent) {
    const contents = recorded.get(digest);
    if (contents) sources ??= await localFiles(context, [point.address.db], open);
    for (const { name, image } of contents ? sources! : []) {
      const content = await contentOf(image).catch(() => undefined);
      if (content === undefined || !contents!.has(content)) continue;
      using unless = new DisposableStack();
      const copy = unless.use(
        TreeImage.copyOf(backend, workspace.beside(`${workspace.root}/tmp/repair`), image, digest),
      );
      // It may have been written to since.
      if (await contentIn(copy.path) !== content) continue;
      for (const object of after) await copy.apply(object, () => {});
      unless.move();
      return { image: copy, from: after.length === 0 ? name : `${name}, and the objects after it` };
    }
    const index = at && audit.proved.has(at) ? await readObjectIndex(backend, at.object) : undefined;
    if (index?.digest !== digest || index.header.kind !== "segment") return undefined;
    after.unshift(at!.object);
    digest = index.header.prev;
  }
}
