import { assert, assertEquals, assertNotEquals } from "@std/assert";
import {
  CODE_MS,
  MAX_CODES,
  MAX_SESSIONS,
  type PageSession,
  PageSessions,
  SESSION_IDLE_MS,
  SESSION_MS,
} from "../../../broker/http/page_sessions.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { sha256Hex } from "../../../lib/sha256.ts";
import { VirtualClock } from "../../support/clock.ts";

const CHECK_MS = 60_000;

/** Sessions over random bytes that count up. */
function open(): { sessions: PageSessions; clock: VirtualClock; begin(): string; enter(token: string): PageSession } {
  const clock = new VirtualClock();
  let made = 0;
  const random = (count: number) => new Uint8Array(count).fill(++made);
  const sessions = new PageSessions({ clock, random });
  const begin = () => sessions.begin(`Bearer ${sessions.mintCode()}`)!;
  const enter = (token: string) => {
    const session = sessions.enter(`Bearer ${token}`);
    assert(session !== undefined);
    return session;
  };
  return { sessions, clock, begin, enter };
}

Deno.test("a code begins one session, within its time, and a session is entered by its token alone", () => {
  const { sessions, clock } = open();
  const [code, late] = [sessions.mintCode(), sessions.mintCode()];
  assertEquals(code.length, 64);
  assertEquals(sessions.enter(`Bearer ${code}`), undefined);
  clock.advance(CODE_MS);
  const token = sessions.begin(`Bearer ${code}`);
  assert(token !== undefined && token.length === 64);
  assertEquals(sessions.begin(`Bearer ${code}`), undefined, "a second time");
  assertEquals(sessions.begin(`Bearer ${token}`), undefined, "a token is no code");
  assert(sessions.enter(`Bearer ${token}`) !== undefined);
  clock.advance(1);
  assertEquals(sessions.begin(`Bearer ${late}`), undefined, "too late");
  for (const wrong of [null, "", "Bearer", `Basic ${token}`, `Bearer ${token}x`, `Bearer ${sha256Hex(token)}`]) {
    assertEquals([sessions.begin(wrong), sessions.enter(wrong)], [undefined, undefined], String(wrong));
  }
  sessions.close();
});

Deno.test("a code is over by either clock: after a sleep, and when the wall clock is set back", () => {
  const { sessions, clock } = open();
  const [slept, back] = [sessions.mintCode(), sessions.mintCode()];
  clock.jump(CODE_MS + 1);
  assertEquals(sessions.begin(`Bearer ${slept}`), undefined);
  clock.jump(-10 * CODE_MS);
  clock.advance(CODE_MS + 1);
  assertEquals(sessions.begin(`Bearer ${back}`), undefined);
  sessions.close();
});

Deno.test("of too many codes the oldest is dropped", () => {
  const { sessions } = open();
  const codes = Array.from({ length: MAX_CODES + 1 }, () => sessions.mintCode());
  assertEquals(sessions.begin(`Bearer ${codes[0]}`), undefined);
  for (const code of codes.slice(1)) assert(sessions.begin(`Bearer ${code}`) !== undefined);
  sessions.close();
});

Deno.test("a session ends after its last use, and not while a stream of it is open", () => {
  const { sessions, clock, begin, enter } = open();
  const [used, streaming] = [begin(), begin()];
  const release = enter(streaming).hold();
  for (let at = 0; at < 3; at++) {
    clock.advance(SESSION_IDLE_MS);
    enter(used);
  }
  enter(streaming);
  clock.advance(SESSION_IDLE_MS + 1);
  assertEquals(sessions.enter(`Bearer ${used}`), undefined);
  release();
  clock.advance(SESSION_IDLE_MS);
  const last = enter(streaming);
  clock.jump(SESSION_IDLE_MS + 1);
  assertEquals(sessions.enter(`Bearer ${streaming}`), undefined, "the machine slept");
  assert(last.ended.aborted);
  sessions.close();
});

Deno.test("a session ends after its longest time with its streams, though nothing is asked", async () => {
  const { sessions, clock, begin, enter } = open();
  const session = enter(begin());
  session.hold();
  clock.advance(SESSION_MS);
  await clock.sleeper(CHECK_MS);
  assertEquals(session.ended.aborted, false);
  clock.advance(CHECK_MS);
  await nextTurn();
  assert(session.ended.aborted);
  await nextTurn();
  assertEquals(clock.sleepers, 0, "without sessions nothing is looked for");
  // The next one is watched again.
  enter(begin());
  assertEquals(clock.sleeping, [CHECK_MS]);
  sessions.close();
  await nextTurn();
  assertEquals(clock.sleepers, 0);
});

Deno.test("one session too many ends the one that was idle for the longest time", () => {
  const { sessions, clock, begin, enter } = open();
  const tokens = Array.from({ length: MAX_SESSIONS }, () => {
    clock.advance(1);
    return begin();
  });
  enter(tokens[0]!).hold();
  clock.advance(1);
  const third = enter(tokens[2]!);
  clock.advance(1);
  for (const token of tokens.slice(3).concat(tokens[1]!)) enter(token);
  begin();
  assert(third.ended.aborted);
  for (const token of [tokens[0]!, tokens[1]!]) enter(token);
  sessions.close();
});

Deno.test("end() ends one session, close() all of them and every code", () => {
  const { sessions, begin, enter } = open();
  const [one, other, code] = [begin(), begin(), sessions.mintCode()];
  const [first, second] = [enter(one), enter(other)];
  sessions.end(first);
  assertEquals([first.ended.aborted, second.ended.aborted], [true, false]);
  assertEquals(sessions.enter(`Bearer ${one}`), undefined);
  sessions.close();
  assert(second.ended.aborted);
  assertEquals([sessions.enter(`Bearer ${other}`), sessions.begin(`Bearer ${code}`)], [undefined, undefined]);
});

Deno.test("neither codes nor tokens are kept, only their digests", () => {
  const kept = new Set<string>();
  const set = Map.prototype.set;
  Map.prototype.set = function (key, value) {
    kept.add(String(key));
    return set.call(this, key, value);
  };
  try {
    const { sessions } = open();
    const code = sessions.mintCode();
    const token = sessions.begin(`Bearer ${code}`)!;
    assertNotEquals(code, token);
    assertEquals([code, token].map((secret) => kept.has(secret)), [false, false]);
    assertEquals([code, token].map((secret) => kept.has(sha256Hex(secret))), [true, true]);
    sessions.close();
  } finally {
    Map.prototype.set = set;
  }
});
