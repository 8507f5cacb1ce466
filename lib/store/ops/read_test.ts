import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { MIN_XFS_MB, mountReadOnlyView, whyNotMountable, withMount } from "../../../tests/support/mounts.ts";
import { at, fails, makeDatabase, openAt, rows, sql, withApp } from "../../../tests/support/stores.ts";
import { whyNoStrace } from "../../../tests/support/strace.ts";
import { CaptureSession } from "../../capture/session.ts";
import { imageIndexKey } from "../keys.ts";

const NO_XFS = await whyNotMountable("xfs");
const NO_STRACE = await whyNoStrace();

Deno.test("export() writes what is stored, and replaces a file only with force", () =>
  withApp([1, 2], async ({ store, directory, edit }) => {
    await edit("main", "unsaved");
    const file = `${directory}/out.db`;
    const { path, txid, size_bytes } = await store.export(at("app"), file);
    assertEquals([path, txid, size_bytes], [file, (await store.status(at("app"))).txid, Deno.statSync(file).size]);
    assertEquals([rows(file), Deno.statSync(file).mode! & 0o777], ["1,2", 0o600]);
    await fails("already_exists", store.export(at("app@main@c1"), file));
    assertEquals(rows(file), "1,2");
    await store.export(at("app@main@c1"), file, { force: true });
    assertEquals(rows(file), "1");
    await fails("not_found", store.export(at("app@main@none"), file, { force: true }));
    await fails("not_found", store.export(at("app"), `${directory}/none/out.db`));
    await fails("denied", store.export(at("app"), directory, { force: true }));
    const relative = await store.export(at("app"), `${"../".repeat(20)}${directory.slice(1)}/again.db`);
    assertEquals(relative.path, `${directory}/again.db`);
    Deno.symlinkSync(file, `${directory}/link`);
    await fails("denied", store.export(at("app"), `${directory}/link`, { force: true }));
    assertEquals([...Deno.readDirSync(directory)].filter(({ name }) => name.includes("partial")), []);
    assertEquals(rows(file), "1");
  }));

Deno.test("a log left beside the file that an export replaces never meets the new one", () =>
  withApp([1], async ({ store, directory }) => {
    const file = `${directory}/out.db`;
    makeDatabase(file, "old");
    const dead = new DatabaseSync(file);
    dead.exec("PRAGMA journal_mode=WAL; INSERT INTO t VALUES('dead')");
    for (const suffix of ["", "-wal"]) Deno.copyFileSync(file + suffix, `${directory}/kept${suffix}`);
    dead.close();
    for (const suffix of ["", "-wal"]) Deno.renameSync(`${directory}/kept${suffix}`, file + suffix);
    await store.export(at("app"), file, { force: true });
    assertEquals(rows(file), "1");
  }));

Deno.test("a log that another file of that name has left is not brought into an export, but named", () =>
  withApp([1], async ({ store, directory }) => {
    for (const suffix of ["-wal", "-journal"]) {
      const file = `${directory}/out${suffix}.db`;
      makeDatabase(file, "old");
      // As a process leaves it that is killed, and the file is removed then without its log.
      const dead = new DatabaseSync(file);
      dead.exec(suffix === "-wal" ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=PERSIST");
      dead.exec("INSERT INTO t VALUES('dead')");
      Deno.copyFileSync(file + suffix, `${directory}/kept`);
      dead.close();
      Deno.removeSync(file);
      Deno.renameSync(`${directory}/kept`, file + suffix);
      const error = await fails("already_exists", store.export(at("app"), file));
      assert(error.message.includes(`out${suffix}.db${suffix}`) && error.hint?.includes("--force"), error.message);
      await store.export(at("app"), file, { force: true });
      assertEquals([rows(file), Deno.statSync(file).mode! & 0o777], ["1", 0o600]);
      Deno.removeSync(file);
      Deno.writeTextFileSync(file + suffix, "");
      await store.export(at("app"), file);
      assertEquals(rows(file), "1");
    }
  }));

Deno.test("an export replaces none of the store's own files, not even by force", () =>
  withApp([1], async ({ store, directory, edit }) => {
    const checkout = await edit("main", "mine");
    const { key } = (await Array.fromAsync(store.context.backend.list("data/")))[0]!;
    const own = [checkout, `${directory}/${key}`, `${directory}/refs/app/main.json`, `${directory}/x/../bstore.json`];
    Deno.mkdirSync(`${directory}/links`);
    Deno.symlinkSync(directory, `${directory}/links/store`);
    Deno.symlinkSync(`${directory}/checkouts/app`, `${directory}/links/app`);
    const linked = [
      "links/store/checkouts/app/main.db",
      "links/app/main.db",
      "links/app/none.db",
      "links/app/none/x.db",
    ];
    for (const file of [...own, ...linked.map((path) => `${directory}/${path}`)]) {
      await fails("denied", store.export(at("app@main@c1"), file, { force: true }));
    }
    // Opened through a link, the store is still the same place.
    using linked_store = await openAt(`${directory}/links/store`);
    await fails("denied", linked_store.export(at("app@main@c1"), checkout, { force: true }));
    assertEquals(rows(checkout), "1,mine");
    assertEquals((await store.verify(at("app"))).ok, true);
  }, { on_disk: true }));

Deno.test("what an export that was cut off has left is named, and replaced by force", () =>
  withApp([1], async ({ store, directory }) => {
    const file = `${directory}/out.db`;
    Deno.writeTextFileSync(`${file}.partial`, "half");
    const error = await fails("already_exists", store.export(at("app"), file));
    assert(error.message.includes("out.db.partial") && error.hint?.includes("cut off"), error.message);
    assertEquals(Deno.readTextFileSync(`${file}.partial`), "half");
    await store.export(at("app"), file, { force: true });
    assertEquals(rows(file), "1");
  }));

Deno.test("an export that fails or is interrupted leaves the old file and nothing else", () =>
  withApp([1], async ({ store, directory, faults }) => {
    const file = `${directory}/out.db`;
    makeDatabase(file, "old");
    faults.plan = ({ method }) =>
      method === "getStream" ? { kind: "truncate", after_bytes: 50, code: "stalled" } : undefined;
    await fails("stalled", store.export(at("app"), file, { force: true }));
    faults.plan = ({ method }) => method === "getStream" ? { kind: "truncate", after_bytes: 50 } : undefined;
    await fails("corrupt", store.export(at("app"), file, { force: true }));
    faults.plan = () => undefined;
    await fails("interrupted", store.export(at("app"), file, { force: true, signal: AbortSignal.abort() }));
    assertEquals(rows(file), "old");
    assertEquals([...Deno.readDirSync(directory)].filter(({ name }) => name.startsWith("out.db")).length, 1);
  }));

Deno.test("diff() reports differences by page and by row, and equal content as identical", () =>
  withApp([1, 2], async ({ store }) => {
    await store.fork(at("app"), "same");
    assertEquals(await store.diff(at("app"), at("app@same")), {
      a: "app@main",
      b: "app@same",
      identical: true,
      pages_changed: 0,
      settings: [],
      definitions: [],
      tables: [],
      other_pages: [],
      problems: [],
    });
    // A name that no side has is no comparison, also where nothing differs.
    await store.compact(at("app@same"));
    for (const side of ["app", "app@same"]) {
      assertEquals((await store.diff(at("app"), at(side), { tables: ["t"] })).identical, true);
      await fails("not_found", store.diff(at("app"), at(side), { tables: ["T2"] }));
    }
    const { path } = await store.checkout(at("app@same"));
    sql(path, "UPDATE t SET v = 'two' WHERE v = '2'", "INSERT INTO t VALUES('3')", "CREATE TABLE u(v)");
    await store.checkpoint(at("app@same"), "changed");
    const { identical, pages_changed, tables } = await store.diff(at("app"), at("app@same"), { rows: 10 });
    assertEquals([identical, pages_changed > 0], [false, true]);
    assertEquals(
      tables.map(({ table, change, rows_added, rows_removed, rows_changed }) => [
        table,
        change,
        rows_added,
        rows_removed,
        rows_changed,
      ]),
      [["t", "changed", 1, 0, 1], ["u", "added", 0, 0, 0]],
    );
    await store.compact(at("app@same"));
    assertEquals((await store.diff(at("app@same@changed"), at("app@same"))).identical, true);
    await fails("not_found", store.diff(at("app"), at("app@none")));
  }));

Deno.test("verify() finds every lost and damaged object, and no problem in a sound store", () =>
  withApp([1, 2, 3], async ({ store }) => {
    const { backend } = store.context;
    assertEquals((await store.verify(at("app"))).problems, []);
    assertEquals((await store.verify(at("app@main@c1"))).ok, true);
    const { ref } = await store.context.refs.read("app", "main");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    for (const { key } of objects) {
      const { bytes } = await backend.get(key);
      for (const at_byte of [0, 50, bytes.length >> 1, bytes.length - 1]) {
        const damaged = bytes.slice();
        damaged[at_byte]! ^= 0x40;
        await backend.put(key, damaged);
        const { ok, problems } = await store.verify(at("app"));
        assertEquals([ok, problems.length > 0], [false, true], `${key} ${at_byte}`);
      }
      await backend.delete(key);
      const { ok, problems } = await store.verify(at("app"));
      assertEquals(ok, false);
      assert(problems[0]!.includes("nothing covers"), problems[0]);
      await backend.put(key, bytes);
    }
    assertEquals((await store.verify(at("app"))).ok, true);
    await fails("not_found", store.verify(at("app@none")));
    await fails("not_found", store.verify(at("app@main@none")));
    await backend.put("refs/app/main.json", new TextEncoder().encode("{"));
    const { ok, problems } = await store.verify(at("app"));
    assertEquals([ok, problems], [false, ["Cannot read the ref of app@main: it is not JSON"]]);
  }));

Deno.test({
  name: `verify() names each of the two objects of a plain snapshot that is lost or damaged${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (parent) =>
      withApp([1], async ({ store, directory }) => {
        const { ref } = await store.context.refs.read("app", "main");
        const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
        const image = objects[0]!.key;
        for (const key of [image, imageIndexKey(image)]) {
          const path = `${directory}/${key}`;
          const bytes = Deno.readFileSync(path);
          const spoils: [string, Uint8Array][] = [
            ["flipped", bytes.with(bytes.length >> 1, bytes[bytes.length >> 1]! ^ 1)],
            ["cut", bytes.subarray(0, bytes.length >> 1)],
            ["empty", new Uint8Array(0)],
          ];
          for (const [name, spoilt] of spoils) {
            Deno.writeFileSync(path, spoilt);
            const { ok, problems } = await store.verify(at("app"));
            assertEquals([ok, problems.length], [false, 1], `${key} ${name}`);
            assert(problems[0]!.includes(key), `${key} ${name}: ${problems[0]}`);
          }
          Deno.writeFileSync(path, bytes);
        }
        assertEquals((await store.verify(at("app"))).problems, []);
      }, { parent })),
});

Deno.test("an object that was never committed and ends where a lost one did is not taken for it", () =>
  withApp([1], async ({ store, edit, faults }) => {
    // A checkpoint that uploads and then fails: its object stays, under an epoch that is dead.
    await edit("main", "lost");
    let writes = 0;
    faults.plan = ({ method }) =>
      method === "replace" && ++writes === 2 ? { kind: "before", code: "unavailable" } : undefined;
    await fails("unavailable", store.checkpoint(at("app"), "c2"));
    faults.plan = () => undefined;
    await store.checkout(at("app"), { force: true });
    await edit("main", "kept");
    await store.checkpoint(at("app"), "c2");
    const { ref } = await store.context.refs.read("app", "main");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    await store.context.backend.delete(objects.at(-1)!.key);
    const { ok, problems } = await store.verify(at("app"));
    assertEquals(ok, false);
    assert(problems[0]!.includes("not the object that the branch was left with"), problems[0]);
    await fails("corrupt", store.checkout(at("app"), { force: true }));
  }));

Deno.test("branches() lists every branch, also those whose objects or ref cannot be read", () =>
  withApp([1], async ({ store, directory, edit }) => {
    await store.fork(at("app"), "good");
    await store.fork(at("app"), "gap", { materialize: true });
    await store.fork(at("app"), "torn");
    for (const branch of ["gap", "good"]) await edit(branch, "unsaved");
    const { backend } = store.context;
    const { ref } = await store.context.refs.read("app", "gap");
    for await (const { key } of backend.list(`data/${ref.lineage}/`)) await backend.delete(key);
    store.context.chains.forget();
    await backend.put("refs/app/torn.json", new TextEncoder().encode("{"));
    const listed = await store.branches("app");
    assertEquals(listed.map(({ branch, state }) => [branch, state]), [
      ["gap", "idle"],
      ["good", "dirty"],
      ["main", "idle"],
      ["torn", "idle"],
    ]);
    assertEquals(listed.map(({ problem }) => problem !== undefined), [true, false, false, true]);
    assertEquals(listed.map(({ shared }) => shared), [false, true, false, false]);
    assertEquals(listed[1]!.checkout, `${directory}/checkouts/app/good.db`);
    await fails("not_found", store.branches("none"));
    await fails("invalid_name", store.branches("../.."));
  }));

Deno.test("an export keeps out of the way of a file that comes up meanwhile", () =>
  withApp([1], async ({ store, directory, faults }) => {
    const file = `${directory}/out.db`;
    faults.plan = ({ method }) => {
      if (method === "getStream") makeDatabase(file, "theirs");
      return undefined;
    };
    await fails("already_exists", store.export(at("app"), file));
    assertEquals(rows(file), "theirs");
    assertEquals([...Deno.readDirSync(directory)].filter(({ name }) => name.includes("partial")), []);
  }));

Deno.test("verify() finds what SQLite finds wrong in content that is stored whole", () =>
  withApp([], async ({ store, edit }) => {
    const path = await edit("main");
    sql(path, "INSERT INTO t VALUES(NULL)");
    await store.checkpoint(at("app"), "whole");
    assertEquals((await store.verify(at("app"))).ok, true);
    // A constraint that the content breaks: Deno's own library does not let its schema be changed.
    const broken = "UPDATE sqlite_schema SET sql='CREATE TABLE t(v NOT NULL)' WHERE name='t'";
    const shell = new Deno.Command("sqlite3", { args: [path, `PRAGMA writable_schema=ON; ${broken}`] });
    assertEquals((await shell.output()).code, 0);
    await store.checkpoint(at("app"), "broken");
    const { ok, problems } = await store.verify(at("app"));
    assertEquals([ok, problems], [false, ["NULL value in t.v"]]);
  }));

Deno.test("files that diff() and verify() build are removed afterwards", () =>
  withApp([1, 2], async ({ store, directory }) => {
    await store.diff(at("app@main@c1"), at("app"));
    await store.verify(at("app"));
    assertEquals([...Deno.readDirSync(`${directory}/tmp`)], []);
  }));

Deno.test("the next page of rows is read from the images of the first, which go with the store", () =>
  withApp([1, 2, 3], async ({ store, directory, faults }) => {
    const reads = async (after: { after?: string }) => {
      faults.calls.length = 0;
      const page = await store.diffRows(at("app@main@c1"), at("app"), "t", { rows: 1, ...after });
      return { page, objects: faults.calls.filter(({ key }) => key.startsWith("data/")).length };
    };
    const first = await reads({});
    assert(first.objects > 0 && first.page.next !== undefined);
    const second = await reads({ after: first.page.next });
    assertEquals([first.page.rows.length, second.page.rows.length], [1, 1]);
    assertEquals([second.objects, [...Deno.readDirSync(`${directory}/tmp`)].length], [0, 2]);
    store.close();
    assertEquals([...Deno.readDirSync(`${directory}/tmp`)], []);
  }));

Deno.test({
  name: `branches() of a store that may only be read says which checkouts it could not look into${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (parent) =>
      withApp([1], async ({ store, directory, edit }) => {
        await edit("main", "unsaved");
        await store.fork(at("app"), "other");
        // What the checkout is held against is known from now on, so that it is opened.
        assertEquals((await store.status(at("app"))).state, "dirty");
        await using view = await mountReadOnlyView(directory);
        using reader = await openAt(view.directory);
        const listed = await reader.branches("app");
        assertEquals(listed.map(({ branch, state }) => [branch, state]), [["main", "idle"], ["other", "idle"]]);
        assert(listed[0]!.problem?.includes("/checkouts/app/main.db"), listed[0]!.problem);
        assertEquals(listed[1]!.problem, undefined);
      }, { parent })),
});

Deno.test({
  name: `an export is on the disk before it has its name, and its name before the answer${NO_STRACE}`,
  ignore: NO_STRACE !== "",
  fn: () =>
    withApp([1], async ({ directory }) => {
      const base = new URL("../../../", import.meta.url);
      const file = `${directory}/out.db`;
      const program = `
        import { openStore } from ${JSON.stringify(new URL("lib/store/open.ts", base).href)};
        const store = await openStore(${JSON.stringify(directory)});
        console.log("mark begun");
        await store.export({ db: "app", branch: "main" }, ${JSON.stringify(file)});
        console.log("mark done");`;
      await Deno.writeTextFile(`${directory}/script.ts`, program);
      const config = new URL("deno.json", base).pathname;
      const deno = [
        Deno.execPath(),
        "run",
        "-A",
        "--no-prompt",
        "--no-check",
        "--config",
        config,
        `${directory}/script.ts`,
      ];
      const what = "trace=fsync,fdatasync,link,linkat,write";
      const args = ["-f", "-y", "-qq", "-o", `${directory}/trace`, "-e", what, ...deno];
      const { success, stderr } = await new Deno.Command("strace", { args }).output();
      assert(success, new TextDecoder().decode(stderr));
      const steps = (await Deno.readTextFile(`${directory}/trace`)).split("\n").flatMap((line) => {
        const synced = /f(?:data)?sync\(\d+<([^>]*)>/.exec(line)?.[1];
        // The runtime syncs caches of its own.
        if (synced !== undefined) return synced.startsWith(directory) ? [synced] : [];
        if (/ link(at)?\(/.test(line)) return ["link"];
        return /"mark (\w+)/.exec(line)?.[1] ?? [];
      });
      const between = steps.slice(steps.indexOf("begun") + 1, steps.indexOf("done"));
      // The journal mode is set after the content.
      assertEquals(between, [`${file}.partial`, `${file}.partial`, "link", directory]);
    }, { on_disk: true }),
});

Deno.test("an export has the journal mode that the imported database had, on every branch", async (t) => {
  for (const mode of ["delete", "wal"] as const) {
    await t.step(mode, () =>
      withApp([], async ({ store, directory }) => {
        const source = `${directory}/${mode}.db`;
        sql(source, `PRAGMA journal_mode=${mode}`, "CREATE TABLE t(v)", "INSERT INTO t VALUES('x')");
        await store.create("own", { from: source });
        await store.fork(at("own"), "try");
        await store.checkpoint(at("own@try"), "v1");
        await store.destroy(at("own@try"));
        await store.undo(at("own@try"));
        const session = await CaptureSession.open(store, at("own@try"), { flush_every_ms: 0, snapshot_every: 16 });
        sql(session.checkout, "INSERT INTO t VALUES('y')");
        await session.close();
        for (const address of ["own", "own@try", "own@try@v1", "own@try-pre-destroy"]) {
          const out = `${directory}/${address}.db`;
          await store.export(at(address), out);
          assertEquals(rows(out, "PRAGMA journal_mode"), mode, address);
        }
        assertEquals(rows(`${directory}/own@try.db`), "x,y");
        assertEquals((await store.verify(at("own@try"))).problems, []);
      }));
  }
});

Deno.test({
  name: `a read-only checkout and an export open where nothing can be written${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (parent) =>
      withApp([1, 2], async ({ store, directory }) => {
        const { path } = await store.checkout(at("app@main@c1"));
        assertEquals((await store.checkout(at("app@main@c1"))).source, "cached");
        assertEquals((await store.verify(at("app@main@c1"))).problems, []);
        await store.export(at("app"), `${directory}/out.db`);
        await using view = await mountReadOnlyView(directory);
        const files = [path.replace(directory, view.directory), `${view.directory}/out.db`];
        assertEquals(files.map((file) => rows(file)), ["1", "1,2"]);
        // An entry of an earlier version is in WAL mode, and is made anew.
        Deno.chmodSync(path, 0o600);
        sql(path, "PRAGMA journal_mode=WAL");
        assertEquals(rows((await store.checkout(at("app@main@c1"))).path, "PRAGMA journal_mode"), "delete");
      }, { parent })),
});
