/**
 * Who may use the web pages: one-time codes, which only the unix socket answers, and the sessions that they begin.
 *
 * - A code opens the pages once, within {@linkcode CODE_MS}: the address that has it, which browsers write to their
 *   history, is worth nothing afterwards.
 * - A session ends {@linkcode SESSION_IDLE_MS} after its last request when no stream of it is open,
 *   {@linkcode SESSION_MS} after it began, and with the broker. Its streams end with it.
 * - Of codes and tokens only the SHA-256 is kept. Their number is bounded: the oldest code goes, and the session that
 *   was not used for the longest time.
 *
 * Time is measured by the clock of the machine and by the wall clock, and the later one counts: the first stands still
 * while the machine sleeps, the second may be set back.
 */

import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { bearerOf } from "../../lib/http/bearer.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** Milliseconds in which a code can be used. */
export const CODE_MS = 60_000;
/** Codes that are not used yet. */
export const MAX_CODES = 16;
/** Milliseconds without a request or an open stream after which a session ends. */
export const SESSION_IDLE_MS = 30 * 60_000;
/** Milliseconds after which a session ends in any case: a working day. */
export const SESSION_MS = 12 * 3_600_000;
export const MAX_SESSIONS = 32;
/** Between two looks for sessions that are over; each request looks for itself. */
const CHECK_MS = 60_000;
/** Random bytes of a code, and of a token. */
const SECRET_BYTES = 32;

/** A moment on both clocks, in milliseconds. */
interface Moment {
  monotonic_ms: number;
  wall_ms: number;
}

export class PageSession {
  readonly begun: Moment;
  /** When the last request came. */
  used: Moment;
  /** How many streams of it are open. */
  streams = 0;
  readonly #now: () => Moment;
  readonly #ending = new AbortController();

  constructor(now: () => Moment) {
    this.#now = now;
    this.begun = this.used = now();
  }

  /** Aborted when it ends. */
  get ended(): AbortSignal {
    return this.#ending.signal;
  }

  use(): void {
    this.used = this.#now();
  }

  /** A stream is open until the returned function is called. */
  hold(): () => void {
    this.streams++;
    return () => {
      this.streams--;
      this.use();
    };
  }

  end(): void {
    this.#ending.abort();
  }
}

export class PageSessions {
  readonly #clock: Clock;
  readonly #random: RandomBytes;
  /** When they were made, by the SHA-256 of the code; the oldest first. */
  readonly #codes = new Map<string, Moment>();
  /** By the SHA-256 of the token: to find out how far a guess agrees with one says nothing of the token. */
  readonly #sessions = new Map<string, PageSession>();
  readonly #closing = new AbortController();
  #checking = false;

  constructor({ clock, random }: { clock: Clock; random: RandomBytes }) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Makes a code that begins one session. */
  mintCode(): string {
    const code = randomHex(this.#random, SECRET_BYTES);
    for (const [known, made] of this.#codes) {
      if (this.#codes.size >= MAX_CODES || this.#age(made) > CODE_MS) this.#codes.delete(known);
    }
    this.#codes.set(sha256Hex(code), this.#now());
    return code;
  }

  /** Begins a session with the code of an Authorization header. Returns its token, or undefined when the code is not valid. */
  begin(authorization: string | null): string | undefined {
    const code = hashOf(authorization);
    const made = this.#codes.get(code);
    if (made === undefined) return undefined;
    // Whatever comes of it: a code is looked at once.
    this.#codes.delete(code);
    if (this.#age(made) > CODE_MS) return undefined;
    while (this.#sessions.size >= MAX_SESSIONS) this.end(this.#leastUsed());
    const token = randomHex(this.#random, SECRET_BYTES);
    this.#sessions.set(sha256Hex(token), new PageSession(() => this.#now()));
    if (!this.#checking) void this.#check();
    return token;
  }

  /** The session whose token an Authorization header presents, which counts as its use. */
  enter(authorization: string | null): PageSession | undefined {
    const session = this.#sessions.get(hashOf(authorization));
    if (session === undefined) return undefined;
    if (this.#isOver(session)) {
      this.end(session);
      return undefined;
    }
    session.use();
    return session;
  }

  end(session: PageSession): void {
    for (const [hash, known] of this.#sessions) if (known === session) this.#sessions.delete(hash);
    session.end();
  }

  /** Ends all of them. */
  close(): void {
    this.#closing.abort();
    this.#codes.clear();
    for (const session of this.#sessions.values()) session.end();
    this.#sessions.clear();
  }

  #now(): Moment {
    return { monotonic_ms: this.#clock.monotonic(), wall_ms: this.#clock.now() };
  }

  #age({ monotonic_ms, wall_ms }: Moment): number {
    const now = this.#now();
    return Math.max(now.monotonic_ms - monotonic_ms, now.wall_ms - wall_ms);
  }

  #isOver({ begun, used, streams }: PageSession): boolean {
    return this.#age(begun) > SESSION_MS || streams === 0 && this.#age(used) > SESSION_IDLE_MS;
  }

  /** Without an open stream if there is one. */
  #leastUsed(): PageSession {
    const first = (a: PageSession, b: PageSession) =>
      Number(a.streams > 0) - Number(b.streams > 0) || a.used.monotonic_ms - b.used.monotonic_ms;
    return [...this.#sessions.values()].sort(first)[0]!;
  }

  /** Ends those that are over while nothing is asked: their streams would go on. */
  async #check(): Promise<void> {
    this.#checking = true;
    try {
      while (this.#sessions.size > 0) {
        await this.#clock.sleep(CHECK_MS, this.#closing.signal);
        for (const session of this.#sessions.values()) if (this.#isOver(session)) this.end(session);
      }
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error;
    } finally {
      this.#checking = false;
    }
  }
}

function hashOf(authorization: string | null): string {
  return sha256Hex(bearerOf(authorization) ?? "");
}
