/**
 * Puts together what the operations of a store work with.
 */

import type { Backend } from "../backend/backend.ts";
import { LocalBackend } from "../backend/local.ts";
import { bootId, uptimeMs } from "../boot.ts";
import { type Clock, type RandomBytes, randomHex, systemClock, systemRandom } from "../clock.ts";
import { Chains } from "./chain.ts";
import { ChainCache } from "./chain_cache.ts";
import { Checkouts } from "./checkouts.ts";
import type { StoreContext } from "./context.ts";
import { hostName } from "./daemon_lock.ts";
import { HeldImages } from "./held_images.ts";
import { Holder } from "./holder.ts";
import { damagedManifest, LAYOUT_SHARED, openManifest } from "./manifest.ts";
import { confirm } from "./ops/lineage.ts";
import { Refs } from "./ref.ts";
import { Timeline } from "./timeline.ts";
import { makeDirectory, Workspace } from "./workspace.ts";

/** Chain depth at which an operation at rest materializes; the contract's number. */
export const DEFAULT_DEPTH_FLOOR = 16;

/** What a store is opened with. */
export interface StoreOptions {
  /** Where its objects are. */
  backend: Backend;
  /** Directory of checkouts and caches; for a local store, the store's own. */
  workspace: string;
  /** The workspace is apart from the store: it is marked as this store's, and refused when it is another's. */
  separate_workspace?: boolean;
  /** Time; default the system's. */
  clock?: Clock;
  /** Randomness; default the system's. */
  random?: RandomBytes;
  /** First part of lease holders' names, lower-case letters; default `cli`. */
  holder?: string;
  /** Name of this host, named where a lease is refused; default the system's, where it may be known. */
  host?: string | undefined;
  /** Chain depth from which fork, promote and rollback materialize; default {@linkcode DEFAULT_DEPTH_FLOOR}. */
  depth_floor?: number;
  /** The store may have a manifest that cannot be read; for its repair alone. */
  damaged?: boolean;
  /** Opens another store, by its location, to read from it; default one in a directory. */
  openOther?: (location: string) => Promise<Backend>;
  /** Receives lines for a log. */
  log?: (line: string) => void;
}

/** Opens a store; one that is empty is made a store by its manifest. */
export async function openContext(options: StoreOptions): Promise<StoreContext> {
  const { backend, clock = systemClock, random = systemRandom } = options;
  const manifest = options.damaged
    ? await damagedManifest(backend)
    : await openManifest(backend, { now: clock.now(), random });
  makeDirectory(options.workspace, options.workspace);
  const workspace = new Workspace(options.workspace, random);
  if (options.separate_workspace && manifest) workspace.claim(manifest.store_id);
  const cache = new ChainCache(workspace, backend, clock);
  let boot: Promise<string | undefined> | undefined;
  const findBoot = () => boot ??= bootId();
  // Where the system does not tell, this process is all that is known of its start.
  const process_boot = randomHex(random, 16);
  const uptime = async () => {
    if (clock !== systemClock) return { boot: "virtual", ms: clock.monotonic() };
    const [id, ms] = await Promise.all([findBoot(), uptimeMs()]);
    return id === undefined || ms === undefined ? { boot: process_boot, ms: clock.monotonic() } : { boot: id, ms };
  };
  const refs = new Refs(backend, random);
  const context: StoreContext = {
    backend,
    workspace,
    refs,
    chains: new Chains(backend),
    cache,
    held_images: new HeldImages(cache, clock),
    checkouts: new Checkouts({ workspace, backend, refs, cache, clock }),
    holder: new Holder(options.workspace, options.holder ?? "cli", { random, clock }),
    clock,
    timeline: new Timeline({ workspace, clock, uptime }),
    random,
    depth_floor: options.depth_floor ?? DEFAULT_DEPTH_FLOOR,
    layout_version: manifest?.layout_version ?? LAYOUT_SHARED,
    host: (options.host ?? hostName()) || undefined,
    boot: findBoot,
    log: options.log ?? (() => {}),
    openOther: options.openOther ?? ((directory) => LocalBackend.open(directory, { read_only: true })),
    confirm: (address, ref) => confirm(context, address, ref),
  };
  return context;
}
