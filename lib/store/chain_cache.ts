/**
 * Immutable copies of whole chains, shared by all checkouts of a database. Where blocks can be cloned, every writable
 * checkout is a clone of one of these and costs neither time nor space; elsewhere none exist, and images are built
 * where they are needed.
 */

import { createHash } from "node:crypto";
import { join } from "node:path/posix";
import type { Backend } from "../backend/backend.ts";
import { type Clock, nextTurn } from "../clock.ts";
import { hasCode, throwIfInterrupted } from "../errors.ts";
import { clonable, discard, fileError, removeIfPresent } from "../fs.ts";
import { backdate, hasWal, ImageFile, stampFile } from "../sqlite/checkout_file.ts";
import { pageRuns } from "../sqlite/page_runs.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import type { Chain } from "./chain.ts";
import { materialize } from "./materialize.ts";
import type { Address } from "./names.ts";
import { contentOf, PageChecksums } from "./page_checksums.ts";
import type { LongOptions } from "./results.ts";
import { damagedFolder, setFileAside } from "./set_aside.ts";
import { companions, makeDirectory, type Origin, sameOrigin, type Sidecar, type Workspace } from "./workspace.ts";

/** Entries kept for one database, by last use; the number of the contract. */
const MAX_ENTRIES = 64;
/** How often an entry is made again that was evicted before it could be used. */
const MAX_EVICTIONS = 5;
/** Copies up to this size are compared whenever they are used: 4 ms. */
const COMPARED_BYTES = 32 << 20;
/** SHA-256 of an image in hex, the lock page read as zeros. */
export async function imageSha256(image: DatabaseImage, options: LongOptions = {}): Promise<string> {
  const { page_size, page_count } = image;
  const hash = createHash("sha256");
  for (const [first, bytes] of pageRuns(image)) {
    hash.update(bytes);
    options.onProgress?.((first - 1) * page_size + bytes.length, page_count * page_size);
    // Other sessions and lease renewals run on the same event loop.
    await nextTurn();
    throwIfInterrupted(options.signal);
  }
  return hash.digest("hex");
}

/** A chain's image as a file; `[Symbol.dispose]` removes it if it was made for this call alone. */
export interface ChainImage extends Disposable {
  path: string;
}

export class ChainCache {
  readonly #workspace: Workspace;
  readonly #backend: Backend;
  readonly #clock: Clock;
  /** Hashes by chain id and digest, for file systems without entries to keep them beside. */
  readonly #hashes = new Map<string, string>();

  constructor(workspace: Workspace, backend: Backend, clock: Clock) {
    this.#workspace = workspace;
    this.#backend = backend;
    this.#clock = clock;
  }

  /** The copy of a chain, built if need be; undefined where blocks cannot be cloned. `built`: it was built by this call. */
  async entry(
    db: string,
    chain: Chain,
    digest: string,
    options: LongOptions & { whole?: boolean } = {},
  ): Promise<{ path: string; built: boolean } | undefined> {
    const directory = this.#workspace.byChainDirectory(db);
    makeDirectory(directory, this.#workspace.root);
    if (!await clonable(directory)) return undefined;
    const path = this.#workspace.byChain(db, chain.id);
    const origin = { chain_id: chain.id, digest };
    if (await this.look(path, chain, digest, options.whole) === "sound") {
      this.#workspace.touchUsed(path, this.#clock.now());
      return { path, built: false };
    }
    const temporary = this.#workspace.beside(path);
    try {
      await materialize(this.#backend, chain, digest, temporary, options);
      const content = await contentIn(temporary);
      sealEntry(this.#workspace, temporary, path, { ...origin, content, now_ms: this.#clock.now() });
    } catch (error) {
      discard(temporary);
      throw fileError(error, `Cannot write ${path}`);
    }
    this.#prune(directory, path);
    return { path, built: true };
  }

  /**
   * Whether there is a copy of a chain at `path` that may be used. A file whose time was kept may still have changed, as
   * disks do: its pages are compared with the chain's checksums, 8 GB/s. A checkout that is cached must not cost more
   * than milliseconds, so of a file over {@linkcode COMPARED_BYTES} that is done only for `whole`, by verify, and by the
   * janitor. One that is damaged is moved below `damaged/`. `gone`: none is there, or another process has evicted it or
   * made it anew.
   */
  async look(path: string, chain: Chain, digest: string, whole = false): Promise<"sound" | "damaged" | "gone"> {
    const origin = { chain_id: chain.id, digest };
    if (!isEntry(this.#workspace, path, origin)) return "gone";
    // Another process may evict it at any moment.
    if (!whole && (stampFile(path)?.size ?? 0) > COMPARED_BYTES) return "sound";
    const checksums = await PageChecksums.read(this.#backend, chain.objects, digest).catch(() => undefined);
    if (!checksums) return "sound";
    try {
      using image = ImageFile.open(path);
      if (await checksums.firstDifference(image) === undefined) return "sound";
    } catch (error) {
      if (hasCode(error, "not_found")) return "gone";
      if (!hasCode(error, "not_a_database", "corrupt")) throw error;
    }
    if (!isEntry(this.#workspace, path, origin)) return "gone";
    setFileAside(this.#workspace, damagedFolder(this.#clock.now()), path);
    return "damaged";
  }

  /** Makes the new file `target` a clone of the chain's copy; undefined where blocks cannot be cloned. `built` as of {@linkcode entry}. */
  async cloneTo(
    db: string,
    chain: Chain,
    digest: string,
    target: string,
    options: LongOptions = {},
  ): Promise<{ built: boolean; content: string | undefined } | undefined> {
    const cloned = await this.#fromEntry(db, chain, digest, (entry) => Deno.copyFileSync(entry, target), options);
    return cloned &&
      { ...cloned, content: this.#sidecar(this.#workspace.byChain(db, chain.id), chain, digest)?.content };
  }

  /** Uses an entry at once; one that another process evicts just then is made again. */
  async #fromEntry(
    db: string,
    chain: Chain,
    digest: string,
    use: (path: string) => void,
    options: LongOptions & { whole?: boolean },
  ): Promise<{ built: boolean } | undefined> {
    for (let attempt = 1;; attempt++) {
      const entry = await this.entry(db, chain, digest, options);
      if (!entry) return undefined;
      try {
        use(entry.path);
        return { built: entry.built };
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound) || attempt === MAX_EVICTIONS) throw error;
      }
    }
  }

  /** The chain's image as a read-only file, from the cache or built for this call. */
  async image(db: string, chain: Chain, digest: string, options: LongOptions = {}): Promise<ChainImage> {
    const path = this.#workspace.beside(join(this.#workspace.root, "tmp", "image"));
    // A second name, so that the entry may be evicted while it is read.
    const held = await this.#fromEntry(db, chain, digest, (entry) => Deno.linkSync(entry, path), {
      ...options,
      whole: true,
    });
    if (!held) await materialize(this.#backend, chain, digest, path, options);
    return {
      path,
      [Symbol.dispose]: () => {
        for (const file of [path, ...companions(path)]) discard(file);
      },
    };
  }

  /** SHA-256 of a chain's image; computed once and kept with the cache entry, or for this process. */
  async sha256(db: string, chain: Chain, digest: string): Promise<string> {
    const entry = this.#workspace.byChain(db, chain.id);
    const known = this.#hashes.get(`${chain.id} ${digest}`) ?? this.#sidecar(entry, chain, digest)?.sha256;
    if (known !== undefined) return known;
    using image = await this.image(db, chain, digest);
    using file = ImageFile.open(image.path);
    const hash = await imageSha256(file);
    if (this.#hashes.size >= 1024) this.#hashes.clear();
    this.#hashes.set(`${chain.id} ${digest}`, hash);
    const sidecar = this.#sidecar(entry, chain, digest);
    if (sidecar) this.#workspace.writeSidecar(entry, { ...sidecar, sha256: hash });
    return hash;
  }

  /** The sidecar of an entry, if it is of this content. */
  #sidecar(entry: string, chain: Chain, digest: string): Sidecar | undefined {
    const sidecar = this.#workspace.sidecar(entry);
    return sameOrigin(sidecar, { chain_id: chain.id, digest }) ? sidecar : undefined;
  }

  #prune(directory: string, keep: string): void {
    const entries: { path: string; used_ms: number }[] = [];
    for (const { name } of Deno.readDirSync(directory)) {
      if (!/^[0-9a-f]{64}\.db$/.test(name)) continue;
      const path = join(directory, name);
      entries.push({ path, used_ms: lastUsed(path) });
    }
    entries.sort((a, b) => a.used_ms - b.used_ms);
    for (const { path } of entries.slice(0, Math.max(0, entries.length - MAX_ENTRIES))) {
      if (path !== keep) removeEntry(path);
    }
  }
}

/** The digest of the content of a file that was just made. */
export async function contentIn(path: string): Promise<string> {
  using image = ImageFile.open(path);
  return await contentOf(image);
}

/** Moves the finished image `temporary` to the path of its read-only entry, and marks it used. */
export function sealEntry(
  workspace: Workspace,
  temporary: string,
  path: string,
  { chain_id, digest, content, now_ms }: Origin & { content?: string | undefined; now_ms: number },
): void {
  Deno.chmodSync(temporary, 0o400);
  backdate(temporary, now_ms);
  for (const file of companions(path)) removeIfPresent(file);
  workspace.writeSidecar(path, {
    chain_id,
    digest,
    ...stampFile(temporary)!,
    change_counter: 0,
    stamped_ns: `${now_ms}000000`,
    shadow: null,
    ...(content === undefined ? {} : { content }),
  });
  Deno.renameSync(temporary, path);
  workspace.touchUsed(path, now_ms);
}

/** Whether the file at `path` is the copy of a chain, unchanged: other programs of the user may write to it. */
export function isEntry(workspace: Workspace, path: string, origin: Origin): boolean {
  const [known, found] = [workspace.sidecar(path), stampFile(path)];
  return known !== undefined && sameOrigin(known, origin) && known.size === found?.size &&
    known.mtime_ns === found.mtime_ns && !hasWal(path);
}

/** The copies of a head or checkpoint that would be used as they are. */
export function copiesOf(
  workspace: Workspace,
  { address: { db, branch, checkpoint }, digest }: { address: Address; digest: string },
  chain_id: string,
): string[] {
  const paths = [workspace.byChain(db, chain_id)];
  if (checkpoint !== undefined) paths.push(workspace.readOnly(db, branch, checkpoint));
  return paths.filter((path) => isEntry(workspace, path, { chain_id, digest }));
}

/** When an entry was last used: its `.last-used` file, or its own time for one that never was. */
export function lastUsed(path: string): number {
  const stamp = stampFile(`${path}.last-used`) ?? stampFile(path);
  return stamp ? Number(BigInt(stamp.mtime_ns) / 1_000_000n) : 0;
}

/** Removes a cache entry and what lies beside it; handles that are open on it go on working. */
export function removeEntry(path: string): void {
  for (const file of [path, ...companions(path)]) removeIfPresent(file);
}
