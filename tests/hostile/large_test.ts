import { assertEquals } from "@std/assert";
import { parseAddress } from "../../lib/store/names.ts";
import { sqlite3, sqlite3Write } from "../support/writers/oracle.ts";
import { Bench } from "./_bench.ts";
import { longTest } from "../support/long.ts";

/** Bytes of zeros in the large database: it reaches past SQLite's lock page at 2^30. */
const FILLER_BYTES = 2 ** 30 + 2 ** 23;

const SUMMARY = "PRAGMA integrity_check; SELECT count(*), sum(length(body)), max(id) FROM t;";

longTest("a database above 1 GiB keeps what lies behind the lock page, at rest and live", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  const main = parseAddress("app");
  const source = bench.file("large");
  // Blobs of one page each keep every page in use; zeros keep it quick.
  await sqlite3Write(
    source,
    `PRAGMA page_size=65536; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;
     CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB);
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${FILLER_BYTES / 2 ** 23})
     INSERT INTO t SELECT i, zeroblob(${2 ** 23}) FROM n;`,
  );
  await operator.ok("create", "app", { from: source });
  await sqlite3Write(source, "INSERT INTO t VALUES(1000, 'behind the lock page')");
  const checkout = String(await operator.ok("session_open", main));
  await sqlite3Write(checkout, "INSERT INTO t VALUES(1000, 'behind the lock page')");
  await operator.ok("session_flush");
  await operator.ok("session_close");
  const out = bench.file("out");
  await operator.ok("export", main, out);
  assertEquals(await sqlite3(out, [SUMMARY]), await sqlite3(source, [SUMMARY]));
  await operator.end();
});
