/**
 * A branch over a long time, flush after flush, with the janitor's folding and garbage collection beside it, against a
 * model that knows what each point held.
 */

import { Buffer } from "node:buffer";
import { assert, assertEquals } from "@std/assert";
import type { Backend } from "../../lib/backend/backend.ts";
import { type ErrorCode, hasCode } from "../../lib/errors.ts";
import { ImageFile } from "../../lib/sqlite/checkout_file.ts";
import type { DatabaseImage } from "../../lib/sqlite/wal_tail.ts";
import { isoNow, pointIn } from "../../lib/store/context.ts";
import { MAX_FOLDED_CHAIN } from "../../lib/store/fold_plan.ts";
import { keptPoints } from "../../lib/store/history.ts";
import { Lease } from "../../lib/store/lease.ts";
import { Chains } from "../../lib/store/chain.ts";
import { materialize } from "../../lib/store/materialize.ts";
import { readObjectIndex } from "../../lib/store/object_index.ts";
import { writeSegment, writeSnapshot } from "../../lib/store/objects.ts";
import { withCheckpoint } from "../../lib/store/ops/checkpoint.ts";
import { type LoggedPoint, loggedPoints } from "../../lib/store/point_log.ts";
import { DEFAULT_LEVELS } from "../../lib/store/retention.ts";
import { Store } from "../../lib/store/store.ts";
import { VirtualClock } from "../support/clock.ts";
import { dataKeys, makeTinyDatabase, neededKeys } from "../support/histories.ts";
import { at, OUTRIGHT } from "../support/stores.ts";
import { SeededRandom } from "../support/writers/random.ts";

const PAGE_SIZE = 512;
const SNAPSHOT_EVERY = 16;
const LEVELS = DEFAULT_LEVELS;

/** What a database holds: for each page a number from which its bytes are made. */
type Content = Uint32Array;

/** What a run did, and how large the store became; bytes are those of the live snapshot. */
export interface HistorySummary {
  flushes: number;
  points: number;
  folded: number;
  /** The most that was stored after a pass, in sizes of the live database. */
  most_stored: number;
  /** Objects from a folded point to its snapshot, at most. */
  deepest: number;
}

let first_page: Uint8Array | undefined;

function fill(into: Uint8Array, pgno: number, serial: number): void {
  if (pgno === 1) into.set(first_page!);
  // Nothing that compresses: sizes are to count pages. The first page's header has to stay one.
  let state = Math.imul(pgno, 0x9e3779b1) ^ serial;
  for (let offset = pgno === 1 ? 256 : 0; offset < PAGE_SIZE; offset++) {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + offset | 0;
    into[offset] = state >>> 11;
  }
}

function imageOf(content: Content): DatabaseImage {
  return {
    page_size: PAGE_SIZE,
    page_count: content.length,
    readPages(first, count, into) {
      for (let index = 0; index < count; index++) {
        fill(into.subarray(index * PAGE_SIZE, (index + 1) * PAGE_SIZE), first + index, content[first + index - 1]!);
      }
    },
  };
}

export interface HistoryModelOptions {
  seed: number;
  pages: number;
  /** Flushes in a day, evenly. */
  flushes_a_day: number;
  /** Whether operations beside flushes come in between. */
  operations?: boolean;
}

export class HistoryModel {
  readonly summary: HistorySummary = { flushes: 0, points: 0, folded: 0, most_stored: 0, deepest: 0 };
  readonly #clock = new VirtualClock();
  readonly #random: SeededRandom;
  readonly #options: HistoryModelOptions;
  readonly #backend: Backend;
  readonly #directory: string;
  /** By transaction and time, what `main` held; a point is never another's. */
  readonly #contents = new Map<string, Content>();
  /** Of each other branch, and each checkpoint by its address. */
  readonly #others = new Map<string, Content>();
  #store!: Store;
  #now!: Content;
  #depth = 0;
  #serial = 1;

  constructor(directory: string, backend: Backend, options: HistoryModelOptions) {
    this.#directory = directory;
    this.#backend = backend;
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
  }

  /** Runs for so many days, and checks at the end of each: all of what is kept at the last and some in between. */
  async run(days: number): Promise<HistorySummary> {
    const { pages, flushes_a_day, operations } = this.#options;
    makeTinyDatabase(`${this.#directory}/tiny.db`);
    first_page ??= Deno.readFileSync(`${this.#directory}/tiny.db`).slice(0, PAGE_SIZE);
    // What is stored is always in WAL mode.
    first_page.fill(2, 18, 20);
    this.#store = await this.#open();
    await this.#store.create("app", { from: `${this.#directory}/tiny.db` });
    this.#now = new Uint32Array(pages);
    await this.#flush(Array.from(this.#now, (_, index) => index + 1));
    for (let day = 1; day <= days; day++) {
      for (let count = 0; count < flushes_a_day; count++) {
        this.#clock.advance(86_400_000 / flushes_a_day);
        await this.#flush(this.#touched());
        if (count % SNAPSHOT_EVERY === 0) await this.#tend();
        if (operations && this.#random.chance(0.05)) await this.#operate();
      }
      await this.#tend();
      await this.#measure();
      if (day % 7 === 0 || day === days) await this.#check(day === days ? 1 : 0.1);
    }
    return this.summary;
  }

  #open(): Promise<Store> {
    const workspace = `${this.#directory}/${this.#serial++}`;
    return Store.open({ backend: this.#backend, workspace, clock: this.#clock, random: this.#random.fork().bytes });
  }

  /** Pages of a flush: one per cent in a day, most of them again and again; sometimes the database grows or shrinks. */
  #touched(): number[] {
    const { pages, flushes_a_day } = this.#options;
    const count = Math.max(1, Math.round(pages / 100 / flushes_a_day));
    const chosen = Array.from({ length: count }, () => this.#random.between(1, this.#now.length));
    if (!this.#options.operations || !this.#random.chance(0.05)) return chosen;
    const before = this.#now.length;
    const after = Math.max(8, before + this.#random.between(-4, 4));
    const resized = new Uint32Array(after);
    resized.set(this.#now.subarray(0, after));
    this.#now = resized;
    return [...chosen.filter((pgno) => pgno <= after), ...range(before + 1, after)];
  }

  async #flush(touched: readonly number[], checkpoint?: string): Promise<void> {
    const { context } = this.#store;
    const pages = [...new Set(touched)].sort((a, b) => a - b);
    this.#now = this.#now.slice();
    for (const pgno of pages) this.#now[pgno - 1] = this.#serial++;
    const lease = await Lease.acquire(context, at("app"));
    try {
      const { lineage, txid: before, digest } = lease.ref;
      const txid = before + this.#random.between(1, 3);
      const place = { lineage, epoch: lease.epoch };
      const image = imageOf(this.#now);
      const { page_count } = image;
      const changes = { pages, page_count, low_page_count: page_count, commits: 1 };
      const whole = this.#depth >= SNAPSHOT_EVERY;
      const { head } = whole
        ? await writeSnapshot(context.backend, place, { txid, image })
        : await writeSegment(context.backend, place, {
          prev: { txid: before, digest, kind: "segment" },
          txid,
          changes,
          image,
        });
      await lease.write((ref) =>
        checkpoint === undefined
          ? { ...ref, txid, digest: head.digest, touched_at: isoNow(context) }
          : withCheckpoint(context, ref, head, checkpoint)
      );
      this.#depth = whole ? 0 : this.#depth + 1;
      this.#contents.set(`${txid} ${this.#clock.now()}`, this.#now);
      if (checkpoint !== undefined) this.#others.set(`app@main@${checkpoint}`, this.#now);
      this.summary.flushes++;
    } finally {
      await lease.release();
    }
  }

  /** What the janitor does at its ticks. */
  async #tend(): Promise<void> {
    const { folded, failed } = await this.#store.foldHistory({ keep: LEVELS });
    assertEquals(failed, []);
    this.summary.folded += folded;
    for (let pass = 0; pass < 2; pass++) await this.#store.collectGarbage({ grace_ms: 0, keep: LEVELS });
  }

  /** One of what else happens to a branch. */
  async #operate(): Promise<void> {
    const random = this.#random;
    // A time names one point.
    this.#clock.advance(1000);
    const op = random.pick(["checkpoint", "fork", "fork", "destroy", "rollback", "promote", "compact"] as const);
    const past = await this.#kept();
    const store = await this.#open();
    switch (op) {
      case "checkpoint":
        await this.#flush(this.#touched(), `c${this.#serial}`);
        break;
      case "fork": {
        if (past.length === 0 || this.#others.size > 6) break;
        const point = random.pick(past);
        const name = `f${this.#serial++}`;
        await store.fork(at(addressOf(point)), name, { ttl_ms: 20 * 86_400_000 });
        this.#others.set(`app@${name}`, this.#contentOf(point));
        break;
      }
      case "destroy": {
        const branches = [...this.#others.keys()].filter((address) => !address.startsWith("app@main@"));
        if (branches.length === 0) break;
        const address = random.pick(branches);
        this.#others.delete(address);
        await store.destroy(at(address), OUTRIGHT);
        break;
      }
      case "rollback": {
        if (past.length === 0) break;
        const point = random.pick(past.slice(0, 40));
        await store.rollback(at(addressOf(point)), { safety: false });
        await this.#moved(this.#contentOf(point));
        break;
      }
      case "promote": {
        const branches = [...this.#others.keys()].filter((address) => !address.startsWith("app@main@"));
        if (branches.length === 0) break;
        const address = random.pick(branches);
        await store.promote(at(address), at("app"), { safety: false });
        await this.#moved(this.#others.get(address)!);
        break;
      }
      case "compact":
        await store.compact(at("app"));
        await this.#moved(this.#now);
    }
  }

  /** The head is another point now, at this time. */
  async #moved(content: Content): Promise<void> {
    const { context } = this.#store;
    const { ref } = await context.refs.read("app", "main");
    this.#now = content;
    this.#depth = (await new Chains(context.backend).resolve(ref.lineage, ref.txid)).depth;
    this.#contents.set(`${ref.txid} ${this.#clock.now()}`, content);
  }

  #contentOf({ txid, at_ms }: LoggedPoint): Content {
    const found = this.#contents.get(`${txid} ${at_ms}`);
    assert(found, `no point of ${txid} at ${at_ms} was ever there`);
    return found;
  }

  /** The points of `main` that are kept, newest first, but the first one of all, which the model does not know. */
  async #kept(): Promise<LoggedPoint[]> {
    const { ref } = await this.#store.context.refs.read("app", "main");
    return keptPoints(ref, LEVELS, await this.#store.context.timeline.look()).filter(({ txid }) => txid > 1);
  }

  async #measure(): Promise<void> {
    let [stored, newest] = [0, 0];
    const { ref } = await this.#store.context.refs.read("app", "main");
    for await (const { size } of this.#backend.list("data/")) stored += size;
    newest = this.#now.length * PAGE_SIZE;
    this.summary.most_stored = Math.max(this.summary.most_stored, stored / newest);
    this.summary.points = Math.max(this.summary.points, loggedPoints(ref).length);
  }

  /** So large a part of all that is kept restores bit for bit, from near by; nothing else is stored. */
  async #check(part: number): Promise<void> {
    const { backend, refs } = this.#store.context;
    const { chain: head } = await pointIn(this.#store.context, at("app"), (await refs.read("app", "main")).ref);
    const live = new Set(head.objects.map(({ key }) => key));
    for (const point of await this.#kept()) {
      if (!this.#random.chance(part)) continue;
      const chain = await new Chains(backend).resolve(point.lineage, point.txid);
      assert(
        point.folded !== undefined || live.has(chain.objects.at(-1)!.key),
        `${point.txid} is neither folded nor in the head's chain`,
      );
      if (point.folded !== undefined) this.summary.deepest = Math.max(this.summary.deepest, chain.objects.length);
      if (point.folded !== undefined) {
        assert(chain.objects.length <= MAX_FOLDED_CHAIN, `${chain.objects.length} objects`);
      }
      const { digest } = await readObjectIndex(backend, chain.objects.at(-1)!);
      await this.#assertContent(chain, digest, this.#contentOf(point), `point ${point.txid} of ${point.at_ms}`);
    }
    for (const [address, content] of [...this.#others, ["app@main", this.#now] as const]) {
      const { db, branch, checkpoint } = at(address);
      const found = await this.#store.context.refs.read(db, branch).catch(ignoring("not_found"));
      if (!found) continue;
      const { chain, head } = await pointIn(
        this.#store.context,
        { db, branch, ...(checkpoint ? { checkpoint } : {}) },
        found.ref,
      );
      await this.#assertContent(chain, head.digest, content, address);
    }
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(this.#store, LEVELS));
  }

  async #assertContent(
    chain: Parameters<typeof materialize>[1],
    digest: string,
    content: Content,
    what: string,
  ): Promise<void> {
    const path = `${this.#directory}/restored`;
    await materialize(this.#backend, chain, digest, path);
    using restored = ImageFile.open(path);
    assertEquals(restored.page_count, content.length, what);
    const [found, expected] = [restored, imageOf(content)].map((image) => {
      const bytes = new Uint8Array(content.length * PAGE_SIZE);
      image.readPages(1, content.length, bytes);
      return bytes;
    });
    if (Buffer.compare(found!, expected!) !== 0) throw new Error(`${what} is not what it was`);
    Deno.removeSync(path);
  }
}

function addressOf({ at_ms }: LoggedPoint): string {
  return `app@main@time:${new Date(at_ms).toISOString()}`;
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
}

function ignoring(...codes: ErrorCode[]) {
  return (error: unknown) => {
    if (!hasCode(error, ...codes)) throw error;
    return undefined;
  };
}
