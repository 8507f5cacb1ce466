import { assertEquals } from "@std/assert";
import { sha256Hex } from "../../lib/sha256.ts";
import { canonicalJson, type JsonLike } from "../../lib/text/canonical_json.ts";
import { type Binding, bindingDigest } from "./binding.ts";
import { type AnsweredTask, isShown } from "./shown.ts";

const SHOWN = new TextEncoder().encode("diff --git a/x b/x\n");
const OTHER = new TextEncoder().encode("diff --git a/y b/y\n");
const BRIEF = { flags: [{ category: "lockfile", count: 1 }], spend: null };
const brief_sha256 = sha256Hex(canonicalJson(BRIEF));
const facts = { task_id: "a", second_look: ["lockfile"], shown_sha256: sha256Hex(SHOWN), brief_sha256 };
const binding = facts as unknown as Binding;
const gate = { diff_sha256: bindingDigest(binding), second_look: ["lockfile"], binding };
const shows = (task: AnsweredTask, diff = SHOWN, brief: JsonLike | undefined = BRIEF) =>
  isShown(task, { diff, brief }, sha256Hex);

Deno.test("what a gate binds is shown, and nothing that a broker changes in its answer", async () => {
  assertEquals(await shows({ gate, evidence: {} }), true);
  const forged = { ...binding, shown_sha256: sha256Hex(OTHER) };
  const answers: [AnsweredTask["gate"], Uint8Array<ArrayBuffer>][] = [
    [gate, OTHER],
    [{ ...gate, binding: forged }, OTHER],
    [{ ...gate, binding: { ...binding, task_id: "b" } }, SHOWN],
    [{ ...gate, diff_sha256: "0".repeat(64) }, SHOWN],
    [{ ...gate, second_look: [] }, SHOWN],
  ];
  for (const [answered, bytes] of answers) assertEquals(await shows({ gate: answered!, evidence: {} }, bytes), false);
  const turned = { spend: null, flags: BRIEF.flags };
  assertEquals(await shows({ gate, evidence: {} }, SHOWN, turned), true);
  for (const edited of [null, {}, { ...BRIEF, flags: [] }, { ...BRIEF, spend: 0 }, { ...BRIEF, more: "" }]) {
    assertEquals(await shows({ gate, evidence: {} }, SHOWN, edited), false);
  }
  assertEquals(await isShown({ gate, evidence: {} }, { diff: SHOWN, brief: undefined }, sha256Hex), false);
});

Deno.test("a gate without a binding goes by the digests that were recorded with the change", async () => {
  const { binding: _, ...old } = gate;
  const change = { shown_sha256: sha256Hex(SHOWN), diff_sha256: gate.diff_sha256 };
  assertEquals(await shows({ gate: old, evidence: { change } }), true);
  assertEquals(await shows({ evidence: { change } }), true);
  for (const other of [null, [], {}, { ...change, diff_sha256: "e" }, { ...change, shown_sha256: "e" }]) {
    assertEquals(await shows({ gate: old, evidence: { change: other } }), false);
  }
});
