/**
 * The operations, asked of the daemon behind its socket, so that live sessions are
 * flushed and never fought over.
 *
 * @module
 */

import { type Client, connect, subscribe } from "../../lib/client/client.ts";
import { TaskdError } from "../../lib/errors.ts";
import { type Address, formatAddress } from "../../lib/store/names.ts";
import type { Store } from "../../lib/store/store.ts";
import type { Plan } from "./plan.ts";
import type { BranchOperations, Operations, RepointOptions, SessionOperations } from "./operations.ts";

/** Connects to the daemon. */
export async function openSocketOperations(plan: Plan, signal: AbortSignal): Promise<Operations> {
  const client = await connect(plan.socket, { signal });
  let store: Store | undefined;
  return {
    branches: branchOperations(client),
    store: async () => {
      const { openPlanned } = await import("./_store_operations.ts");
      return store ??= await openPlanned(plan);
    },
    live: liveOperations(client, plan.socket, signal),
    sqliteVersion: async () => (await client.call("status", {})).sqlite_version,
    close: () => {
      client.close();
      store?.close();
      return Promise.resolve();
    },
  };
}

function branchOperations(client: Client): BranchOperations {
  return {
    checkout: (address, options) => {
      const { checkpoint, ...branch } = address;
      if (checkpoint !== undefined) return client.call("checkout-at", { ...branch, checkpoint });
      return client.call("checkout", { ...branch, ...(options?.force ? { force: true } : {}) });
    },
    checkpoint: (address, name, options) =>
      client.call("checkpoint", {
        ...branchOf(address),
        name,
        ...(options?.note === undefined ? {} : { note: options.note }),
      }),
    fork: (address, branch, options) =>
      client.call("fork", {
        ...branchOf(address),
        new_branch: branch,
        ...(address.checkpoint === undefined ? {} : { at: address.checkpoint }),
        ...(options?.ttl_ms === undefined ? {} : { ttl_ms: options.ttl_ms }),
        ...(options?.materialize ? { materialize: true } : {}),
      }),
    rollback: (address, options) =>
      client.call("rollback", { ...branchOf(address), to: address.checkpoint ?? "", ...repointArgs(options) }),
    promote: (from, onto, options) =>
      client.call("promote", { ...branchOf(from), onto: onto.branch, ...repointArgs(options) }),
    compact: (address) => client.call("compact", branchOf(address)),
    destroy: (address, options) =>
      client.call("destroy", { ...branchOf(address), ...(options?.force ? { force: true } : {}) }),
    touch: (address, options) =>
      client.call("touch", {
        ...branchOf(address),
        ...(options?.ttl_ms === undefined ? {} : { ttl_ms: options.ttl_ms }),
      }),
    protect: (address, on) => client.call("protect", { ...branchOf(address), on }),
    diff: (a, b, options) =>
      client.call("diff", {
        a: formatAddress(a),
        b: formatAddress(b),
        ...(options?.tables === undefined ? {} : { tables: options.tables }),
        ...(options?.rows === undefined ? {} : { rows: options.rows }),
      }),
    status: async (address) => {
      const { branch } = await client.call("status", branchOf(address));
      if (branch === undefined) throw new TaskdError("not_found", `No branch ${formatAddress(address)}`);
      return branch;
    },
    branches: async (db) => (await client.call("branches", db === undefined ? {} : { db })).branches,
    databases: async () => (await client.call("databases", {})).databases,
    lease: (address) => client.call("lease", branchOf(address)),
    collectGarbage: ({ grace_ms, dry_run }) => client.call("gc", { grace_ms, ...(dry_run ? { dry_run } : {}) }),
  };
}

function liveOperations(client: Client, socket: string, signal: AbortSignal): SessionOperations {
  return {
    open: (address) => client.call("open", branchOf(address)),
    flush: (address) => client.call("flush", branchOf(address)),
    close: (address) => client.call("close", branchOf(address)),
    status: async (address) => (await client.call("status", address === undefined ? {} : branchOf(address))).sessions,
    events: (onSubscribed) => subscribe(socket, { signal, onSubscribed }),
  };
}

function branchOf(address: Address): { db: string; branch: string } {
  return { db: address.db, branch: address.branch };
}

function repointArgs(options: RepointOptions | undefined): object {
  const { materialize, safety, safety_ttl_ms, reopen } = options ?? {};
  return {
    ...(materialize ? { materialize } : {}),
    ...(safety === false ? { safety } : {}),
    ...(safety_ttl_ms === undefined ? {} : { safety_ttl_ms }),
    ...(reopen ? { reopen } : {}),
  };
}
