import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { mountReadOnlyView, whyNotMountable } from "../support/mounts.ts";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { shellWord } from "../../lib/text/shell_word.ts";
import { Application } from "../support/application.ts";
import { makePlace, type Place } from "./support/taskd.ts";

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;
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
  assertEquals((await place.json(["destroy", "shop@try", "--force"], 1)).code, "unconfirmed");
  assertEquals(
    (await place.taskd("destroy", "shop@try", "--force", "--yes")).stdout,
    "Destroyed shop@try; taskd undo shop@try brings it back (kept as try-pre-destroy)\n",
  );
  assertEquals((await place.json(["status", "shop@try"], 1)).code, "not_found");
});

Deno.test("destroy names the program that has the file open, waits for it, and is taken back", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  const application = new Application(path);
  await application.run("INSERT INTO item VALUES (3, 'c')");
  const { code, stderr } = await place.taskd("destroy", "shop@main", "--yes");
  assertEquals(code, 1);
  assertStringIncludes(stderr, `python3 (process ${application.pid}) has ${path} open`);
  const destroyed = place.json(["destroy", "shop@main", "--yes", "--wait", "1m"]);
  await application.end();
  assertEquals((await destroyed).safety_branch, "main-pre-destroy");
  const { entries } = await place.json(["undo", "shop", "--list"]) as { entries: { op: string }[] };
  assertEquals(entries.map(({ op }) => op), ["destroy"]);
  assertStringIncludes((await place.taskd("undo", "shop", "--list")).stdout, "main-pre-destroy");
  assertStringIncludes((await place.taskd("undo", "shop")).stdout, "Took back the destroy of shop@main");
  assertEquals(names((await place.taskd("checkout", "shop")).stdout.trim()), ["a", "b", "c"]);
});

Deno.test("on a terminal destroy asks about main, and takes no answer for a no", async () => {
  await using place = await makePlace();
  await makeShop(place);
  const line = [Deno.execPath(), "run", ...launchFlags(), MAIN, "destroy", "shop@main"].map(shellWord).join(" ");
  for (const [answer, left] of [["n", 0], ["", 0], ["y", 1]] as const) {
    const script = new Deno.Command("script", {
      args: ["-qec", line, "/dev/null"],
      env: { BSTORE_STORE: place.store, NO_COLOR: "1" },
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const writer = script.stdin.getWriter();
    await writer.write(new TextEncoder().encode(`${answer}\n`));
    const shown = new TextDecoder().decode((await script.output()).stdout);
    await writer.close().catch(() => {});
    assertStringIncludes(shown, "it is the database's main branch");
    assertStringIncludes(shown, "Destroy it all the same? [y/N]");
    const branches = (await place.json(["branches"])).branches as { branch: string }[];
    assertEquals(branches.filter(({ branch }) => branch === "main-pre-destroy").length, left, shown);
  }
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
    (await place.taskd("diff", "shop@main@v1", "shop", "--all")).stdout.split("\n").slice(2),
    ["", "item", '~ id=2  name: "b" -> "B\\u001b[2J"', '+ id=3 name="c"', ""],
  );
  const misspelt = await place.taskd("diff", "shop@main@v1", "shop", "--table", "itme");
  assertStringIncludes(misspelt.stderr, "There is no table itme in either database\n  Did you mean item?");
  assertEquals(
    (await place.taskd("diff", "shop", "shop@main@v2")).stdout,
    "shop@main and shop@main@v2 are identical\n",
  );
});

Deno.test("diff distinguishes values that read alike, and shows definitions where rows are the same", async () => {
  await using place = await makePlace();
  const path = await makeShop(place);
  sql(path, "INSERT INTO item VALUES (3, 1.0), (4, CAST(x'ff41' AS TEXT))");
  await place.json(["checkpoint", "shop", "v1"]);
  sql(path, "UPDATE item SET name = 1 WHERE id = 3; UPDATE item SET name = CAST(x'fe41' AS TEXT) WHERE id = 4");
  await place.json(["checkpoint", "shop", "v2"]);
  const { stdout } = await place.taskd("diff", "shop@main@v1", "shop", "--rows", "5");
  assertStringIncludes(stdout, "~ id=3  name: 1.0 -> 1\n");
  assertMatch(stdout, /^~ id=4 {2}name: "(.+)" \(no valid text: x'ff41'\) -> "\1" \(no valid text: x'fe41'\)$/m);
  sql(path, "CREATE TABLE log(line); INSERT INTO log VALUES ('x')");
  await place.json(["checkpoint", "shop", "v2b"]);
  sql(path, "UPDATE log SET rowid = 7");
  await place.json(["checkpoint", "shop", "v2c"]);
  const moved = (await place.taskd("diff", "shop@main@v2b", "shop", "--rows", "5")).stdout;
  assertStringIncludes(moved, '- rowid=1 line="x"\n+ rowid=7 line="x"\n');
  sql(path, "CREATE VIEW names AS SELECT name FROM item");
  await place.json(["checkpoint", "shop", "v3"]);
  const defined = (await place.taskd("diff", "shop@main@v2c", "shop")).stdout;
  assertMatch(defined, /^shop@main@v2c and shop@main hold the same rows\nsetting schema_version: \d+ -> \d+\n/);
  assertStringIncludes(defined, "view names: added\n+ CREATE VIEW names AS SELECT name FROM item\n");
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

Deno.test("repair says what was brought back, what is lost, and where the rest is", async () => {
  await using place = await makePlace();
  await makeShop(place);
  assertEquals((await place.taskd("repair", "--all")).stdout, "Nothing is damaged\n");
  assertEquals((await place.taskd("repair")).code, 2);
  const { path } = await place.json(["checkout", "shop"]);
  await place.json(["checkpoint", "shop", "v1"]);
  sql(String(path), "INSERT INTO item(name) VALUES ('b')");
  await place.json(["checkpoint", "shop", "v2"]);
  const copied = await new Deno.Command("cp", { args: ["-a", place.store, `${place.base}/copy`] }).output();
  assertEquals(copied.code, 0);
  Deno.removeSync(`${place.store}/checkouts`, { recursive: true });
  const { lineage } = await place.json(["status", "shop"]).then(({ branch }) => branch as { lineage: string });
  const newest = [...Deno.readDirSync(`${place.store}/data/${lineage}`)].map(({ name }) => name).sort().at(-1)!;
  const object = await onlyObject(`${place.store}/data/${lineage}/${newest}`);
  await Deno.chmod(object, 0o600);
  await Deno.writeTextFile(object, "gone");
  const dry = await place.taskd("repair", "shop", "--from", "copy", "--dry-run");
  assertEquals(dry.code, 0);
  assertMatch(dry.stdout, /^data\/\S+ would be restored from file:\/\/\S+\/copy\n$/);
  const { code, stdout } = await place.taskd("repair", "shop");
  assertEquals(code, 1);
  assertMatch(stdout, /^shop@main is taken back to txid 1\n {2}Lost: txids 2 to 2, between \S+ \S+ and \S+ \S+\n/);
  assertMatch(stdout, /\n {2}Lost of shop@main: checkpoints v2\n {2}What it was is kept as shop@main-pre-repair\n/);
  assertMatch(stdout, /\nWhat was replaced is in damaged\/\w+ of the store\n$/);
  assertEquals((await place.taskd("repair", "--all", "--from", "copy")).code, 0);
  assertMatch((await place.taskd("verify", "--all")).stdout, /damaged files? of former repairs below damaged/);
});

// conformance: 2.shared_flag 8.ro_cache_budget
Deno.test("branches, databases, lease and status list the store's content", async () => {
  await using place = await makePlace();
  // Where no location is named, a first look makes the store.
  const first = { HOME: place.base, BSTORE_STORE: "~/.taskd/store" };
  assertEquals((await place.taskdIn(first, "branches")).stdout, "There are no branches\n");
  assertEquals((await place.taskdIn(first, "databases")).stdout, "There are no databases\n");
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
  assertEquals(typeof overview.ro_cache_bytes, "number");
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
  assertMatch(
    verified.stdout,
    /^shop@main is DAMAGED .*\n {2}Cannot read the ref .*\n {4}Run: taskd repair shop@main\nshop@whole is intact /,
  );
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

Deno.test("merge brings rows into a branch that went on, shows conflicts, and is taken back", async () => {
  await using place = await makePlace();
  const main = await makeShop(place);
  await place.taskd("fork", "shop", "try");
  const fork = String((await place.json(["checkout", "shop@try"])).path);
  sql(fork, "UPDATE item SET name='theirs' WHERE id=1; UPDATE item SET name='new' WHERE id=2");
  await place.taskd("checkpoint", "shop@try", "one");
  sql(main, "UPDATE item SET name='ours' WHERE id=1; INSERT INTO item VALUES (3,'c')");

  const merge = ["merge", "shop@try", "--into", "main"];
  const refused = await place.taskd(...merge);
  assertEquals(refused.code, 1);
  assertMatch(refused.stdout, /^1 conflict: nothing was changed in shop@main\n/);
  assertMatch(refused.stdout, /\nitem +id=1 +name +changed twice +"a" +"ours" +"theirs"\n/);
  assertStringIncludes(refused.stdout, "taskd merge shop@try --into main --prefer ours|theirs, or --resolve FILE");
  assertEquals(names(main), ["ours", "b", "c"]);

  const { conflicts } = await place.json([...merge, "--check"], 1) as { conflicts: { kind: string }[] };
  const decided = conflicts.map(({ kind: _kind, ...place }) => ({ ...place, take: "ours" }))
    .map(({ table, key, column, take }: Record<string, unknown>) => ({ table, key, column, take }));
  await Deno.writeTextFile(`${place.base}/decided.json`, JSON.stringify(decided));
  assertMatch(
    (await place.taskd(...merge, "--resolve", "decided.json", "--check")).stdout,
    /^Nothing is in conflict\. It would change in shop@main:\nTABLE .*\nitem +0 +0 +1 +0\n$/,
  );
  assertEquals(names(main), ["ours", "b", "c"]);
  assertMatch(
    (await place.taskd(...merge, "--resolve", "decided.json")).stdout,
    /^Merged shop@try into shop@main \(merge [0-9a-f]{8}, txid 3, write lock held for \d+ ms\)\nTABLE/,
  );
  assertEquals(names(main), ["ours", "new", "c"]);
  assertEquals((await place.taskd(...merge)).stdout, "shop@main has all of shop@try: nothing was changed\n");

  sql(main, "INSERT INTO item VALUES (4,'d')");
  assertEquals((await place.taskd("revert", "shop", "--prefer", "ours")).code, 0);
  assertEquals(names(main), ["ours", "b", "c", "d"]);
  assertMatch(
    (await place.taskd("revert", "shop", "--list")).stdout,
    /\n[0-9a-f]{8} .* takes back [0-9a-f]{8}\n[0-9a-f]{8} .* taken back\n$/,
  );
  await place.taskd("fork", "shop", "wide");
  sql(String((await place.json(["checkout", "shop@wide"])).path), "ALTER TABLE item ADD COLUMN weight");
  await place.taskd("checkpoint", "shop@wide", "one");
  sql(main, "ALTER TABLE item ADD COLUMN colour");
  const definition = (await place.taskd("merge", "shop@wide", "--into", "main")).stdout;
  assertMatch(definition, /^1 conflict: .*\n.*\nitem .* definition .*\nThere are no two values to choose from: change/);
  for (
    const [args, code] of [
      [[...merge, "--prefer", "mine"], "usage"],
      [[...merge, "--resolve", "none.json"], "not_found"],
      [["revert", "shop", "0000"], "not_found"],
    ] as const
  ) assertEquals((await place.json([...args], code === "usage" ? 2 : 1)).code, code);
});

Deno.test("reset makes a branch its parent's head, and keeps what it held", async () => {
  await using place = await makePlace();
  const main = await makeShop(place);
  await place.taskd("fork", "shop", "try");
  const fork = String((await place.json(["checkout", "shop@try"])).path);
  sql(fork, "DELETE FROM item");
  await place.taskd("checkpoint", "shop@try", "none");
  sql(main, "INSERT INTO item VALUES (3,'c')");
  await place.taskd("checkpoint", "shop", "three");
  const { stdout } = await place.taskd("reset", "shop@try");
  assertMatch(stdout, /^Reset shop@try to the head of main \(shared, txid 2\)\nWhat was there before is kept as /);
  assertEquals(names(fork), ["a", "b", "c"]);
  assertEquals((await place.json(["reset", "shop"], 1)).code, "conflict");
});
