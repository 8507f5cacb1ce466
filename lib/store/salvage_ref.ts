/**
 * Reads a ref that is damaged: it lies under another branch's name, or one byte differs, both proved by its checksum; or
 * the fields that are left; or that of a copy of the store. The head counts only when its object has the digest that
 * the ref names. What is lost of a ref is said.
 */

import type { Backend } from "../backend/backend.ts";
import { type Base, Chains } from "./chain.ts";
import type { StoreContext } from "./context.ts";
import { lastObject } from "./head_check.ts";
import { type BranchName, formatAddress } from "./names.ts";
import { correctRecord, encodeRecord, OWN_BYTES } from "./records.ts";
import { decodeRef, markOf, readRef, type Ref, REF_SCHEMA } from "./ref.ts";
import type { Restored } from "./results.ts";
import { ttlField } from "./time_to_live.ts";

/** The ref that damaged bytes were; undefined when nothing proves one. `others` are the damaged refs of all branches. */
export async function salvageRef(
  context: StoreContext,
  name: BranchName,
  { bytes, others, copy }: { bytes: Uint8Array; others: Map<string, Uint8Array>; copy: Backend | undefined },
): Promise<Pick<Restored, "from" | "lost"> & { ref: Ref } | undefined> {
  const { backend } = context;
  const address = formatAddress(name);
  for (const [key, other] of others) {
    const found = read(other, address);
    if (found?.of === markOf(name)) return { ref: found, from: key };
  }
  const corrected = correctRecord(bytes, (bytes) => decodeRef(bytes, address));
  if (corrected && await isProved(backend, corrected)) return { ref: corrected, from: OWN_BYTES };
  const found = copy && await readRef(copy, name.db, name.branch).catch(() => undefined);
  const copied = found && await isProved(copy, found.ref) ? found.ref : undefined;
  const pieced = read(bytes, address) ? undefined : await pieceTogether(context, new TextDecoder().decode(bytes), name);
  if (pieced) {
    const known = new Set(pieced.checkpoints.map(({ name }) => name));
    const more = copied?.checkpoints.filter(({ name }) => !known.has(name)) ?? [];
    const lineage = copied?.lineage === pieced.lineage ? {} : { lineage: copied?.lineage };
    const checkpoints = [...pieced.checkpoints, ...more.map((each) => ({ ...lineage, ...each } as typeof each))];
    const from = `its own fields and its lineage's objects${copied ? `, and ${copy!.url}` : ""}`;
    const lost = "checkpoints, time to live, protection and what undo knew, as far as none of these has them";
    const settings = { ...ttlField(copied ?? {}), ...(copied?.protected ? { protected: true } : {}) };
    return { ref: { ...pieced, ...settings, checkpoints }, from, lost };
  }
  if (!copied) return undefined;
  const { lease: _lease, claim: _claim, pending: _pending, folding: _folding, captured: _captured, ...rest } = copied;
  const ref = { ...rest, epoch: await newestEpoch(context, copied), of: markOf(name), nonce: context.refs.nonce() };
  return { ref, from: copy!.url, lost: `what the branch was given after ${copied.touched_at}, when it was copied` };
}

function read(bytes: Uint8Array, address: string): Ref | undefined {
  try {
    return decodeRef(bytes, address);
  } catch {
    return undefined;
  }
}

/**
 * A ref of the fields that can still be read; leases, claims and times to live are dropped. Lineage and digest have to
 * stand in their places: those of a checkpoint or of the base pointer are not the head's.
 */
async function pieceTogether(context: StoreContext, text: string, name: BranchName): Promise<Ref | undefined> {
  const { backend } = context;
  const [, lineage, digest] =
    /^\{"schema":.{1,3},"lineage":"([0-9a-f]{32})"[^{}[\]]{0,80}?"digest":"([0-9a-f]{16})"/.exec(text) ?? [];
  const of = /"of":"([0-9a-f]{8})"/.exec(text)?.[1] ?? markOf(name);
  if (lineage === undefined || digest === undefined || of !== markOf(name)) return undefined;
  const chains = new Chains(backend);
  const base = await chains.base(lineage).catch(() => undefined);
  const known = Number(/"txid":([0-9]+)/.exec(text)?.[1] ?? 0);
  const ends = [known, ...(await chains.objects(lineage)).map(({ last }) => last), base?.txid ?? 0];
  let txid: number | undefined;
  for (const end of new Set(ends)) if (await isProved(backend, { lineage, txid: end, digest })) txid ??= end;
  if (txid === undefined) return undefined;
  const checkpoints = [...text.matchAll(/\{"name":"[^"]+","txid":[^{}]*\}/g)].flatMap(([part]) => {
    try {
      return [JSON.parse(part)];
    } catch {
      return [];
    }
  });
  const epoch = await newestEpoch(context, { lineage, epoch: Number(/"epoch":([0-9]+)/.exec(text)?.[1] ?? 1) });
  const touched_at = new Date(context.clock.now()).toISOString();
  const whole = { schema: REF_SCHEMA, lineage, epoch, txid, digest, checkpoints, touched_at, of };
  const record = encodeRecord({ ...whole, ...(base ? { base } : {}), nonce: context.refs.nonce() });
  return read(record, formatAddress(name));
}

/** The highest epoch that a lineage has objects of, at least the ref's own. */
async function newestEpoch({ chains }: StoreContext, { lineage, epoch }: { lineage: string; epoch: number }) {
  return (await chains.objects(lineage)).reduce((most, { epoch }) => Math.max(most, epoch), epoch);
}

async function isProved(backend: Backend, { digest, ...point }: Base & { digest: string }): Promise<boolean> {
  return await lastObject(backend, point).then((last) => last.digest === digest, () => false);
}
