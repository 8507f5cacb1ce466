import { assert, assertEquals } from "@std/assert";
import { isLeafOf, leafBytes, nodeBytes, pageLeaf } from "../task/page_proof.ts";
import type { DatabaseRows } from "../task/row_pages.ts";
import { isPageShown } from "../task/shown.ts";
import { ChangesetWriter, proofOf } from "./changeset_file.ts";
import { sha256, sha256Hex } from "../../lib/sha256.ts";

/** MTH of RFC 6962, section 2.1, as it is written there. */
function mth(leaves: readonly string[]): Uint8Array {
  if (leaves.length < 2) return sha256(leaves.length === 0 ? "" : leafBytes(leaves[0]!));
  const half = 2 ** Math.ceil(Math.log2(leaves.length) - 1);
  return sha256(nodeBytes(mth(leaves.slice(0, half)), mth(leaves.slice(half))));
}

function withTree<T>(leaves: readonly string[], work: (path: string, tree: { root: string; leaves: number }) => T): T {
  const path = Deno.makeTempFileSync();
  Deno.removeSync(path);
  const writer = new ChangesetWriter(path);
  for (const leaf of leaves) writer.add(leaf);
  const tree = writer.finish();
  try {
    return work(path, tree);
  } finally {
    Deno.removeSync(path);
  }
}

Deno.test("a tree in a file is that of RFC 6962, at every size", () => {
  for (const count of [...Array(70).keys(), 2_047, 2_048, 2_049, 4_097, 5_000]) {
    const leaves = Array.from({ length: count }, (_, at) => `leaf ${at}`);
    withTree(leaves, (_path, tree) => assertEquals(tree, { root: mth(leaves).toHex(), leaves: count }, `${count}`));
  }
  // The vectors of certificate transparency's own tests.
  withTree([], (_path, { root }) => {
    assertEquals(root, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  });
  withTree([""], (_path, { root }) => {
    assertEquals(root, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
  });
});

Deno.test("a proof holds for its leaf at its place in its tree, and for nothing else", async () => {
  for (let count = 1; count <= 19; count++) {
    const leaves = Array.from({ length: count }, (_, at) => `leaf ${at}`);
    for (const [index, leaf] of leaves.entries()) {
      const [tree, proof, none] = withTree(
        leaves,
        (path, tree) => [tree, proofOf(path, leaf, count)!, proofOf(path, "none", count)],
      );
      const isIn = (content: string, changed = {}, of = tree) =>
        isLeafOf(of, content, { ...proof, ...changed }, sha256Hex);
      assert(await isIn(leaf));
      assert(proof.path.length <= Math.ceil(Math.log2(count)));
      assertEquals(none, undefined);
      assert(!await isIn(leaf, {}, { ...tree, root: sha256Hex("") }));
      for (const content of [`${leaf} `, "", ...leaves.toSpliced(index, 1)]) assert(!await isIn(content));
      for (const other of [count, ...Array(count).keys()]) {
        if (other !== index) assert(!await isIn(leaf, { index: other }) || proof.path.length === 0);
      }
      for (let at = 0; at < proof.path.length; at++) {
        assert(!await isIn(leaf, { path: proof.path.with(at, sha256Hex("")) }));
        assert(!await isIn(leaf, { path: proof.path.toSpliced(at, 1) }));
        assert(!await isIn(leaf, { path: proof.path.toSpliced(at, 0, sha256Hex("")) }));
      }
    }
  }
});

Deno.test("a page holds as it is, and with no byte, row or place of another one", async () => {
  const row = (id: number) => ({ change: "added" as const, key: { id }, after: { id, name: `tea ${id}` } });
  const page = (number: number, next?: string) => ({ rows: [row(number), row(number + 1)], ...next && { next } });
  const [first, second] = [page(1, "r2"), page(3)];
  const leaves = [{ table: "a", ...first }, { table: "a", cursor: "r2", ...second }, { table: "b", ...page(5) }];
  const [changeset, proof] = withTree(
    leaves.map(pageLeaf),
    (path, tree) => [tree, proofOf(path, pageLeaf(leaves[1]!), leaves.length)!],
  );
  const gate = { diff_sha256: "", second_look: [], binding: { databases: [{ db: "shop", result: { changeset } }] } };
  const holds = (query: object, answer: object, at: object = gate) =>
    isPageShown({ gate: at } as never, { database: "shop", table: "a", ...query }, answer as DatabaseRows, sha256Hex);
  const place = { cursor: "r2" };
  assert(await holds(place, { ...second, proof }));
  for (const query of [{}, { cursor: "r3" }, { ...place, table: "b" }]) {
    assert(!await holds(query, { ...second, proof }));
  }
  const text = JSON.stringify(second);
  for (let at = 0; at < text.length; at++) {
    for (const byte of ["1", "x", " ", ""]) {
      let changed: object;
      try {
        changed = JSON.parse(text.slice(0, at) + byte + text.slice(at + 1));
      } catch {
        continue;
      }
      if (JSON.stringify(changed) !== text) assert(!await holds(place, { ...changed, proof }), JSON.stringify(changed));
    }
  }
  const [one, two] = second.rows as [object, object];
  for (const rows of [[], [one], [two], [two, one], [one, two, two], [one, two, row(9)], first.rows]) {
    assert(!await holds(place, { rows, proof }), JSON.stringify(rows));
  }
  assert(!await holds(place, second), "without a proof");
  assert(!await holds(place, { ...second, next: "r4", proof }));
  const old = { ...gate, binding: { databases: [{ db: "shop", result: { txid: 1 } }] } };
  for (const before of [old, { diff_sha256: "", second_look: [] }]) assert(await holds(place, second, before));
});
