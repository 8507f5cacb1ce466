import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { TaskdError } from "../errors.ts";
import { parseObjectKey, parseRefKey, refKey, segmentKey, snapshotKey } from "./keys.ts";
import { formatAddress, formatTxid, parseAddress, parseName, parseTxid } from "./names.ts";

const GOOD = ["a", "main", "0", "_", "a.b", "a-b", "a_b.c-d", "constructor", "__proto__", "con", "x".repeat(128)];
const BAD = [
  "",
  "-a",
  ".a",
  ".",
  "..",
  "a..b",
  "A",
  "ä",
  "a b",
  "a/b",
  "a\\b",
  "a@b",
  "~a",
  "a\n",
  "a\0",
  "a%2e",
  "x".repeat(129),
];

Deno.test("names are exactly what the rule allows", () => {
  for (const name of GOOD) assertEquals(parseName(name, "branch"), name);
  for (const name of BAD) {
    assertEquals(assertThrows(() => parseName(name, "branch"), TaskdError).code, "invalid_name", JSON.stringify(name));
  }
});

Deno.test("a valid name stays inside its folder and comes back from its key", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 20 }), fc.constantFrom(...GOOD), (text, other) => {
      try {
        parseName(text, "database");
      } catch {
        return;
      }
      const key = refKey(text, other);
      assertEquals(key.split("/").length, 3);
      assertEquals(new URL(key, "file:///root/").pathname, `/root/${key}`);
      assertEquals(parseRefKey(key), { db: text, branch: other });
    }),
    { seed: 20260104, numRuns: 2000 },
  );
});

// conformance: 2.address
Deno.test("an address is read as it is written, and nothing else is an address", () => {
  assertEquals(parseAddress("app"), { db: "app", branch: "main" });
  for (const text of ["app@main", "app@b", "app@b@c", "constructor@__proto__@a..b".replace("..", ".")]) {
    assertEquals(formatAddress(parseAddress(text)), text);
  }
  for (const text of ["", "@", "a@", "@b", "a@b@", "a@@c", "a@b@c@d", "a b", "a@B"]) {
    assertEquals(assertThrows(() => parseAddress(text), TaskdError).code, "invalid_name", text);
  }
});

Deno.test("txids sort as their keys do and come back", () => {
  fc.assert(fc.property(fc.maxSafeNat(), fc.maxSafeNat(), (a, b) => {
    assertEquals(parseTxid(formatTxid(a)), a);
    assertEquals(formatTxid(a) < formatTxid(b), a < b);
  }));
  for (const text of ["", "1", "g".repeat(16), "F".repeat(16), "f".repeat(16), "0".repeat(17)]) {
    assertEquals(parseTxid(text), undefined, text);
  }
  for (const value of [-1, 0.5, NaN, 2 ** 53]) assertThrows(() => formatTxid(value), RangeError);
});

Deno.test("an object's key says what the object is; any other key says nothing", () => {
  const lineage = "0123456789abcdef0123456789abcdef";
  fc.assert(
    fc.property(fc.maxSafeNat(), fc.maxSafeNat(), fc.maxSafeNat(), fc.boolean(), (epoch, one, other, raw) => {
      const [first, last] = [Math.min(one, other), Math.max(one, other) + (one === other ? 1 : 0)];
      if (!Number.isSafeInteger(last)) return;
      const codec = raw ? "raw" : "zst";
      const snapshot = snapshotKey(lineage, epoch, last, codec);
      assertEquals(parseObjectKey(snapshot), {
        key: snapshot,
        lineage,
        epoch,
        kind: "snapshot",
        first: 0,
        last,
        codec,
      });
      const segment = segmentKey(lineage, epoch, first, last);
      assertEquals(parseObjectKey(segment), {
        key: segment,
        lineage,
        epoch,
        kind: "segment",
        first,
        last,
        codec: "zst",
      });
    }),
  );
  const good = segmentKey(lineage, 1, 2, 3);
  for (
    const key of [
      good + "x",
      "x" + good,
      good.replace("zst", "raw"),
      segmentKey(lineage, 1, 3, 3),
      `data/${lineage}/base.json`,
    ]
  ) {
    assertEquals(parseObjectKey(key), undefined, key);
  }
});

Deno.test("parseName() says how to write the end of an address that stands where a name belongs", () => {
  const hint = (text: string, what: "database" | "branch" | "checkpoint") =>
    assertThrows(() => parseName(text, what), TaskdError).hint;
  assertEquals(hint("shop@main", "branch"), "Write the name alone, main: the branch is in the same database");
  assertEquals(hint("shop@main@v1", "checkpoint"), "Write the name alone, v1: the checkpoint is in the same database");
  for (const [text, what] of [["shop@main", "database"], ["shop@\x1b", "branch"], ["Shop", "branch"]] as const) {
    assertStringIncludes(hint(text, what)!, "Names are 1-128 characters");
  }
});
