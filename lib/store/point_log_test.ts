import { assert, assertEquals } from "@std/assert";
import { loggedPoints, MAX_LOG_CHARS, withPoint } from "./point_log.ts";
import { decodeRef, encodeRef, type Ref } from "./ref.ts";

const START = Date.UTC(2026, 0, 1);
const [LINEAGE, OTHER] = ["a".repeat(32), "b".repeat(32)];
const ref = (txid: number, s: number, lineage = LINEAGE): Ref => ({
  schema: 1,
  lineage,
  txid,
  epoch: 2,
  digest: "0".repeat(16),
  checkpoints: [],
  touched_at: new Date(START + s * 1000).toISOString(),
  nonce: "00",
});
const texts = (of: Ref) =>
  loggedPoints(of).reverse().map(({ lineage, txid, at_ms, op = "" }) =>
    `${lineage[0]}${txid} ${(at_ms - START) / 1000} ${op}`
  );
const move = (from: Ref, to: Ref, op?: string) =>
  decodeRef(encodeRef(withPoint(from, { ...to, ...(from.points ? { points: from.points } : {}) }, op)), "db@b");

Deno.test("each move of a head is noted with its time, in any lineage; a ref reads them back", () => {
  assertEquals(texts(ref(1, 0)), ["a1 0 "]);
  const second = move(ref(1, 0), ref(3, 30));
  assertEquals(texts(second), ["a1 0 ", "a3 30 "]);
  assertEquals(withPoint(second, { ...second, touched_at: ref(3, 99).touched_at }).points, second.points);
  const back = move(second, ref(1, 60, OTHER), "rollback");
  // A clock that was set back is no reason to lose a point.
  const later = move(back, ref(2, 50, OTHER));
  assertEquals(texts(later), ["a1 0 ", "a3 30 ", "b1 60 rollback", "b2 50 "]);
});

Deno.test("a head that was moved by a program that notes nothing is a point all the same", () => {
  const second = move(ref(1, 0), ref(2, 30));
  const moved = { ...second, txid: 5, touched_at: ref(5, 60).touched_at };
  assertEquals(texts(moved), ["a1 0 ", "a2 30 ", "a5 60 "]);
  assertEquals(texts(move(moved, ref(6, 90))), ["a1 0 ", "a2 30 ", "a5 60 ", "a6 90 "]);
});

Deno.test("a ref that is moved often stays small, and its points reach back to the beginning", () => {
  let now = ref(1, 0);
  for (let i = 2; i <= 20_000; i++) {
    now = withPoint(now, { ...ref(i, i * 30), ...(now.points ? { points: now.points } : {}) });
  }
  const points = loggedPoints(now).reverse();
  assert(points.length > 4000, String(points.length));
  assertEquals([points[0]!.txid, points.at(-1)!.txid], [1, 20_000]);
  // The last hours are whole.
  assertEquals(points.slice(-256).map(({ txid }) => txid), Array.from({ length: 256 }, (_, i) => 20_000 - 255 + i));
  const bytes = encodeRef(now).length;
  assert(bytes < MAX_LOG_CHARS + 400, `${bytes} bytes`);
});

Deno.test("a branch that is rolled back again and again forgets the oldest of it", () => {
  let now = ref(1, 0);
  for (let i = 2; i <= 1500; i++) {
    const lineage = (i % 50).toString(16).padStart(32, "0");
    now = withPoint(now, { ...ref(i, i, lineage), ...(now.points ? { points: now.points } : {}) }, "rollback");
  }
  const points = loggedPoints(now);
  assertEquals(points.slice(0, 50).map(({ txid }) => txid), Array.from({ length: 50 }, (_, i) => 1500 - i));
  assertEquals(points[1]!.lineage, (1499 % 50).toString(16).padStart(32, "0"));
  assertEquals(texts(decodeRef(encodeRef(now), "db@b")), texts(now));
  const bytes = encodeRef(now).length;
  assert(bytes < 3 * MAX_LOG_CHARS, `${bytes} bytes`);
});
