/**
 * The session map: at most one entry for each branch, from the moment an open begins.
 *
 * Callers of methods that change a branch hold the branch's lock (lib/keyed_mutex.ts).
 */

import { asKnownError, hasCode, messageOf, TaskdError } from "../lib/errors.ts";
import type { CloseAnswer, OpenAnswer, SessionInfo } from "../lib/protocol/messages.ts";
import { type Address, formatAddress } from "../lib/store/names.ts";
import type { EngineSession, StoreEngine } from "./store_engine.ts";

type Entry = { address: Address; session: EngineSession | "pending" };

/** What can close a session and open it again by itself. */
const REOPENING: ReadonlySet<string> = new Set(["roll back", "promote onto", "reset", "undo an operation on"]);

export class Sessions {
  readonly #engine: StoreEngine;
  readonly #entries = new Map<string, Entry>();
  /** Sessions that should be open and are not: an operation closed them and could not open them again. */
  readonly #unopened = new Map<string, SessionInfo>();

  constructor(engine: StoreEngine) {
    this.#engine = engine;
  }

  /** Sessions that are open or being opened. */
  get size(): number {
    return this.#entries.size;
  }

  get openCount(): number {
    let count = 0;
    for (const { session } of this.#entries.values()) if (session !== "pending") count++;
    return count;
  }

  addresses(): Address[] {
    return [...this.#entries.values()].map((entry) => entry.address);
  }

  /** Whether the branch has a session, open or being opened. */
  has(address: Address): boolean {
    return this.#entries.has(keyOf(address));
  }

  live(address: Address): EngineSession | undefined {
    const session = this.#entries.get(keyOf(address))?.session;
    return session === "pending" ? undefined : session;
  }

  /** The open session of a branch; `no_session` when there is none. */
  require(address: Address): EngineSession {
    const session = this.live(address);
    if (session !== undefined) return session;
    const text = formatAddress(address);
    throw new TaskdError("no_session", `There is no open session of ${text}`, {
      hint: `Open one with: taskd session open ${text}`,
    });
  }

  /** Refuses what cannot be done under a session: `lease_held`, naming its holder. */
  refuseLive(address: Address, attempted: string): void {
    const entry = this.#entries.get(keyOf(address));
    if (entry === undefined) return;
    const text = formatAddress(address);
    if (entry.session === "pending") {
      throw new TaskdError("lease_held", `Cannot ${attempted} ${text}: a session of it is being opened`, {
        hint: "Try again in a moment",
      });
    }
    if (entry.session.lost !== undefined) {
      throw new TaskdError("session_failed", `Cannot ${attempted} ${text}: ${entry.session.lost.message}`, {
        hint: `Close it first: taskd session close ${text}`,
      });
    }
    const { holder } = entry.session.opened;
    const reopen = REOPENING.has(attempted) ? ", or add --reopen" : "";
    const hint = attempted === "open"
      ? `taskd path ${text} prints its file`
      : `Close it first: taskd session close ${text}${reopen}`;
    throw new TaskdError("lease_held", `Cannot ${attempted} ${text}: this daemon's session ${holder} holds it`, {
      hint,
    });
  }

  /** Opens a session; `lease_held` when there is one. */
  async open(address: Address): Promise<OpenAnswer> {
    this.refuseLive(address, "open");
    const key = keyOf(address);
    this.#entries.set(key, { address, session: "pending" });
    try {
      const session = await this.#engine.openSession(address);
      this.#entries.set(key, { address, session });
      this.#unopened.delete(key);
      return session.opened;
    } catch (error) {
      this.#entries.delete(key);
      throw error;
    }
  }

  /**
   * Flushes and closes a session. A session that had failed is abandoned, and the answer has the reason; one whose last
   * flush fails stays open, so that the flush can be tried again. One that could not be opened again is forgotten.
   */
  async close(address: Address): Promise<CloseAnswer> {
    const { db, branch } = address;
    const unopened = this.#unopened.get(keyOf(address));
    if (this.forget(address) && unopened?.error !== undefined) return { db, branch, error: unopened.error };
    const session = this.require(address);
    const failed = await failureOf(session);
    if (failed === undefined) {
      await session.flushPending();
      try {
        return { db, branch, txid: await session.close() };
      } finally {
        this.#entries.delete(keyOf(address));
      }
    }
    await session.close().catch(() => {});
    this.#entries.delete(keyOf(address));
    return { db, branch, error: failed };
  }

  /** Expects no session of the branch any more, if one could not be opened again. */
  forget(address: Address): boolean {
    return this.#unopened.delete(keyOf(address));
  }

  /**
   * Closes the session of a branch, does `work`, and opens it again, also when the work failed: the application had a
   * session before. When that fails the session stays in the list, in error, until it is opened or closed. A session that
   * had failed is not closed, since the work would leave behind what it did not flush.
   */
  async closedFor<T>(address: Address, what: string, work: () => Promise<T>): Promise<T & { session: OpenAnswer }> {
    const failed = await failureOf(this.require(address));
    if (failed !== undefined) {
      throw new TaskdError("session_failed", `Cannot ${what} ${formatAddress(address)}: ${failed.message}`, {
        hint: `Close it first: taskd session close ${formatAddress(address)}`,
      });
    }
    await this.close(address);
    const [done] = await Promise.allSettled([work()]);
    const [opened] = await Promise.allSettled([this.open(address)]);
    if (done.status === "fulfilled" && opened.status === "fulfilled") return { ...done.value, session: opened.value };
    if (opened.status === "fulfilled") throw (done as PromiseRejectedResult).reason;
    this.#unopened.set(keyOf(address), unopenedInfo(address, opened.reason));
    const outcome = done.status === "fulfilled" ? "It was done" : `It was not done: ${messageOf(done.reason)}`;
    throw new TaskdError(
      "session_failed",
      `${outcome}; and the session could not be opened again: ${messageOf(opened.reason)}`,
      { cause: opened.reason, hint: `Open it with: taskd session open ${formatAddress(address)}` },
    );
  }

  /** What `status` reports of each session that `matches`, sorted. */
  async infos(matches: (address: Address) => boolean): Promise<SessionInfo[]> {
    const entries = [...this.#entries.values()].filter((entry) => matches(entry.address));
    const infos = [...await Promise.all(entries.map(infoOf)), ...[...this.#unopened.values()].filter(matches)];
    return infos.filter((info) => info !== undefined).sort((a, b) =>
      a.db < b.db || (a.db === b.db && a.branch < b.branch) ? -1 : 1
    );
  }

  /** What `status` reports of a branch's session; undefined when it has none. */
  async info(address: Address): Promise<SessionInfo | undefined> {
    const entry = this.#entries.get(keyOf(address));
    return entry === undefined ? undefined : await infoOf(entry);
  }
}

/** A branch's key in the session map and among the locks. */
export function keyOf({ db, branch }: Address): string {
  return `${db}@${branch}`;
}

function unopenedInfo({ db, branch }: Address, reason: unknown): SessionInfo {
  const { code, message } = asKnownError(reason) ?? { code: "internal" as const, message: messageOf(reason) };
  return { db, branch, state: "error", error: { code, message: `It could not be opened again: ${message}` } };
}

async function infoOf({ address: { db, branch }, session }: Entry): Promise<SessionInfo | undefined> {
  if (session === "pending") return { db, branch, state: "pending" };
  try {
    return await session.status();
  } catch (error) {
    // It was closed while it was asked.
    if (session.lost === undefined && hasCode(error, "no_session")) return undefined;
    // What one session cannot answer keeps no other's answer back.
    const { code, message } = session.lost ?? asKnownError(error) ??
      { code: "internal" as const, message: messageOf(error) };
    const { checkout, epoch, holder } = session.opened;
    return { db, branch, checkout, epoch, holder, state: "error", error: { code, message } };
  }
}

async function failureOf(session: EngineSession): Promise<CloseAnswer["error"]> {
  if (session.lost !== undefined) return { code: session.lost.code, message: session.lost.message };
  const status = await session.status();
  if (status.state !== "error") return undefined;
  return status.error ?? { code: "session_failed", message: "The session failed" };
}
