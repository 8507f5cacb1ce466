import { assert, assertEquals } from "@std/assert";
import { CaptureSession } from "../../lib/capture/session.ts";
import { hasCode } from "../../lib/errors.ts";
import { at, makeDatabase, openAt, sql, stored, withDirectory } from "../support/stores.ts";
import { dataKeys, neededKeys } from "../support/histories.ts";

Deno.test("a live session, its forks and checkpoints lose nothing to passes without any grace", async () => {
  await withDirectory(async (directory) => {
    using store = await openAt(directory);
    const collect = () => store.collectGarbage({ grace_ms: 0 });
    makeDatabase(`${directory}/seed.db`, "0");
    await store.create("app", { from: `${directory}/seed.db` });
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 3 });
    const expected = new Map<string, string>();
    let content = "0";
    let deleted = 0;
    for (let round = 1; round <= 12; round++) {
      sql(session.checkout, `INSERT INTO t VALUES('${round}')`);
      content += `,${round}`;
      const [, pass] = await Promise.all([session.flush(), collect()]);
      deleted += pass.deleted;
      if (round % 4 === 1) {
        await session.checkpoint(`c${round}`);
        expected.set(`app@main@c${round}`, content);
      }
      if (round % 3 === 0) {
        const forking = store.fork(at("app"), `f${round}`).then(() => expected.set(`app@f${round}`, content));
        // A fork whose brand-new lineage is taken for garbage says so, and can be repeated.
        const conflict = (error: unknown) => assert(hasCode(error, "conflict"), String(error));
        await Promise.all([forking.catch(conflict), collect().then((pass) => deleted += pass.deleted)]);
      }
    }
    await session.close();
    await store.rollback(at("app@main@c5"), { safety: false });
    expected.set("app@main", expected.get("app@main@c5")!);
    for (let pass = 0; pass < 3; pass++) deleted += (await collect()).deleted;
    for (const [address, rows] of expected) assertEquals(await stored(store, address), rows, address);
    assert(deleted > 0 && expected.size > 4, `${deleted} deleted, ${expected.size} points`);
    assertEquals(new Set(await dataKeys(store.context.backend)), await neededKeys(store));
  });
});
