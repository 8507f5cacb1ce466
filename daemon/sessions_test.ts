import { assertEquals, assertRejects } from "@std/assert";
import { type ErrorCode, TaskdError } from "../lib/errors.ts";
import type { SessionStatus } from "../lib/store/results.ts";
import type { EngineSession, StoreEngine } from "./store_engine.ts";
import { Sessions } from "./sessions.ts";

const ADDRESS = { db: "app", branch: "main" };
const ANYWHERE = () => true;

/** An engine whose sessions do what a test says. */
class StagedEngine implements StoreEngine {
  readonly sqlite_version = "3.0.0";
  /** What happens next; each is used once, then all goes well. */
  next: { open?: Promise<unknown>; flush?: Promise<unknown>; close?: Promise<unknown> } = {};
  /** What status says of every session. */
  error: SessionStatus["error"];
  opens = 0;
  /** Branches whose session cannot say how it is. */
  mute = new Set<number>();

  store(): Promise<never> {
    return Promise.reject(new Error("not staged"));
  }

  async openSession(): Promise<EngineSession> {
    await this.#take("open");
    const epoch = ++this.opens;
    const opened = { ...ADDRESS, checkout: "/c.db", txid: 1, epoch, holder: `daemon:${epoch}` };
    const status = (): SessionStatus => ({
      ...opened,
      state: this.error === undefined ? "active" : "error",
      durable_txid: 1,
      durable_age_seconds: 0,
      capture_lag_bytes: 0,
      wal_bytes: 0,
      rebases: 0,
      ...(this.error === undefined ? {} : { error: this.error }),
    });
    return {
      opened,
      lost: undefined,
      flush: () => Promise.reject(new Error("not staged")),
      flushPending: async () => {
        await this.#take("flush");
        return { txid: 1, kind: "none", pages: 0, bytes: 0 };
      },
      checkpoint: () => Promise.reject(new Error("not staged")),
      merge: () => Promise.reject(new Error("not staged")),
      revert: () => Promise.reject(new Error("not staged")),
      status: () => this.mute.has(epoch) ? Promise.reject(new Error("Input/output error")) : Promise.resolve(status()),
      close: async () => {
        await this.#take("close");
        return 1;
      },
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #take(what: "open" | "flush" | "close"): Promise<void> {
    const staged = this.next[what];
    delete this.next[what];
    await staged;
  }
}

function failing(code: ErrorCode): Promise<never> {
  const failure = Promise.reject(new TaskdError(code, `staged ${code}`));
  failure.catch(() => {});
  return failure;
}

async function codeOf(work: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(work, TaskdError)).code;
}

// conformance: 3.pending 3.exclusive
Deno.test("while a session is being opened it is pending, counts, and a second open is refused", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  const gate = Promise.withResolvers<void>();
  engine.next.open = gate.promise;
  const opening = sessions.open(ADDRESS);
  assertEquals(await sessions.infos(ANYWHERE), [{ ...ADDRESS, state: "pending" }]);
  assertEquals([sessions.size, sessions.openCount], [1, 0]);
  assertEquals(await codeOf(() => sessions.open(ADDRESS)), "lease_held");
  assertEquals(await codeOf(async () => await sessions.require(ADDRESS).flush()), "no_session");
  gate.resolve();
  await opening;
  assertEquals([sessions.size, sessions.openCount], [1, 1]);
  assertEquals((await sessions.infos(ANYWHERE)).map(({ state }) => state), ["active"]);
});

Deno.test("an open that fails leaves no entry behind", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  engine.next.open = failing("not_found");
  assertEquals(await codeOf(() => sessions.open(ADDRESS)), "not_found");
  assertEquals(sessions.size, 0);
});

Deno.test("a session whose last flush fails stays open; closing it again works", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  await sessions.open(ADDRESS);
  engine.next.flush = failing("unavailable");
  assertEquals(await codeOf(() => sessions.close(ADDRESS)), "unavailable");
  assertEquals(sessions.size, 1);
  assertEquals(await sessions.close(ADDRESS), { ...ADDRESS, txid: 1 });
  assertEquals(sessions.size, 0);
});

Deno.test("close abandons a failed session and answers why it had failed", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  await sessions.open(ADDRESS);
  engine.error = { code: "fenced", message: "the lease was lost" };
  engine.next.close = failing("fenced");
  assertEquals(await sessions.close(ADDRESS), { ...ADDRESS, error: engine.error });
  assertEquals(sessions.size, 0);
});

Deno.test("closedFor() opens the session again whether the work succeeds or fails", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  await sessions.open(ADDRESS);
  const done = await sessions.closedFor(ADDRESS, "roll back", () => {
    assertEquals(sessions.size, 0);
    return Promise.resolve({ txid: 7 });
  });
  assertEquals([done.txid, done.session.epoch, sessions.size], [7, 2, 1]);
  assertEquals(await codeOf(() => sessions.closedFor(ADDRESS, "roll back", () => failing("conflict"))), "conflict");
  assertEquals([engine.opens, sessions.size], [3, 1]);
});

Deno.test("closedFor() reports that the work was done when only the session could not reopen", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  await sessions.open(ADDRESS);
  engine.next.open = failing("busy");
  const error = await assertRejects(
    () => sessions.closedFor(ADDRESS, "roll back", () => Promise.resolve({})),
    TaskdError,
  );
  assertEquals([error.code, error.message], [
    "session_failed",
    "It was done; and the session could not be opened again: staged busy",
  ]);
});

Deno.test("a session that could not be opened again is listed in error until it is opened or closed", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  const failed = { code: "busy", message: "It could not be opened again: staged busy" };
  const fail = async () => {
    await sessions.open(ADDRESS);
    engine.next.open = failing("busy");
    await codeOf(() => sessions.closedFor(ADDRESS, "roll back", () => Promise.resolve({})));
    assertEquals(await sessions.infos(ANYWHERE), [{ ...ADDRESS, state: "error", error: failed }]);
    assertEquals([sessions.size, sessions.has(ADDRESS)], [0, false]);
  };
  await fail();
  await sessions.open(ADDRESS);
  assertEquals((await sessions.infos(ANYWHERE)).map(({ state }) => state), ["active"]);
  await sessions.close(ADDRESS);
  await fail();
  assertEquals(await sessions.close(ADDRESS), { ...ADDRESS, error: failed });
  assertEquals([await sessions.infos(ANYWHERE), await codeOf(() => sessions.close(ADDRESS))], [[], "no_session"]);
});

Deno.test("closedFor() refuses a failed session, whose unflushed commits would be lost", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  await sessions.open(ADDRESS);
  engine.error = { code: "capture_failed", message: "staged" };
  assertEquals(
    await codeOf(() => sessions.closedFor(ADDRESS, "roll back", () => Promise.resolve({}))),
    "session_failed",
  );
  assertEquals(sessions.size, 1);
});

Deno.test("a session that cannot say how it is keeps no other's answer back", async () => {
  const engine = new StagedEngine();
  const sessions = new Sessions(engine);
  await sessions.open(ADDRESS);
  await sessions.open({ db: "app", branch: "side" });
  engine.mute.add(1);
  assertEquals((await sessions.infos(ANYWHERE)).map(({ state }) => state).sort(), ["active", "error"]);
});
