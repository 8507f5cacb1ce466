import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { type ErrorCode, TaskdError } from "../errors.ts";
import { Holder } from "./holder.ts";
import { isLeased, keepRenewed, Lease, LEASE_MARGIN_MS, LEASE_RENEW_MS, LEASE_TTL_MS, withLease } from "./lease.ts";
import type { LeaseContext, Renewal } from "./lease.ts";
import { Refs } from "./ref.ts";

const ADDRESS = { db: "db", branch: "main" };
let seeds = 1;

/** Processes on one branch, each with its own clock and sign of life, over a store that fails as planned. */
class Scene {
  readonly memory = new MemoryBackend();
  readonly directory: string;
  plan: FaultPlan = () => undefined;
  #holders: Holder[] = [];

  constructor(directory: string) {
    this.directory = directory;
  }

  /** A process; those with another `workspace` know nothing of each other's life. */
  process(options: { clock?: VirtualClock; workspace?: string } = {}): LeaseContext & { clock: VirtualClock } {
    const random = new SeededRandom(seeds++).bytes;
    const clock = options.clock ?? new VirtualClock();
    const holder = new Holder(`${this.directory}/${options.workspace ?? "w"}`, "cli", { random, clock });
    this.#holders.push(holder);
    return { refs: new Refs(new FaultyBackend(this.memory, (call) => this.plan(call)), random), holder, clock };
  }

  [Symbol.dispose]() {
    for (const holder of this.#holders) holder.close();
  }
}

async function onBranch(work: (scene: Scene) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    using scene = new Scene(directory);
    await scene.process().refs.create("db", "main", {
      lineage: "0".repeat(32),
      epoch: 1,
      txid: 1,
      digest: "0".repeat(16),
      checkpoints: [],
      touched_at: "2026-01-01T00:00:00.000Z",
    });
    await work(scene);
  });
}

async function refuses(code: ErrorCode, work: () => Promise<unknown>): Promise<TaskdError> {
  const error = await assertRejects(work, TaskdError);
  assertEquals(error.code, code, error.message);
  return error;
}

const refOf = async ({ refs }: LeaseContext) => (await refs.read("db", "main")).ref;
const advance = (txid: number) => <T extends { txid: number }>(ref: T) => ({ ...ref, txid });

Deno.test("acquiring raises the epoch; renewing, writing and releasing do not", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const lease = await Lease.acquire(process, ADDRESS);
    assertEquals(lease.epoch, 2);
    await lease.write();
    await lease.write(advance(5));
    assertEquals((await refOf(process)).epoch, 2);
    await lease.release();
    const { epoch, txid, lease: held } = await refOf(process);
    assertEquals([epoch, txid, held], [2, 5, undefined]);
    assertEquals((await Lease.acquire(process, ADDRESS)).epoch, 3);
  }));

Deno.test("a branch that is held is refused, with who holds it and until when", () =>
  onBranch(async (scene) => {
    const [one, two] = [scene.process(), scene.process()];
    const lease = await Lease.acquire(one, ADDRESS);
    const error = await refuses("lease_held", () => Lease.acquire(two, ADDRESS));
    assert(error.message.includes(lease.holder) && error.message.includes("2026-01-01T00:00:30.000Z"), error.message);
    await refuses("lease_held", () => Lease.acquire(one, ADDRESS));
    await lease.release();
    await Lease.acquire(two, ADDRESS);
  }));

Deno.test("of many that request a branch at once exactly one gets it", () =>
  onBranch(async (scene) => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 12 }, () => Lease.acquire(scene.process(), ADDRESS)),
    );
    assertEquals(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") assertEquals((outcome.reason as TaskdError).code, "lease_held");
    }
  }));

Deno.test("a holder paused beyond its lease is fenced: neither write nor release takes effect", () =>
  onBranch(async (scene) => {
    const [paused, other] = [scene.process(), scene.process()];
    const lease = await Lease.acquire(paused, ADDRESS);
    other.clock.advance(LEASE_TTL_MS + 1);
    const taken = await Lease.acquire(other, ADDRESS);
    await taken.write(advance(7));
    // Its own clock was stopped: it sees no reason to doubt, and the compare-and-swap decides.
    assertEquals(lease.left_ms, LEASE_TTL_MS);
    await refuses("fenced", () => lease.write(advance(9)));
    await lease.release((ref) => ({ ...ref, txid: 9 }));
    const ref = await refOf(other);
    assertEquals([ref.txid, ref.epoch, ref.lease?.holder], [7, 3, taken.holder]);
    await taken.write(advance(8));
  }));

Deno.test("a holder that is well inside its lease stores without a write, any other renews first", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const lease = await Lease.acquire(process, ADDRESS);
    const calls: string[] = [];
    scene.plan = ({ method }) => void calls.push(method);
    process.clock.advance(LEASE_TTL_MS - LEASE_MARGIN_MS);
    await lease.ensureHeld();
    assertEquals(calls, []);
    process.clock.advance(1);
    await lease.ensureHeld();
    assertEquals([calls, lease.left_ms], [["replace"], LEASE_TTL_MS]);
  }));

Deno.test("a lease that has run out is taken again by its holder, while no one else has it", () =>
  onBranch(async (scene) => {
    const [paused, other] = [scene.process(), scene.process()];
    const lease = await Lease.acquire(paused, ADDRESS);
    const retaken: number[] = [];
    lease.onRetaken = (late_seconds) => retaken.push(late_seconds);
    paused.clock.advance(LEASE_TTL_MS + 3_600_000);
    await lease.write(advance(9));
    assertEquals([retaken, lease.left_ms, lease.epoch], [[3600], LEASE_TTL_MS, 2]);
    assertEquals([(await refOf(paused)).txid, (await refOf(paused)).epoch], [9, 2]);
    await refuses("lease_held", () => Lease.acquire(other, ADDRESS));
    // A destroy that has begun meanwhile goes first.
    paused.clock.advance(LEASE_TTL_MS + 1);
    const claim = { kind: "destroy" as const, since: new Date(0).toISOString(), nonce: "n" };
    await other.refs.update("db", "main", (ref) => ({ ...ref, claim }));
    await refuses("branch_deleting", () => lease.write());
    await other.refs.update("db", "main", ({ claim: _, ...ref }) => ref);
    await lease.write();
    assertEquals(retaken.length, 2);
  }));

Deno.test("a lost lease says to whom: the holder, its host and since when", () =>
  onBranch(async (scene) => {
    const [paused, other] = [scene.process(), scene.process()];
    const lease = await Lease.acquire(paused, ADDRESS);
    other.clock.advance(LEASE_TTL_MS + 1);
    const taken = await Lease.acquire({ ...other, host: "elsewhere" }, ADDRESS);
    const since = new Date(other.clock.now()).toISOString();
    const { message } = await refuses("fenced", () => lease.write());
    assertEquals(message, `The lease of db@main was lost to ${taken.holder} on elsewhere since ${since}`);
    await taken.release();
    assertStringIncludes((await refuses("fenced", () => lease.write())).message, "gave it back");
  }));

Deno.test("a wall clock that jumps never lets two holders move the head", () =>
  onBranch(async (scene) => {
    const [one, two] = [scene.process(), scene.process()];
    const first = await Lease.acquire(one, ADDRESS);
    one.clock.jump(-3_600_000);
    assertEquals(first.left_ms, LEASE_TTL_MS);
    two.clock.jump(3_600_000);
    const second = await Lease.acquire(two, ADDRESS);
    const outcomes = await Promise.allSettled([first.write(advance(5)), second.write(advance(6))]);
    assertEquals(outcomes.map(({ status }) => status), ["rejected", "fulfilled"]);
    assertEquals((await refOf(two)).txid, 6);
  }));

Deno.test("a lease that was acquired under a lost answer is held, not refused to its own holder", () =>
  onBranch(async (scene) => {
    const [one, two] = [scene.process(), scene.process()];
    let writes = 0;
    scene.plan = ({ method }) => {
      if (method !== "replace" || ++writes > 1) return undefined;
      return { kind: "after", code: "ambiguous" };
    };
    // Between the lost answer and the next read, another process changes the ref.
    const read = one.refs.read.bind(one.refs);
    let looks = 0;
    one.refs.read = async (db, branch) => {
      if (++looks === 2) await two.refs.update(db, branch, (ref) => ({ ...ref, protected: true }));
      return await read(db, branch);
    };
    const lease = await Lease.acquire(one, ADDRESS);
    assertEquals(lease.epoch, 2);
    await lease.write(advance(4));
  }));

// conformance: 7.under_destroy 7.under_reap
Deno.test("a claim refuses with the contract's words", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const claim = (kind: "destroy" | "reap") =>
      process.refs.update("db", "main", (ref) => ({
        ...ref,
        claim: { kind, since: "2026-01-01T00:00:00.000Z", nonce: "n" },
      }));
    await claim("destroy");
    assertEquals(
      (await refuses("branch_deleting", () => Lease.acquire(process, ADDRESS))).message,
      "branch is being deleted",
    );
    await claim("reap");
    assertEquals(
      (await refuses("branch_reaping", () => Lease.acquire(process, ADDRESS))).message,
      "branch is being reaped",
    );
  }));

Deno.test("a holder whose branch is gone is fenced, and its release is quiet", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const lease = await Lease.acquire(process, ADDRESS);
    await scene.memory.delete("refs/db/main.json");
    await refuses("fenced", () => lease.write());
    await lease.release();
  }));

Deno.test("a holder of another workspace is honoured until its lease is out, and no longer", () =>
  onBranch(async (scene) => {
    const [here, there] = [scene.process(), scene.process({ workspace: "elsewhere" })];
    await Lease.acquire(there, ADDRESS);
    there.holder.close(); // dead, for all that can be known there
    here.clock.advance(LEASE_TTL_MS - 1);
    await refuses("lease_held", () => Lease.acquire(here, ADDRESS));
    here.clock.advance(1);
    assertEquals(isLeased(await refOf(here), here), false);
    await Lease.acquire(here, ADDRESS);
  }));

/** Lets everything run that waits for nothing but its turn. */
async function settle(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

Deno.test("work that outlasts a lease keeps it, also through passing faults", () =>
  onBranch(async (scene) => {
    const clock = new VirtualClock();
    const [process, other] = [scene.process({ clock }), scene.process({ clock })];
    await withLease(process, ADDRESS, async (lease) => {
      for (let second = 1; second <= 300; second++) {
        const failing = second % 20 < 12;
        scene.plan = ({ method }) =>
          failing && method === "replace" ? { kind: "before", code: "unavailable" } : undefined;
        clock.advance(1_000);
        await settle();
        assert(lease.left_ms > 0);
        await refuses("lease_held", () => Lease.acquire(other, ADDRESS));
      }
      scene.plan = () => undefined;
      await lease.write(advance(3));
    });
    assertEquals((await refOf(process)).lease, undefined);
  }));

Deno.test("keepRenewed() reports faults, goes on after the lease ran out, and reports its loss once", () =>
  onBranch(async (scene) => {
    const [process, other] = [scene.process(), scene.process()];
    const lease = await Lease.acquire(process, ADDRESS);
    const seen: string[] = [];
    const renewal = keepRenewed(process, lease, {
      onLost: ({ code }) => seen.push(code),
      onFault: (error) => seen.push((error as TaskdError).code),
    });
    const pass = async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        process.clock.advance(1_000);
        await settle();
      }
    };
    scene.plan = ({ method }) => method === "replace" ? { kind: "before", code: "unavailable" } : undefined;
    await pass(300);
    // Once a second while it lasts, then every ten.
    assert(seen.length > 40 && seen.length < 60, `${seen.length}`);
    assertEquals(new Set(seen), new Set(["unavailable"]));
    scene.plan = () => undefined;
    await pass(10);
    assertEquals(lease.left_ms > LEASE_MARGIN_MS, true);
    other.clock.advance(LEASE_TTL_MS + 600_000);
    await Lease.acquire(other, ADDRESS);
    await pass(60);
    assertEquals(seen.filter((code) => code === "fenced").length, 1);
    assertEquals(process.clock.sleepers, 0);
    await renewal.stop();
  }));

Deno.test("a renewal that is stopped writes nothing more", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const renewal = keepRenewed(process, await Lease.acquire(process, ADDRESS));
    process.clock.advance(LEASE_RENEW_MS);
    await renewal.stop();
    const { nonce } = await refOf(process);
    process.clock.advance(LEASE_RENEW_MS * 2);
    await settle();
    assertEquals((await refOf(process)).nonce, nonce);
  }));

Deno.test("writes of one holder follow each other, so that what it knows of the ref never goes back", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const lease = await Lease.acquire(process, ADDRESS);
    let late: (() => void) | undefined;
    let first = true;
    const replace = scene.memory.replace.bind(scene.memory);
    // The first write lands and its answer comes last.
    scene.memory.replace = async (key, bytes, etag) => {
      const mine = first;
      first = false;
      const answer = await replace(key, bytes, etag);
      if (mine) await new Promise<void>((resolve) => late = resolve);
      return answer;
    };
    const writes = [lease.write(), lease.write(advance(5))];
    await settle();
    late?.();
    await Promise.all(writes);
    assertEquals(lease.ref.txid, 5);
    assertEquals((await refOf(process)).txid, 5);
  }));

Deno.test("a lease lasts from when it was asked for, however late the store's answer comes", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    scene.plan = ({ method }) => {
      if (method === "replace") process.clock.advance(8_000);
      return undefined;
    };
    const lease = await Lease.acquire(process, ADDRESS);
    assertEquals(lease.left_ms, LEASE_TTL_MS - 8_000);
    await lease.write();
    assertEquals(lease.left_ms, LEASE_TTL_MS - 8_000);
  }));

Deno.test("an update that changes nothing renews nothing", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const lease = await Lease.acquire(process, ADDRESS);
    process.clock.advance(8_000);
    await lease.write(() => undefined);
    assertEquals(lease.left_ms, LEASE_TTL_MS - 8_000);
  }));

Deno.test("a lease that was given back writes nothing more", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const lease = await Lease.acquire(process, ADDRESS);
    await lease.release();
    await refuses("fenced", () => lease.write(advance(9)));
    const { txid, lease: held } = await refOf(process);
    assertEquals([txid, held], [1, undefined]);
  }));

Deno.test("a lease that cannot be released is free here at once, elsewhere when it expires", () =>
  onBranch(async (scene) => {
    const clock = new VirtualClock();
    const [process, neighbour] = [scene.process({ clock }), scene.process({ clock })];
    const answer = await withLease(process, ADDRESS, () => {
      scene.plan = ({ method }) => method === "replace" ? { kind: "before", code: "unavailable" } : undefined;
      return Promise.resolve("done");
    });
    assertEquals(answer, "done");
    scene.plan = () => undefined;
    await refuses("lease_held", () => Lease.acquire(neighbour, ADDRESS));
    await (await Lease.acquire(process, ADDRESS)).release();
  }));

Deno.test("after a fault that has passed, a lease is renewed at its usual rate again", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const renewal = keepRenewed(process, await Lease.acquire(process, ADDRESS));
    let writes = 0;
    scene.plan = ({ method }) =>
      method === "replace" && ++writes === 1 ? { kind: "before", code: "unavailable" } : undefined;
    process.clock.advance(LEASE_RENEW_MS);
    await settle();
    assertEquals(process.clock.sleeping, [1_000]);
    process.clock.advance(1_000);
    await settle();
    assertEquals([writes, process.clock.sleeping], [2, [LEASE_RENEW_MS]]);
    await renewal.stop();
  }));

Deno.test("a renewal reads nothing, and keeps another's change of the ref", () =>
  onBranch(async (scene) => {
    const [process, other] = [scene.process(), scene.process()];
    const lease = await Lease.acquire(process, ADDRESS);
    const calls: string[] = [];
    scene.plan = ({ method }) => void calls.push(method);
    await lease.write();
    await lease.write();
    assertEquals(calls, ["replace", "replace"]);
    await other.refs.update("db", "main", (ref) => ({ ...ref, protected: true }));
    calls.length = 0;
    process.clock.advance(8_000);
    await lease.write();
    assertEquals(calls, ["replace", "get", "replace"]);
    const ref = await refOf(process);
    assertEquals([ref.protected, ref.lease?.holder, lease.left_ms], [true, lease.holder, LEASE_TTL_MS]);
  }));

Deno.test("a renewal never goes over the head of a later holder", () =>
  onBranch(async (scene) => {
    const [paused, other] = [scene.process(), scene.process({ workspace: "elsewhere" })];
    const lease = await Lease.acquire(paused, ADDRESS);
    await lease.write();
    // By the wall clock alone the lease is out: its holder still believes in it.
    other.clock.advance(LEASE_TTL_MS + 1);
    const taken = await Lease.acquire(other, ADDRESS);
    await refuses("fenced", () => lease.write());
    const ref = await refOf(other);
    assertEquals([ref.lease?.holder, ref.epoch], [taken.holder, taken.epoch]);
  }));

Deno.test("leases of one clock are renewed at the same moments, none later than half of its life", () =>
  onBranch(async (scene) => {
    const process = scene.process();
    const { ref } = await process.refs.read("db", "main");
    const renewals: Renewal[] = [];
    for (const branch of ["one", "two", "three"]) {
      await process.refs.create("db", branch, { ...ref, lineage: branch.length.toString().repeat(32) });
      renewals.push(keepRenewed(process, await Lease.acquire(process, { db: "db", branch })));
      process.clock.advance(290);
    }
    const sleeping = process.clock.sleeping;
    assertEquals(sleeping, [LEASE_RENEW_MS - 580, LEASE_RENEW_MS - 290, LEASE_RENEW_MS]);
    let writes = 0;
    scene.plan = ({ method }) => void (method === "replace" && writes++);
    process.clock.advance(LEASE_RENEW_MS - 3 * 290 - 1);
    await settle();
    assertEquals(writes, 0);
    process.clock.advance(1);
    await settle();
    assertEquals(writes, 3);
    await Promise.all(renewals.map((renewal) => renewal.stop()));
  }));
