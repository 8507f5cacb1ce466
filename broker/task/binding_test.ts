import { assertEquals, assertNotEquals } from "@std/assert";
import * as v from "valibot";
import type { Json } from "./value_schemas.ts";
import { BINDING, type Binding, bindingDigest, gateContradiction } from "./binding.ts";

const PAGE = await Deno.readTextFile(new URL("../../docs/explanation/approval.md", import.meta.url));
const [, vector = ""] = /<!-- vector -->\s+```json\n([^]*?)```/.exec(PAGE) ?? [];
const VECTOR: Binding = v.parse(BINDING, JSON.parse(vector));
const ROW = { seq: VECTOR.record.rows + 1, prev: VECTOR.record.sha256 };
const GATE = { diff_sha256: bindingDigest(VECTOR), second_look: VECTOR.second_look, binding: VECTOR };

/** Every value with one member changed, added or taken away, at any depth. */
function* mutations(value: Json): Generator<Json> {
  if (typeof value === "string") yield* [`${value}0`, value.slice(1), value.toUpperCase() + " "];
  else if (typeof value === "number") yield* [value + 1, value - 1];
  else if (typeof value === "boolean") yield !value;
  else if (value === null) yield "null";
  else if (Array.isArray(value)) {
    yield [...value, "one more"];
    if (value.length > 1) yield value.toReversed();
    for (const [at, each] of value.entries()) {
      yield value.toSpliced(at, 1);
      for (const other of mutations(each)) yield value.with(at, other);
    }
  } else {
    yield { ...value, more: 1 };
    for (const [name, each] of Object.entries(value)) {
      yield Object.fromEntries(Object.entries(value).filter(([other]) => other !== name));
      for (const other of mutations(each)) yield { ...value, [name]: other };
    }
  }
}

Deno.test("the digest of the documented binding is the documented one, to Python as well", async () => {
  assertEquals(/has the digest `([0-9a-f]{64})`/.exec(PAGE)?.[1], bindingDigest(VECTOR));
  const command = /^ {4}python3 -c [^]*?'$/m.exec(PAGE)![0].replaceAll(/^ {4}/gm, "");
  const child = new Deno.Command("/bin/sh", { args: ["-c", command], stdin: "piped", stdout: "piped" }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(vector));
  await writer.close();
  assertEquals(new TextDecoder().decode((await child.output()).stdout).trim(), bindingDigest(VECTOR));
});

Deno.test("whatever is changed of a binding changes its digest, and no two changes share one", () => {
  const seen = new Map([[bindingDigest(VECTOR), JSON.stringify(VECTOR)]]);
  for (const other of mutations(VECTOR)) {
    const text = JSON.stringify(other);
    const digest = bindingDigest(other as unknown as Binding);
    assertEquals(seen.get(digest) ?? text, text);
    seen.set(digest, text);
  }
  assertEquals(seen.size > 100, true);
});

Deno.test("the order of a binding's members does not change its digest", () => {
  const turned = Object.fromEntries(Object.entries(VECTOR).toReversed()) as unknown as Binding;
  assertNotEquals(JSON.stringify(turned), JSON.stringify(VECTOR));
  assertEquals(bindingDigest(turned), bindingDigest(VECTOR));
});

Deno.test("a gate that contradicts its binding or the rows before it is found out", () => {
  assertEquals(gateContradiction(GATE, ROW), undefined);
  const wrong = [
    gateContradiction({ ...GATE, diff_sha256: "0".repeat(64) }, ROW),
    gateContradiction({ ...GATE, binding: { ...VECTOR, tree: "4".repeat(40) } }, ROW),
    gateContradiction({ ...GATE, second_look: ["lockfile"] }, ROW),
    gateContradiction(GATE, { ...ROW, seq: ROW.seq + 1 }),
    gateContradiction(GATE, { ...ROW, prev: "0".repeat(64) }),
  ];
  assertEquals(wrong.map((problem) => typeof problem), wrong.map(() => "string"));
});
