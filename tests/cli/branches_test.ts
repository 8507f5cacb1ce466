import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { mountReadOnlyView, whyNotMountable } from "../support/mounts.ts";
import { makePlace, type Place } from "./support/taskd.ts";

const NO_MOUNTS = await whyNotMountable("tmpfs");

function sql(path: string, statements: string): void {
  const db = new DatabaseSync(path);
  try {
    db.exec(statements);
  } finally {
    db.close();
  }
}

function names(path: string): unknown[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return db.prepare("SELECT name FROM item ORDER BY id").all().map((row) => row.name);
  } finally {
    db.close();
  }
}

/** `shop@main` with one table of two rows, and its file. */
async function makeShop(place: Place): Promise<string> {
  sql(
    `${place.base}/shop.db`,
    "CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1,'a'),(2,'b')",
  );
  await place.json(["create", "shop", "--from", "shop.db"]);
  return String((await place.json(["checkout", "shop"])).path);
}

Deno.test("create makes an empty database, or one from a file, and refuses a name that exists", async () => {
  await using place = await makePlace();
  const created = await place.json(["create", "empty"]);
  assertEquals(Object.keys(created), ["ok", "db", "branch", "txid", "size_bytes", "stored_bytes"]);
  assertEquals([created.db, created.branch, created.txid], ["empty", "main", 1]);
  assertEquals(names(await makeShop(place)), ["a", "b"]);
  const again = await place.json(["create", "shop"], 1);
  assertEquals(again.code, "already_exists");
  assertMatch((await place.taskd("create", "third")).stdout, /^Created third@main \(.+ stored\)\n$/);
  assertEquals((await place.taskd("create", "fourth", "-quiet")).stdout, "");
  assertEquals((await place.json(["create", "x", "--from", "nowhere.db"], 1)).code, "not_found");
});

Deno.test({
  name: `create takes a database out of a directory that cannot be written${NO_MOUNTS}`,
  ignore: NO_MOUNTS !== "",
  fn: async () => {
    await using place = await makePlace();
    const source = `${place.base}/source`;
    await Deno.mkdir(source);
    const table = "CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1,'a'),(2,'b')";
    sql(`${source}/rollback.db`, table);
    sql(`${source}/wal.db`, `PRAGMA journal_mode=WAL; ${table}`);
    const writer = new DatabaseSync(`${place.base}/live.db`);
    writer.exec(`PRAGMA journal_mode=WAL; ${table}`);
    for (const suffix of ["", "-wal"]) {
      await Deno.copyFile(`${place.base}/live.db${suffix}`, `${source}/logged.db${suffix}`);
    }
    writer.close();
    await using view = await mountReadOnlyView(source);
    for (const name of ["rollback", "wal"]) {
      await place.json(["create", name, "--from", `${view.directory}/${name}.db`]);
      await place.json(["export", name, `${name}.db`]);
      assertEquals(names(`${place.base}/${name}.db`), ["a", "b"]);
    }
    const logged = await place.json(["create", "logged", "--from", `${view.directory}/logged.db`], 1);
    assertEquals(logged.code, "denied");
    assertStringIncludes(String(logged.error), "logged.db-wal");
    const directory = await place.json(["create", "x", "--from", source], 1);
    assertEquals([directory.code, directory.hint], ["denied", "Name a plain file"]);
    assertEquals([...Deno.readDirSync(`${place.store}/tmp`)], []);
  },
});

Deno.test("checkout and path print the file's path and nothing else", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  assertEquals((await place.taskd("checkout", "shop", "-quiet")).stdout, `${path}\n`);
  assertEquals((await place.taskd("path", "shop")).stdout, `${path}\n`);
  assertEquals((await place.json(["path", "shop@other"], 1)).code, "not_found");
  const { source, read_only, txid } = await place.json(["checkout", "shop"]);
  assertEquals([source, read_only, txid], ["kept", false, 1]);
});

Deno.test("checkpoint, rollback and promote move a branch and keep the old head", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  const first = await place.json(["checkpoint", "shop", "v1", "--note", "two rows"]);
  assertEquals([first.checkpoint, first.txid], ["v1", 1]);
  sql(path, "INSERT INTO item VALUES (3,'c')");
  const second = await place.json(["checkpoint", "shop", "v2"]);
  assertEquals([second.checkpoint, second.txid], ["v2", 2]);
  assert(Number(second.pages) > 0);

  const old = await place.taskd("checkout", "shop@main@v1");
  assertEquals(names(old.stdout.trim()), ["a", "b"]);

  const back = await place.json(["rollback", "shop", "--to", "v1"]);
  assertEquals([back.txid, back.mode, back.safety_branch], [1, "shared", "main-pre-rollback"]);
  assertEquals(names(path), ["a", "b"]);
  const forward = await place.json(["promote", "shop@main-pre-rollback", "--onto", "main", "--no-safety"]);
  assertEquals([forward.branch, forward.safety_branch], ["main", undefined]);
  assertEquals(names(path), ["a", "b", "c"]);
  assertEquals((await place.json(["rollback", "shop", "--to", "nowhere"], 1)).code, "not_found");
});

// conformance: 2.shared_flag 2.compact_materializes
Deno.test("fork starts at the head or at a checkpoint, and compact makes a branch stand alone", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  await place.json(["checkpoint", "shop", "v1"]);
  sql(path, "INSERT INTO item VALUES (3,'c')");
  await place.json(["checkpoint", "shop", "v2"]);

  const { db, branch, txid, mode } = await place.json(["fork", "shop", "try", "--at", "v1", "--ttl", "24h"]);
  assertEquals({ db, branch, txid, mode }, { db: "shop", branch: "try", txid: 1, mode: "shared" });
  assertEquals(names((await place.taskd("checkout", "shop@try")).stdout.trim()), ["a", "b"]);
  const own = await place.json(["fork", "shop@main@v2", "own", "--materialize"]);
  assertEquals([own.txid, own.mode], [2, "materialized"]);

  const status = await place.taskd("status", "shop@try");
  assertStringIncludes(status.stdout, "storage=shared");
  assertMatch(status.stdout, /^ttl\s+1d$/m);
  assertMatch(status.stdout, /^sqlite\s+3\.\d+\.\d+$/m);
  assertMatch((await place.taskd("compact", "shop@try")).stdout, /^Compacted shop@try: /);
  assertStringIncludes((await place.taskd("status", "shop@try")).stdout, "storage=materialized");
  assertEquals((await place.json(["fork", "shop@main@v1", "x", "--at", "v2"], 2)).code, "usage");
});

Deno.test("touch, protect and destroy govern how long a branch lives", async () => {
  await using place = await makePlace();
  await place.json(["create", "shop"]);
  await place.json(["fork", "shop", "try", "--ttl", "1h"]);
  assertEquals((await place.json(["touch", "shop@try"])).ttl_ms, 3_600_000);
  assertEquals(
    (await place.taskd("touch", "shop@try", "--ttl", "90m")).stdout,
    "Touched shop@try: it expires in 1h 30m\n",
  );
  assertEquals((await place.json(["touch", "shop@try", "--ttl", "0"])).ttl_ms, undefined);
  assertEquals((await place.json(["protect", "shop@try"])).protected, true);
  assertEquals((await place.json(["destroy", "shop@try"], 1)).code, "protected");
  assertEquals((await place.json(["unprotect", "shop@try"])).protected, false);
  await place.json(["protect", "shop@try"]);
  assertEquals((await place.taskd("destroy", "shop@try", "--force")).stdout, "Destroyed shop@try\n");
  assertEquals((await place.json(["status", "shop@try"], 1)).code, "not_found");
});

Deno.test("diff counts rows by table and shows those that are asked for, safely", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  await place.json(["checkpoint", "shop", "v1"]);
  sql(path, "UPDATE item SET name = 'B' || char(27) || '[2J' WHERE id = 2; INSERT INTO item VALUES (3,'c')");
  await place.json(["checkpoint", "shop", "v2"]);
  const { a, b, identical, tables } = await place.json(["diff", "shop@main@v1", "shop"]);
  assertEquals([a, b, identical], ["shop@main@v1", "shop@main", false]);
  assertEquals(tables, [{ table: "item", change: "changed", rows_added: 1, rows_removed: 0, rows_changed: 1 }]);
  const { stdout } = await place.taskd("diff", "shop@main@v1", "shop", "--table", "item", "--rows", "5");
  assertStringIncludes(stdout, '~ id=2  name: "b" -> "B\\u001b[2J"');
  assertStringIncludes(stdout, '+ id=3 name="c"');
  assertEquals(
    (await place.taskd("diff", "shop", "shop@main@v2")).stdout,
    "shop@main and shop@main@v2 are identical\n",
  );
});

Deno.test("diff marks values that differ and read alike, and counts pages where rows are the same", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  sql(path, "INSERT INTO item VALUES (3, 1.0), (4, CAST(x'ff41' AS TEXT))");
  await place.json(["checkpoint", "shop", "v1"]);
  sql(path, "UPDATE item SET name = 1 WHERE id = 3; UPDATE item SET name = CAST(x'fe41' AS TEXT) WHERE id = 4");
  await place.json(["checkpoint", "shop", "v2"]);
  const { stdout } = await place.taskd("diff", "shop@main@v1", "shop", "--rows", "5");
  assertStringIncludes(stdout, "~ id=3  name: 1 -> 1 (differs in what is not shown)\n");
  assertMatch(stdout, /^~ id=4 {2}name: "(.+)" -> "\1" \(differs in what is not shown\)$/m);
  sql(path, "CREATE TABLE log(line); INSERT INTO log VALUES ('x')");
  await place.json(["checkpoint", "shop", "v2b"]);
  sql(path, "UPDATE log SET rowid = 7");
  await place.json(["checkpoint", "shop", "v2c"]);
  const moved = (await place.taskd("diff", "shop@main@v2b", "shop", "--rows", "5")).stdout;
  assertStringIncludes(moved, '- rowid=1 line="x"\n+ rowid=7 line="x"\n');
  sql(path, "CREATE VIEW names AS SELECT name FROM item");
  await place.json(["checkpoint", "shop", "v3"]);
  assertEquals(
    (await place.taskd("diff", "shop@main@v2c", "shop")).stdout,
    "shop@main@v2c and shop@main hold the same rows (1 page differs)\n",
  );
});

Deno.test("export writes a plain database, and over a file only when forced", async () => {
  await using place = await makePlace();
  await makeShop(place);
  const out = `${place.base}/out.db`;
  const exported = await place.json(["export", "shop", "out.db"]);
  assertEquals([exported.path, exported.txid], [out, 1]);
  assertEquals(names(out), ["a", "b"]);
  assertEquals((await place.json(["export", "shop", "out.db"], 1)).code, "already_exists");
  assertMatch((await place.taskd("export", "shop", "out.db", "--force")).stdout, /^Wrote .*out\.db \(/);
  assertEquals([...Deno.readDirSync(place.base)].map((entry) => entry.name).toSorted(), ["out.db", "shop.db", "store"]);
});

Deno.test("verify proves a branch whole, and fails when an object is damaged", async () => {
  await using place = await makePlace();
  await makeShop(place);
  assertMatch((await place.taskd("verify", "shop")).stdout, /^shop@main is intact \(1 object, \d+ pages?, txid 1\)\n$/);
  const whole = await place.json(["verify", "--all"]);
  assertEquals([whole.intact, (whole.branches as unknown[]).length], [true, 1]);
  assertEquals((await place.taskd("verify")).code, 2);
  assertEquals((await place.taskd("verify", "shop", "--all")).code, 2);

  const object = await onlyObject(`${place.store}/data`);
  const bytes = await Deno.readFile(object);
  bytes[bytes.length >> 1]! ^= 0xff;
  await Deno.chmod(object, 0o600);
  await Deno.writeFile(object, bytes);
  const damaged = await place.taskd("verify", "shop");
  assertEquals(damaged.code, 1);
  assertStringIncludes(damaged.stdout, "shop@main is DAMAGED");
  assertEquals((await place.json(["verify", "shop"], 1)).intact, false);
});

// conformance: 2.shared_flag 8.ro_cache_budget
Deno.test("branches, databases, lease and status list the store's content", async () => {
  await using place = await makePlace();
  assertEquals((await place.taskd("branches")).stdout, "There are no branches\n");
  assertEquals((await place.taskd("databases")).stdout, "There are no databases\n");
  await makeShop(place);
  await place.json(["fork", "shop", "try"]);
  assertEquals((await place.json(["databases"])).databases, [{ db: "shop", branches: 2 }]);
  assertMatch((await place.taskd("databases")).stdout, /^DATABASE\s+BRANCHES\nshop\s+2\n$/);
  const { branches } = await place.json(["branches", "shop"]) as { branches: Record<string, unknown>[] };
  assertEquals(branches.map(({ branch, state, shared }) => ({ branch, state, shared })), [
    { branch: "main", state: "idle", shared: false },
    { branch: "try", state: "idle", shared: true },
  ]);
  const { stdout } = await place.taskd("branches");
  assertMatch(stdout, /^BRANCH .*\nshop@main +idle +storage=materialized .*\nshop@try +idle +storage=shared .*\n$/);
  assertMatch((await place.taskd("lease", "shop")).stdout, /^branch +shop@main\nlease +none\nepoch +\d+\n$/);
  assertEquals((await place.json(["lease", "shop"])).live, false);
  await place.json(["checkpoint", "shop", "v1", "--note", "数据 \x1b[2J"]);
  assertMatch((await place.taskd("status", "shop")).stdout, /^checkpoints +v1 .* 数据 \\x1b\[2J$/m);
  const overview = await place.json(["status", "-ro-cache-budget", "1G"]);
  assertEquals((overview.branches as unknown[]).length, 2);
  assertEquals((overview.ro_cache as { budget_bytes: number }).budget_bytes, 1024 ** 3);
  assertMatch((await place.taskd("status", "-ro-cache-budget", "1G")).stdout, /^ro cache +.* of 1 GiB \(\d+%\)$/m);
});

Deno.test("an unreadable branch is listed with the reason, and the others stay usable", async () => {
  await using place = await makePlace();
  await makeShop(place);
  await place.json(["fork", "shop", "whole", "--materialize"]);
  await Deno.writeTextFile(`${place.store}/refs/shop/main.json`, "{");
  const why = "shop@main: Cannot read the ref of shop@main: it is not JSON\n";
  for (const command of ["branches", "status"]) {
    const { code, stdout } = await place.taskd(command);
    assertEquals(code, 0);
    assertMatch(stdout, /^shop@whole +idle +storage=materialized +1 /m);
    assertStringIncludes(stdout, why);
  }
  const verified = await place.taskd("verify", "--all");
  assertEquals(verified.code, 1);
  assertMatch(verified.stdout, /^shop@main is DAMAGED .*\n {2}Cannot read the ref .*\nshop@whole is intact /);
});

Deno.test("a store may lie behind a symbolic link, and is made with all its parents", async () => {
  await using place = await makePlace();
  await Deno.mkdir(`${place.base}/real`);
  await Deno.symlink(`${place.base}/real`, `${place.base}/link`);
  await place.json(["create", "shop", "-store", "link/a/b"]);
  assertEquals((await place.json(["databases", "-store", "file://" + `${place.base}/real/a/b`])).databases, [
    { db: "shop", branches: 1 },
  ]);
  assertEquals((await Deno.stat(`${place.base}/real/a/b`)).mode! & 0o777, 0o700);
});

Deno.test("a store that is a file is refused as one", async () => {
  await using place = await makePlace();
  await Deno.writeTextFile(place.store, "");
  const { code, error } = await place.json(["branches"], 1);
  assertEquals(code, "denied");
  assertStringIncludes(String(error), `Cannot open the store ${place.store}: it is not a directory`);
});

async function onlyObject(directory: string): Promise<string> {
  for await (const entry of Deno.readDir(directory)) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory) return await onlyObject(path);
    if (entry.name.startsWith("snapshot-")) return path;
  }
  throw new Error("There is no object");
}
