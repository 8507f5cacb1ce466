/**
 * destroy, touch and protect. Destroy claims the branch by compare-and-swap before
 * anything irreversible; an interrupted one is finished by the next.
 */

import { join } from "node:path/posix";
import { TaskdError } from "../../errors.ts";
import { fileError } from "../../fs.ts";
import { isoNow, type StoreContext } from "../context.ts";
import { isLeased, refuseClaimed, STALE_CLAIM_MS } from "../lease.ts";
import { type Address, requireBranch } from "../names.ts";
import type { Ref } from "../ref.ts";
import type { TouchOptions, TouchResult } from "../results.ts";
import { touched, ttlField } from "../time_to_live.ts";
import { removeEntry } from "../chain_cache.ts";

export interface DestroyOptions {
  /** Destroy it though it is protected. */
  force?: boolean;
  /** Whose claim it is; default `destroy`. */
  kind?: "destroy" | "reap";
  /** Checks the ref that is about to be claimed, and throws to leave it. */
  refuse?: (ref: Ref) => void;
}

/** Destroys a branch: its ref and local files at once, its objects when nothing resolves through them any more. */
export async function destroy(
  context: StoreContext,
  address: Address,
  options: DestroyOptions = {},
): Promise<{ db: string; branch: string }> {
  const { db, branch } = address;
  requireBranch(address, "destroy");
  const nonce = context.holder.next();
  const attempted = `Cannot destroy ${db}@${branch}`;
  const claimed = await context.refs.update(db, branch, (ref) => {
    // Our own claim succeeded, but its answer was lost.
    if (ref.claim?.nonce === nonce) return undefined;
    options.refuse?.(ref);
    if (ref.claim && !isStaleClaim(context, ref.claim)) refuseClaimed(ref);
    if (ref.protected && !options.force) {
      throw new TaskdError("protected", `${attempted}: it is protected`, {
        hint: `Run: taskd unprotect ${db}@${branch}, or add --force`,
      });
    }
    if (isLeased(ref, context)) {
      throw new TaskdError(
        "lease_held",
        `${attempted}: ${ref.lease!.holder} holds it`,
        { hint: "Close the session first" },
      );
    }
    return { ...ref, claim: { kind: options.kind ?? "destroy", since: isoNow(context), nonce } };
  });
  try {
    context.checkouts.remove(db, branch);
    removeReadOnly(context, db, branch);
  } catch (error) {
    await dropClaim(context, db, branch, nonce).catch(() => {});
    throw fileError(error, attempted);
  }
  try {
    if (await context.refs.remove(db, branch, claimed.etag)) return { db, branch };
    throw new TaskdError("conflict", `${attempted}: another process changed it at the same moment`, {
      hint: "Try again",
    });
  } catch (error) {
    await dropClaim(context, db, branch, nonce).catch(() => {});
    throw error;
  }
}

/** Whether the process that made a claim is dead, or had enough time. */
export function isStaleClaim(context: StoreContext, claim: NonNullable<Ref["claim"]>): boolean {
  return context.holder.isDead(claim.nonce) ||
    context.clock.now() - Date.parse(claim.since) > STALE_CLAIM_MS;
}

async function dropClaim(context: StoreContext, db: string, branch: string, nonce: string): Promise<void> {
  await context.refs.update(db, branch, (ref) => {
    if (ref.claim?.nonce !== nonce) return undefined;
    const { claim: _, ...rest } = ref;
    return rest;
  });
}

function removeReadOnly({ workspace }: StoreContext, db: string, branch: string): void {
  const directory = join(workspace.root, "checkouts-ro", db);
  workspace.requireInside(join(directory, branch));
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync(directory)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  for (const { name } of entries) {
    if (name.startsWith(`${branch}@`) && name.endsWith(".db")) {
      removeEntry(join(directory, name));
    }
  }
}

export async function touch(context: StoreContext, address: Address, options: TouchOptions = {}): Promise<TouchResult> {
  requireBranch(address, "touch");
  const { db, branch } = address;
  const { ref } = await context.refs.update(db, branch, (ref) => {
    refuseClaimed(ref);
    return touched(ref, options, isoNow(context));
  });
  return { db, branch, touched_at: ref.touched_at, ...ttlField(ref) };
}

export async function protect(
  context: StoreContext,
  address: Address,
  on: boolean,
): Promise<{ db: string; branch: string; protected: boolean }> {
  const { db, branch } = address;
  requireBranch(address, "protect");
  await context.refs.update(db, branch, (ref) => {
    refuseClaimed(ref);
    if ((ref.protected === true) === on) return undefined;
    const { protected: _, ...rest } = ref;
    return on ? { ...rest, protected: true } : rest;
  });
  return { db, branch, protected: on };
}
