/**
 * What every operation of a store works with, and how an address becomes a chain.
 */

import type { Backend } from "../backend/backend.ts";
import { type Clock, type RandomBytes, randomHex } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import type { Chain, Chains } from "./chain.ts";
import type { ChainCache } from "./chain_cache.ts";
import type { Checkouts, CheckoutTarget } from "./checkouts.ts";
import type { Holder } from "./holder.ts";
import { type Address, formatAddress } from "./names.ts";
import type { Head } from "./objects.ts";
import type { Ref, Refs } from "./ref.ts";
import type { Workspace } from "./workspace.ts";

export interface StoreContext {
  backend: Backend;
  workspace: Workspace;
  refs: Refs;
  chains: Chains;
  cache: ChainCache;
  checkouts: Checkouts;
  holder: Holder;
  clock: Clock;
  random: RandomBytes;
  /** Chain depth from which fork, promote and rollback materialize. */
  depth_floor: number;
  /** The manifest's layout, as far as this process knows; only ever grows. */
  layout_version: number;
  log: (line: string) => void;
}

export interface Point {
  address: Address;
  ref: Ref;
  /** Where it resolves. */
  lineage: string;
  head: Head;
  chain: Chain;
}

/** Resolves an address: its checkpoint, or else its head. */
export async function pointAt(context: StoreContext, address: Address): Promise<Point> {
  const { ref } = await context.refs.read(address.db, address.branch);
  return await pointIn(context, address, ref);
}

/** The same in a ref that has been read. */
export async function pointIn(context: StoreContext, address: Address, ref: Ref): Promise<Point> {
  const at = address.checkpoint === undefined ? ref : checkpointOf(ref, address);
  const lineage = at.lineage ?? ref.lineage;
  const chain = await context.chains.resolve(lineage, at.txid);
  const { kind } = chain.objects.at(-1)!;
  return { address, ref, lineage, head: { txid: at.txid, digest: at.digest, kind }, chain };
}

function checkpointOf(ref: Ref, address: Address) {
  const found = ref.checkpoints.find(({ name }) => name === address.checkpoint);
  if (found) return found;
  const names = ref.checkpoints.map(({ name }) => name);
  throw new TaskdError(
    "not_found",
    `There is no checkpoint ${formatAddress(address)}`,
    { hint: names.length === 0 ? "The branch has no checkpoints" : `It has: ${names.slice(-20).join(", ")}` },
  );
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
