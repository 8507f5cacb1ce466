import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Application } from "../../tests/support/application.ts";
import { commit, QUERY } from "../../tests/support/rot.ts";
import { at, fails, makeDatabase, openAt, rows, withDirectory } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";

/**
 * What an application that has the checkout open is at while its branch is repaired. Where its log no longer has the head,
 * nothing proves that: the branch goes back, and the file keeps what it has.
 */
const BESIDE: Record<string, { before: string; after: string; lost?: true }> = {
  "is idle": { before: "INSERT INTO t VALUES('edit')", after: "INSERT INTO t VALUES('later')" },
  "folded its log": {
    before: "INSERT INTO t VALUES('edit'); PRAGMA wal_checkpoint(TRUNCATE)",
    after: "INSERT INTO t VALUES('later')",
    lost: true,
  },
  "reads": {
    before: "INSERT INTO t VALUES('edit'); BEGIN; SELECT count(*) FROM t",
    after: "COMMIT; INSERT INTO t VALUES('later')",
  },
  "writes": { before: "BEGIN IMMEDIATE; INSERT INTO t VALUES('edit')", after: "INSERT INTO t VALUES('later'); COMMIT" },
};

Deno.test("repair beside an application leaves its file, its commits, and a sound branch", async (t) => {
  for (const [name, { before, after, lost }] of Object.entries(BESIDE)) {
    await t.step(`that ${name}`, () =>
      withDirectory(async (directory) => {
        makeDatabase(`${directory}/source.db`, "begin");
        const root = `${directory}/store`;
        using store = await openAt(root);
        await store.create("app", { from: `${directory}/source.db` });
        for (const value of ["one", "two"]) await commit(store, "main", value);
        const { path } = await store.checkout(at("app"));
        const { ref } = await store.context.refs.read("app", "main");
        const head = (await store.context.chains.resolve(ref.lineage, ref.txid)).objects.at(-1)!.key;
        const application = new Application(path);
        try {
          await application.run(before);
          const { ino } = Deno.statSync(path);
          Deno.writeFileSync(`${root}/${head}`, new Uint8Array(Deno.statSync(`${root}/${head}`).size));
          const { restored, moved, left } = await store.repair({ branch: at("app") });
          assertEquals([restored.length, moved.length, left], lost ? [0, 1, []] : [1, 0, []]);
          assertEquals((await store.verify(at("app"))).findings, []);
          await application.run(after);
          const open = () => CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 4 });
          if (lost) {
            assertEquals((await store.status(at("app"))).state, "detached");
            const { hint } = await fails("dirty", open());
            assertStringIncludes(hint!, "sqlite3 .backup");
            assert(moved[0]!.safety_branch !== undefined);
          } else {
            const session = await open();
            assertEquals(session.recovery?.outcome, "adopted");
            await session.close();
            await store.export(at("app"), `${directory}/out.db`);
            assertEquals(rows(`${directory}/out.db`, QUERY), "begin,one,two,edit,later");
          }
          assertEquals([Deno.statSync(path).ino, rows(path, QUERY)], [ino, "begin,one,two,edit,later"]);
        } finally {
          await application.end();
        }
      }));
  }
});
