/**
 * Scrubbing: every stored object, every record and every local file that verify knows is read against its checksums again
 * and again, a little at a time, so that damage is found while something may still prove what was there. `scrub.json` in
 * the workspace says how far it has come; without it, scrubbing begins anew.
 */

import type { Backend, ObjectStream } from "../backend/backend.ts";
import { type Clock, nextTurn } from "../clock.ts";
import { hasCode, messageOf, TaskdError } from "../errors.ts";
import { stampFile } from "../sqlite/checkout_file.ts";
import type { Chain, ChainObject } from "./chain.ts";
import type { StoreContext } from "./context.ts";
import { translated, unreadable } from "./errors.ts";
import { pointsOf, type PromisedPoint } from "./history.ts";
import { DATA_PREFIX, MANIFEST_KEY, parseObjectKey, parseRefKey, refKey, REFS_PREFIX } from "./keys.ts";
import { fileProblem, localFilesOf } from "./local_files.ts";
import { requireManifest } from "./manifest.ts";
import { readError, withKey } from "./materialize.ts";
import { type Address, formatAddress } from "./names.ts";
import { readObjectThrough } from "./object_index.ts";
import type { Ref } from "./ref.ts";
import type { ConditionInfo, Finding, ScrubResult } from "./results.ts";
import { countSetAside, damagedFolder, setFileAside } from "./set_aside.ts";
import { readTombstones, TOMBSTONES_KEY } from "./tombstones.ts";
import type { ScrubRecord } from "./workspace.ts";

/** A pass is over well before the next is due: by this part of the interval. */
const PASS_SHARE = 0.5;
/** Most bytes a second; a disk or a connection has other work. */
const MAX_BYTES_PER_SECOND = 16 << 20;
/** What a slice reads at least, so that a small store is not kept waiting. */
const MIN_SLICE_BYTES = 1 << 20;
/** A machine that was off for longer does not catch up at once. */
const MAX_ELAPSED_MS = 10 * 60_000;
const BATCH = 1000;
const MAX_DAMAGED = 100;
/** After every key of an object. */
const RECORDS = "~";

/**
 * Reads as much as is due since the last slice.
 *
 * @param options.scrub_every_ms Everything is read at least once in this time.
 */
export async function scrub(
  context: StoreContext,
  { scrub_every_ms }: { scrub_every_ms: number },
): Promise<ScrubResult> {
  const { workspace, clock } = context;
  const now_ms = clock.now();
  const now = new Date(now_ms).toISOString();
  let record = workspace.scrubRecord();
  const begun_ms = record === undefined ? 0 : Date.parse(record.began_at);
  // A clock that was wrong must not end scrubbing.
  if (!record || begun_ms > now_ms || record.finished && now_ms - begun_ms >= scrub_every_ms * PASS_SHARE) {
    record = await begin(context, now, record);
    // What was remembered is no evidence.
    context.chains.forget();
  }
  const slice = new Slice(context, record, now);
  if (!record.finished) {
    const elapsed_ms = Math.min(MAX_ELAPSED_MS, Math.max(1000, now_ms - Date.parse(record.slice_at)));
    const due = record.total_bytes * elapsed_ms / (scrub_every_ms * PASS_SHARE);
    await slice.run(Math.min(Math.max(MIN_SLICE_BYTES, due), MAX_BYTES_PER_SECOND * elapsed_ms / 1000));
  }
  return slice.result;
}

/**
 * What scrubbing has found of a chain and is so still; undefined when nothing is. Costs the time of a small file where
 * nothing is known.
 */
export async function knownDamage(
  { workspace, backend }: StoreContext,
  { objects }: Chain,
): Promise<string | undefined> {
  const known = new Set(workspace.scrubRecord()?.damaged.map(({ where }) => where));
  for (const object of objects.filter(({ key }) => known.has(key))) {
    try {
      await readObjectThrough(backend, object, () => {});
    } catch (error) {
      const { message } = readError(withKey(object, error)) as Error;
      return message;
    }
  }
  return undefined;
}

/** A refusal to make something of damaged content. */
export function damagedError(attempted: string, { db, branch }: Address, damage: string): TaskdError {
  return new TaskdError("corrupt", `${attempted}: ${damage}`, {
    hint: `Run: taskd repair ${formatAddress({ db, branch })}`,
  });
}

/** Has scrubbing know what else was found; `all`: and nothing but that. A workspace that cannot be written stays as it is. */
export async function noteDamage(context: StoreContext, found: Finding[], all = false): Promise<void> {
  const { workspace, clock } = context;
  const at = new Date(clock.now()).toISOString();
  const before = workspace.scrubRecord();
  // Of local copies others are made when they are needed; the bytes of bad content are as they were written.
  const lasting = found.filter(({ what }) => what !== "cache" && what !== "shadow" && what !== "content");
  const damaged = lasting.map(({ where, why }) => ({ where, why, at }));
  const known = before?.damaged.filter((each) => !all && damaged.every(({ where }) => where !== each.where)) ?? [];
  if (damaged.length === 0 && known.length === (before?.damaged.length ?? 0)) return;
  const next = { ...before ?? await begin(context, at, before), damaged: [...damaged, ...known].slice(0, MAX_DAMAGED) };
  await Promise.try(() => workspace.writeScrubRecord(next)).catch(() => {});
}

async function begin({ backend }: StoreContext, now: string, last: ScrubRecord | undefined): Promise<ScrubRecord> {
  let total_bytes = 0;
  await translated("Cannot list the objects", async () => {
    for await (const { size } of backend.list(DATA_PREFIX)) total_bytes += size;
  });
  const before = last?.finished ? { finished_at: last.slice_at } : {};
  return {
    began_at: now,
    slice_at: now,
    cursor: "",
    total_bytes,
    objects: 0,
    bytes: 0,
    finished: false,
    damaged: last?.damaged ?? [],
    ...(last?.finished_at === undefined ? before : { finished_at: last.finished_at, ...before }),
  };
}

class Slice {
  readonly result: ScrubResult;
  readonly #context: StoreContext;
  readonly #record: ScrubRecord;
  readonly #now: string;
  readonly #paced: Backend;

  constructor(context: StoreContext, record: ScrubRecord, now: string) {
    this.#context = context;
    this.#record = record;
    this.#now = now;
    this.#paced = paced(context.backend, context.clock);
    this.result = { objects: 0, bytes: 0, found: [], damaged: record.damaged.length, finished: false };
  }

  async run(budget_bytes: number): Promise<void> {
    const record = this.#record;
    try {
      while (this.result.bytes < budget_bytes && !record.finished) {
        const batch = record.cursor < RECORDS ? await this.#nextObjects() : [];
        for (const object of batch) {
          if (this.result.bytes >= budget_bytes) break;
          await this.#object(object);
          record.cursor = object.key;
        }
        if (batch.length === 0) await this.#records(budget_bytes);
        await nextTurn();
      }
    } finally {
      record.slice_at = this.#now;
      this.#context.workspace.writeScrubRecord(record);
    }
    this.result.finished = record.finished;
    this.result.damaged = record.damaged.length;
  }

  async #nextObjects(): Promise<ChainObject[]> {
    let batch: ChainObject[] = [];
    const inOrder = () => batch.sort((a, b) => a.key < b.key ? -1 : 1).slice(0, BATCH);
    await translated("Cannot list the objects", async () => {
      for await (const { key, size } of this.#context.backend.list(DATA_PREFIX)) {
        const object = key > this.#record.cursor ? parseObjectKey(key) : undefined;
        if (object && batch.push({ ...object, size }) >= 2 * BATCH) batch = inOrder();
      }
    });
    return inOrder();
  }

  async #object(object: ChainObject): Promise<void> {
    const read = () => readObjectThrough(this.#paced, object, () => {});
    try {
      await read().catch(read);
      this.#sound(object.key);
    } catch (raw) {
      const error = readError(unreadable(raw));
      if (!(error instanceof TaskdError)) throw error;
      // Collected since it was listed.
      if (hasCode(error, "chain_gap") && !await this.#isThere(object.key)) return;
      if (!hasCode(error, "corrupt", "chain_gap")) throw error;
      this.#damaged(object.key, messageOf(error));
    }
    this.#count(object.size);
  }

  /** Refs, base pointers and local files, branch after branch, and then what the store has one of. */
  async #records(budget_bytes: number): Promise<void> {
    const { refs, backend } = this.#context;
    const record = this.#record;
    for (const name of await refs.list()) {
      const at = `${RECORDS}${name.db}@${name.branch}`;
      if (at <= record.cursor) continue;
      if (this.result.bytes >= budget_bytes) return;
      const found = await this.#read(refKey(name.db, name.branch), () => refs.find(name.db, name.branch));
      for (const point of found ? pointsOf({ ...name, ref: found.ref }) : []) await this.#point(point, found!.ref);
      record.cursor = at;
    }
    await translated("Cannot list the branches", async () => {
      for await (const { key } of backend.list(REFS_PREFIX)) {
        if (!parseRefKey(key)) this.#damaged(key, `Cannot identify ${key}`);
      }
    });
    await this.#read(MANIFEST_KEY, () => requireManifest(backend));
    await this.#read(TOMBSTONES_KEY, () => readTombstones(backend));
    record.finished = true;
    record.finished_at = this.#now;
    // What was not met again in this pass is gone.
    record.damaged = record.damaged.filter(({ at }) => at >= record.began_at);
  }

  /** Local files of a head or checkpoint; a damaged copy is moved away and made again when it is needed. */
  async #point(point: PromisedPoint, ref: Ref): Promise<void> {
    const { chains, cache, workspace, clock } = this.#context;
    const { address, lineage, txid, digest } = point;
    // An object that is missing or damaged is found where objects are read; a branch that is gone needs none.
    const chain = await this.#read(formatAddress(address), () => chains.resolve(lineage, txid), async () => {
      const now = await this.#context.refs.find(address.db, address.branch);
      return now !== undefined && pointsOf({ ...address, ref: now.ref }).some((each) => each.txid === txid);
    });
    for (const { what, path } of chain ? localFilesOf(this.#context, point, { ref, chain }) : []) {
      if (what === "sidecar") {
        this.#damaged(path, "a record beside a checkout cannot be read; it counts as missing");
        continue;
      }
      const stamp = stampFile(path);
      // Evicted since it was looked for.
      if (!stamp) continue;
      this.#count(stamp.size);
      if (what === "cache") {
        if (await cache.look(path, chain!, digest, true) !== "damaged") continue;
      } else {
        const problem = await fileProblem(this.#context, path, { objects: chain!.objects, digest, fast: true })
          .catch(() => undefined);
        if (problem === undefined || JSON.stringify(stampFile(path)) !== JSON.stringify(stamp)) continue;
        setFileAside(workspace, damagedFolder(clock.now()), path);
      }
      this.result.found.push({ where: path, why: "a local copy was damaged; it is made again when it is needed" });
    }
  }

  /** What `read` answers; undefined, and known as damage, where it cannot be understood and `is_needed` still. */
  async #read<T>(where: string, read: () => Promise<T>, is_needed?: () => Promise<boolean>): Promise<T | undefined> {
    try {
      const answer = await read();
      this.#sound(where);
      return answer;
    } catch (raw) {
      const error = unreadable(raw);
      if (!hasCode(error, "corrupt", "not_a_store", "chain_gap", "unsupported_format")) throw error;
      if (!is_needed || await is_needed()) this.#damaged(where, messageOf(error));
      return undefined;
    }
  }

  async #isThere(key: string): Promise<boolean> {
    return await this.#context.backend.head(key).then(() => true, () => false);
  }

  #count(bytes: number): void {
    this.result.objects++;
    this.result.bytes += bytes;
    this.#record.objects++;
    this.#record.bytes += bytes;
  }

  #sound(where: string): void {
    this.#record.damaged = this.#record.damaged.filter((known) => known.where !== where);
  }

  #damaged(where: string, why: string): void {
    const known = this.#record.damaged.find((each) => each.where === where);
    if (known) known.at = this.#now;
    else this.result.found.push({ where, why });
    if (!known && this.#record.damaged.length < MAX_DAMAGED) this.#record.damaged.push({ where, why, at: this.#now });
  }
}

/** The backend, streaming no faster than {@linkcode MAX_BYTES_PER_SECOND}. */
function paced(backend: Backend, clock: Clock): Backend {
  const began_ms = clock.monotonic();
  let bytes = 0;
  const slow = async function* ({ chunks }: ObjectStream) {
    for await (const chunk of chunks) {
      yield chunk;
      bytes += chunk.length;
      const early_ms = bytes / MAX_BYTES_PER_SECOND * 1000 - (clock.monotonic() - began_ms);
      if (early_ms > 100) await clock.sleep(early_ms);
    }
  };
  return new Proxy(backend, {
    get(target, name) {
      if (name !== "getStream") {
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      }
      return async (key: string) => {
        const stream = await target.getStream(key);
        return { size: stream.size, chunks: slow(stream) };
      };
    },
  });
}

/** What is known of damage without reading the store. */
export async function condition(context: StoreContext): Promise<ConditionInfo> {
  const record = context.workspace.scrubRecord();
  return {
    damaged: record?.damaged.length ?? 0,
    set_aside: await countSetAside(context),
    ...(record?.finished_at === undefined ? {} : { scrubbed_at: record.finished_at }),
  };
}
