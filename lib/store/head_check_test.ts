import { assertEquals, assertMatch } from "@std/assert";
import { withApp } from "../../tests/support/stores.ts";
import { headTrouble } from "./head_check.ts";
import { parseObjectKey, snapshotKey } from "./keys.ts";

Deno.test("a head that was replaced, removed or preceded is not taken for its own content", () =>
  withApp([1, 2], async ({ store, faults }) => {
    const { backend } = store.context;
    const { ref } = await store.context.refs.read("app", "main");
    const head = { txid: ref.txid, digest: ref.digest, kind: "snapshot" as const };
    const trouble = (kind: "snapshot" | "segment" = "snapshot") => {
      return headTrouble(backend, ref.lineage, { ...head, kind });
    };
    assertEquals(await trouble(), undefined);
    assertMatch((await trouble("segment"))!, /^a snapshot of the same transaction sorts before the segment/);

    const objects = (await Array.fromAsync(backend.list("data/"))).map(({ key }) => parseObjectKey(key)!);
    const newest = objects.find(({ last }) => last === ref.txid)!;
    const bytes = (await backend.get(newest.key)).bytes;
    const other = (await backend.get(objects.find(({ last }) => last < ref.txid)!.key)).bytes;
    await backend.put(newest.key, other);
    assertMatch((await trouble())!, /^other content is there/);

    await backend.delete(newest.key);
    assertMatch((await trouble())!, /^it could not be verified: /);

    await backend.put(newest.key, bytes);
    faults.plan = ({ method }) => method === "getRange" ? { kind: "before", code: "unavailable" } : undefined;
    assertMatch((await trouble())!, /^it could not be verified: /);
    faults.plan = () => undefined;
    assertEquals(await trouble(), undefined);

    await backend.put(snapshotKey(ref.lineage, newest.epoch + 1, ref.txid, "zst"), other);
    assertMatch((await trouble())!, /^other content is there/);
  }));
