import { assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { isPageSize, lockPage, parseDatabaseHeader, uriPath } from "./header.ts";

const PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

Deno.test("parseDatabaseHeader() reads what SQLite wrote, at every page size", () => {
  const dir = Deno.makeTempDirSync();
  try {
    for (const page_size of PAGE_SIZES) {
      const path = `${dir}/${page_size}.db`;
      const db = new DatabaseSync(path);
      db.exec(`PRAGMA page_size=${page_size}; PRAGMA journal_mode=${page_size === 1024 ? "delete" : "wal"}`);
      db.exec("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(100000)); PRAGMA wal_checkpoint(TRUNCATE)");
      const page_count = Number(db.prepare("PRAGMA page_count").get()!.page_count);
      db.close();
      const header = parseDatabaseHeader(Deno.readFileSync(path))!;
      assertEquals(header.page_size, page_size);
      assertEquals(header.page_count, page_count);
      assertEquals(header.version_valid_for, header.change_counter);
      assertEquals(header.write_version, page_size === 1024 ? 1 : 2);
    }
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("parseDatabaseHeader() refuses what SQLite would refuse", () => {
  const dir = Deno.makeTempDirSync();
  try {
    const path = `${dir}/a.db`;
    const db = new DatabaseSync(path);
    db.exec("PRAGMA encoding='UTF-16le'; CREATE TABLE t(x)");
    db.close();
    const bytes = Deno.readFileSync(path);
    assertEquals(parseDatabaseHeader(bytes)?.page_count, 2);
    assertEquals(parseDatabaseHeader(bytes.subarray(0, 99)), undefined);
    assertEquals(parseDatabaseHeader(new Uint8Array(0)), undefined);
    for (const offset of [0, 15, 16, 17, 21, 22, 23, 56]) {
      const bad = bytes.slice();
      bad[offset]! ^= 0x11;
      assertEquals(parseDatabaseHeader(bad), undefined, `offset ${offset}`);
    }
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("lockPage() is the page that holds byte 2^30", () => {
  for (const page_size of PAGE_SIZES) {
    const page = lockPage(page_size);
    assertEquals((page - 1) * page_size, 2 ** 30);
  }
  assertEquals(lockPage(4096), 262145);
});

Deno.test("isPageSize() takes powers of two from 512 to 65536 only", () => {
  assertEquals(PAGE_SIZES.every(isPageSize), true);
  for (const bad of [0, 1, 256, 511, 513, 4095, 131072, 4096.5, NaN, -4096, 2 ** 40]) {
    assertEquals(isPageSize(bad), false);
  }
});

Deno.test("uriPath() opens exactly the named file, whatever its name", () => {
  const dir = Deno.makeTempDirSync();
  try {
    for (const name of ["plain.db", "a?mode=memory.db", "b#c.db", "d%20e.db", "f g é.db", "h&i=j.db"]) {
      const path = `${dir}/${name}`;
      assertThrows(() => new DatabaseSync(uriPath(path, { mode: "rw" })), Error, "unable to open");
      const db = new DatabaseSync(uriPath(path));
      db.exec("CREATE TABLE t(x)");
      db.close();
      assertEquals(Deno.statSync(path).isFile, true);
      const again = new DatabaseSync(uriPath(path, { mode: "ro", immutable: true }));
      assertEquals(again.prepare("SELECT count(*) AS n FROM t").get()!.n, 0);
      again.close();
    }
    assertEquals([...Deno.readDirSync(dir)].length, 6);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
  assertEquals(uriPath("//host/x.db"), "file:////host/x.db");
  assertEquals(uriPath("x?.db", { immutable: true }), "file:x%3f.db?immutable=1");
});
