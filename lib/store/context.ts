/**
 * What every operation of a store works with, and how an address becomes a chain.
 */

import type { Backend } from "../backend/backend.ts";
import { type Clock, type RandomBytes, randomHex } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { type Chain, Chains } from "./chain.ts";
import type { ChainCache } from "./chain_cache.ts";
import type { Checkouts, CheckoutTarget } from "./checkouts.ts";
import type { HeldImages } from "./held_images.ts";
import type { Holder } from "./holder.ts";
import { type Address, formatAddress } from "./names.ts";
import type { Head } from "./objects.ts";
import { resolvePoint } from "./points.ts";
import type { Ref, Refs } from "./ref.ts";
import type { Timeline } from "./timeline.ts";
import type { Workspace } from "./workspace.ts";

export interface StoreContext {
  backend: Backend;
  workspace: Workspace;
  refs: Refs;
  chains: Chains;
  cache: ChainCache;
  /** Images of the cache that are read page after page. */
  held_images: HeldImages;
  checkouts: Checkouts;
  holder: Holder;
  clock: Clock;
  /** How long ago something was written, where that decides what goes. */
  timeline: Timeline;
  random: RandomBytes;
  /** Chain depth from which fork, promote and rollback materialize. */
  depth_floor: number;
  /** The manifest's layout, as far as this process knows; only ever grows. */
  layout_version: number;
  /** Name of this host; undefined where it may not be known. */
  host: string | undefined;
  /** Identifies this start of the machine; undefined where the system does not tell. */
  boot: () => Promise<string | undefined>;
  log: (line: string) => void;
  /** Opens another store, by its location, to read from it. */
  openOther: (location: string) => Promise<Backend>;
  /** Does for a branch that no one has used yet what its maker may have died before. */
  confirm: (address: Address, ref: Ref) => Promise<void>;
}

export interface Point {
  address: Address;
  ref: Ref;
  lineage: string;
  head: Head;
  chain: Chain;
}

/** Resolves an address: its checkpoint or other point, or else its head. */
export async function pointAt(context: StoreContext, address: Address): Promise<Point> {
  const { ref } = await context.refs.read(address.db, address.branch);
  return await pointIn(context, address, ref);
}

/** The same in a ref that has been read. A point that is no checkpoint gets the name that it has whenever it is read. */
export async function pointIn(context: StoreContext, address: Address, ref: Ref): Promise<Point> {
  const named = address.checkpoint === undefined || ref.checkpoints.some(({ name }) => name === address.checkpoint);
  const past = named ? undefined : await resolvePoint(context, address, ref);
  // A branch that no one has used may never have been finished, and no one keeps another point than a head or checkpoint:
  // only what is there now shows that it resolves.
  const chains = ref.epoch === 1 || past !== undefined ? new Chains(context.backend) : context.chains;
  const at = past ?? (address.checkpoint === undefined ? ref : checkpointOf(ref, address));
  const lineage = at.lineage ?? ref.lineage;
  const chain = await chains.resolve(lineage, at.txid);
  const { kind } = chain.objects.at(-1)!;
  return { address: past?.address ?? address, ref, lineage, head: { txid: at.txid, digest: at.digest, kind }, chain };
}

/** The checkpoint that an address names; throws `not_found` with those that there are. */
export function checkpointOf(ref: Ref, address: Address) {
  const found = ref.checkpoints.find(({ name }) => name === address.checkpoint);
  if (found) return found;
  const names = ref.checkpoints.map(({ name }) => name);
  throw new TaskdError("not_found", `There is no checkpoint ${formatAddress(address)}`, {
    hint: names.length === 0 ? "The branch has no checkpoints" : `It has: ${names.slice(-20).join(", ")}`,
  });
}

/** A branch's head as what its checkout is to hold. */
export function targetOf({ address, ref, chain }: Point): CheckoutTarget {
  return { db: address.db, branch: address.branch, ref, chain };
}

/** A fresh lineage: 128 random bits in hex. */
export function newLineage(context: StoreContext): string {
  return randomHex(context.random, 16);
}

export function isoNow(context: StoreContext): string {
  return new Date(context.clock.now()).toISOString();
}
