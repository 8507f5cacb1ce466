import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { DatabaseSync } from "node:sqlite";
import {
  parseWalHeader,
  readCommits,
  WAL_FRAME_HEADER_BYTES,
  WAL_HEADER_BYTES,
  type WalCommit,
  type WalHeader,
  walStart,
} from "./wal.ts";

const PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/** A database in WAL mode as its two files lie on disk, and what SQLite makes of them. */
interface Sample {
  db: Uint8Array;
  wal: Uint8Array;
}

/** The obvious parser: byte by byte, a fresh copy of the pages for each commit. */
function reference(
  wal: Uint8Array,
): { page_count: number; pages: Map<number, number>; end: number; commits: number }[] {
  const view = new DataView(wal.buffer, wal.byteOffset, wal.byteLength);
  const states: ReturnType<typeof reference> = [];
  if (wal.length < 32) return states;
  const little = view.getUint32(0) === 0x377f0682;
  if (!little && view.getUint32(0) !== 0x377f0683) return states;
  if (view.getUint32(4) !== 3007000) return states;
  const page_size = view.getUint32(8);
  if (!PAGE_SIZES.includes(page_size)) return states;
  let [s1, s2] = [0, 0];
  const add = (from: number, to: number) => {
    for (let i = from; i < to; i += 8) {
      s1 = (s1 + view.getUint32(i, little) + s2) % 2 ** 32;
      s2 = (s2 + view.getUint32(i + 4, little) + s1) % 2 ** 32;
    }
  };
  add(0, 24);
  if (s1 !== view.getUint32(24) || s2 !== view.getUint32(28)) return states;
  let pages = new Map<number, number>();
  let written: [number, number][] = [];
  for (let at = 32; at + 24 + page_size <= wal.length; at += 24 + page_size) {
    const pgno = view.getUint32(at);
    if (pgno === 0) break;
    if (view.getUint32(at + 8) !== view.getUint32(16) || view.getUint32(at + 12) !== view.getUint32(20)) break;
    add(at, at + 8);
    add(at + 24, at + 24 + page_size);
    if (s1 !== view.getUint32(at + 16) || s2 !== view.getUint32(at + 20)) break;
    written.push([pgno, at + 24]);
    const page_count = view.getUint32(at + 4);
    if (page_count === 0) continue;
    pages = new Map([...pages, ...written].filter(([page]) => page <= page_count));
    written = [];
    states.push({ page_count, pages, end: at + 24 + page_size, commits: states.length + 1 });
  }
  return states;
}

function readerOf(wal: Uint8Array) {
  return (offset: number, into: Uint8Array): number => {
    const part = wal.subarray(offset, offset + into.length);
    into.set(part);
    return part.length;
  };
}

function readAll(wal: Uint8Array): WalCommit | undefined {
  const header = parseWalHeader(wal);
  return header && readCommits(header, walStart(header), readerOf(wal));
}

function assertSame(actual: WalCommit | undefined, expected: ReturnType<typeof reference>[number] | undefined): void {
  assertEquals(actual?.commits, expected?.commits);
  assertEquals(actual?.page_count, expected?.page_count);
  assertEquals(actual?.end.offset, expected?.end);
  const sorted = (pages?: Map<number, number>) => pages && [...pages].sort(([a], [b]) => a - b);
  assertEquals(sorted(actual?.pages), sorted(expected?.pages));
}

/** The image that the log makes of the database file. */
function overlay({ db, wal }: Sample): Uint8Array {
  const commit = readAll(wal);
  if (!commit) return db;
  const { page_size } = parseWalHeader(wal)!;
  const image = new Uint8Array(commit.page_count * page_size);
  image.set(db.subarray(0, image.length));
  for (const [pgno, offset] of commit.pages) {
    image.set(wal.subarray(offset, offset + page_size), (pgno - 1) * page_size);
  }
  return image;
}

/** The image that SQLite itself makes of it: recovery and a full checkpoint. */
function recover({ db, wal }: Sample): Uint8Array {
  const dir = Deno.makeTempDirSync();
  try {
    Deno.writeFileSync(`${dir}/x.db`, db);
    Deno.writeFileSync(`${dir}/x.db-wal`, wal);
    const connection = new DatabaseSync(`${dir}/x.db`);
    const row = connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()!;
    assertEquals(row.busy, 0);
    connection.close();
    return Deno.readFileSync(`${dir}/x.db`);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}

const WORK = [
  "CREATE TABLE t(id INTEGER PRIMARY KEY, x)",
  "INSERT INTO t SELECT value, randomblob(900) FROM generate",
  "UPDATE t SET x = randomblob(500) WHERE id % 3 = 0",
  "DELETE FROM t WHERE id > 10",
  "VACUUM", // shrinks
  "INSERT INTO t SELECT value + 1000, zeroblob(300) FROM generate", // grows again
  "PRAGMA user_version = 7",
];

function numbers(count: number): string {
  return `CREATE TEMP TABLE generate AS WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT ${count}) SELECT value FROM n`;
}

/** Written by node:sqlite; `resets` checkpoints lie in between, so that a stale tail of older frames remains. */
function sample(page_size: number, work: string[] = WORK, resets = 0): Sample {
  const dir = Deno.makeTempDirSync();
  try {
    const db = new DatabaseSync(`${dir}/x.db`);
    db.exec(`PRAGMA page_size=${page_size}; PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=5`);
    db.exec(numbers(60));
    for (let i = 0; i < resets; i++) {
      db.exec(`CREATE TABLE r${i}(x); INSERT INTO r${i} VALUES (randomblob(200000)); PRAGMA wal_checkpoint(RESTART)`);
    }
    for (const statement of work) db.exec(statement);
    const files = { db: Deno.readFileSync(`${dir}/x.db`), wal: Deno.readFileSync(`${dir}/x.db-wal`) };
    db.close();
    return files;
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}

/** The same log with big-endian checksums, which SQLite reads on any machine. */
function bigEndian(wal: Uint8Array): Uint8Array {
  const copy = wal.slice();
  const view = new DataView(copy.buffer);
  const { page_size } = parseWalHeader(wal)!;
  let [s1, s2] = [0, 0];
  const add = (from: number, to: number) => {
    for (let i = from; i < to; i += 8) {
      s1 = (s1 + view.getUint32(i) + s2) % 2 ** 32;
      s2 = (s2 + view.getUint32(i + 4) + s1) % 2 ** 32;
    }
  };
  const put = (at: number) => {
    view.setUint32(at, s1);
    view.setUint32(at + 4, s2);
  };
  view.setUint32(0, 0x377f0683);
  add(0, 24);
  put(24);
  for (let at = 32; at + 24 + page_size <= copy.length; at += 24 + page_size) {
    add(at, at + 8);
    add(at + 24, at + 24 + page_size);
    put(at + 16);
  }
  return copy;
}

Deno.test("readCommits() sees exactly what SQLite recovers, at every page size", () => {
  for (const page_size of PAGE_SIZES) {
    const files = sample(page_size);
    const states = reference(files.wal);
    assertEquals(states.length, WORK.length);
    assertSame(readAll(files.wal), states.at(-1));
    assertEquals(overlay(files), recover(files), `page size ${page_size}`);
  }
});

Deno.test("readCommits() reads big-endian checksums, which SQLite recovers to the same", () => {
  for (const page_size of [512, 4096, 65536]) {
    const files = sample(page_size);
    const big = { db: files.db, wal: bigEndian(files.wal) };
    assertEquals(parseWalHeader(big.wal)?.big_endian_checksums, true);
    assertEquals(overlay(big), overlay(files));
    assertEquals(recover(big), overlay(big));
  }
});

Deno.test("readCommits() reads a log that the sqlite3 shell wrote", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const script = [
      "PRAGMA page_size=2048;",
      "PRAGMA journal_mode=wal;",
      numbers(60) + ";",
      ...WORK.map((s) => s + ";"),
    ];
    script.push(".system cp x.db copy.db && cp x.db-wal copy.db-wal");
    const shell = new Deno.Command("sqlite3", { args: ["x.db"], cwd: dir, stdin: "piped", stdout: "null" }).spawn();
    const writer = shell.stdin.getWriter();
    await writer.write(new TextEncoder().encode(script.join("\n")));
    await writer.close();
    assert((await shell.status).success);
    const files = { db: Deno.readFileSync(`${dir}/copy.db`), wal: Deno.readFileSync(`${dir}/copy.db-wal`) };
    assertSame(readAll(files.wal), reference(files.wal).at(-1));
    assertEquals(overlay(files), recover(files));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("readCommits() leaves the stale tail of a reset log alone", () => {
  const files = sample(1024, ["CREATE TABLE t(x)", "INSERT INTO t VALUES (1)"], 2);
  const commit = readAll(files.wal)!;
  assert(commit.end.offset < files.wal.length / 2, "the log has no stale tail");
  assertEquals(new DataView(files.wal.buffer, files.wal.byteOffset).getUint32(12), 2);
  assertEquals(overlay(files), recover(files));
});

Deno.test("readCommits() going on from its own end adds up to reading it all at once", () => {
  const { wal } = sample(512);
  const header = parseWalHeader(wal)!;
  let position = walStart(header);
  const seen: number[] = [];
  for (const state of reference(wal)) {
    const commit = readCommits(header, position, readerOf(wal.subarray(0, state.end)))!;
    assertEquals([commit.commits, commit.end.offset, commit.page_count], [1, state.end, state.page_count]);
    position = commit.end;
    seen.push(commit.end.offset);
  }
  assertEquals(readCommits(header, position, readerOf(wal)), undefined);
  const whole = readAll(wal)!;
  assertEquals([whole.end, whole.commits], [position, seen.length]);
  assertEquals(seen.length, WORK.length);
});

Deno.test("readCommits() reads a transaction far larger than its buffer", () => {
  const files = sample(4096, ["CREATE TABLE t(x)", "INSERT INTO t SELECT randomblob(100000) FROM generate"]);
  assert(files.wal.length > 5 << 20);
  assertSame(readAll(files.wal), reference(files.wal).at(-1));
  assertEquals(overlay(files), recover(files));
});

Deno.test("a log cut at any byte near a frame's end gives only the commits before the cut", () => {
  for (const page_size of [512, 4096]) {
    const { wal } = sample(page_size);
    const states = reference(wal);
    const frame = WAL_FRAME_HEADER_BYTES + page_size;
    for (let boundary = WAL_HEADER_BYTES; boundary <= wal.length; boundary += frame) {
      for (let cut = boundary - 33; cut <= boundary + 33; cut++) {
        if (cut < 0 || cut > wal.length) continue;
        const commit = readAll(wal.subarray(0, cut));
        const expected = states.findLast((state) => state.end <= cut);
        assertEquals(commit?.end.offset, expected?.end);
        assertEquals(commit?.pages.size, expected?.pages.size);
      }
    }
  }
});

Deno.test("a damaged log never gives a commit that the obvious parser would not give", () => {
  const samples = [512, 1024].flatMap((page_size) => {
    const little = sample(page_size, WORK.slice(0, 4)).wal;
    return [little, bigEndian(little)];
  });
  const clean = samples.map((wal) => reference(wal));
  const damage = fc.array(fc.record({ at: fc.nat(), flip: fc.integer({ min: 1, max: 255 }) }), {
    minLength: 1,
    maxLength: 3,
  });
  fc.assert(
    fc.property(fc.nat(samples.length - 1), damage, fc.option(fc.nat()), (which, flips, cut) => {
      const original = samples[which]!;
      const wal = cut === null ? original.slice() : original.slice(0, cut % (original.length + 1));
      for (const { at, flip } of flips) if (wal.length > 0) wal[at % wal.length]! ^= flip;
      const commit = readAll(wal);
      assertSame(commit, reference(wal).at(-1));
      // And it is one of the undamaged log's own commits.
      if (commit) assertSame(commit, clean[which]![commit.commits - 1]);
    }),
    { numRuns: 400 },
  );
});

Deno.test("every single flipped bit of a header makes the log empty", () => {
  const { wal } = sample(512, ["CREATE TABLE t(x)"]);
  assert(readAll(wal));
  for (let bit = 0; bit < WAL_HEADER_BYTES * 8; bit++) {
    const bad = wal.slice();
    bad[bit >> 3]! ^= 1 << (bit & 7);
    assertEquals(parseWalHeader(bad), undefined, `bit ${bit}`);
  }
  assertEquals(parseWalHeader(wal.subarray(0, 31)), undefined);
});

/** A log of the given transactions, each a list of page numbers and the page count after it. */
function build(transactions: { pages: number[]; page_count: number }[]): Uint8Array {
  const wal = new Uint8Array(32 + transactions.flatMap((t) => t.pages).length * 536);
  const view = new DataView(wal.buffer);
  view.setUint32(4, 3007000);
  view.setUint32(8, 512);
  let at = 32;
  for (const { pages, page_count } of transactions) {
    for (const [i, pgno] of pages.entries()) {
      view.setUint32(at, pgno);
      view.setUint32(at + 4, i === pages.length - 1 ? page_count : 0);
      view.setUint32(at + 24, at);
      at += 536;
    }
  }
  view.setUint32(0, 0x377f0682);
  // bigEndian() needs a header that parses, so its own checksum first.
  let [s1, s2] = [0, 0];
  for (let i = 0; i < 24; i += 8) {
    s1 = (s1 + view.getUint32(i, true) + s2) % 2 ** 32;
    s2 = (s2 + view.getUint32(i + 4, true) + s1) % 2 ** 32;
  }
  view.setUint32(24, s1);
  view.setUint32(28, s2);
  return bigEndian(wal);
}

Deno.test("pages past a smaller end are dropped at that commit and are back only when written again", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          pages: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 6 }),
          page_count: fc.integer({ min: 1, max: 12 }),
        }),
        { minLength: 1, maxLength: 8 },
      ),
      (transactions) => {
        const wal = build(transactions);
        const states = reference(wal);
        assertEquals(states.length, transactions.length);
        assertSame(readAll(wal), states.at(-1));
        assertEquals(readAll(wal)?.low_page_count, Math.min(...states.map((state) => state.page_count)));
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("a frame of page 0 ends the log, even with a right checksum", () => {
  const wal = build([{ pages: [1], page_count: 1 }, { pages: [0], page_count: 1 }, { pages: [1], page_count: 1 }]);
  assertEquals(readAll(wal)?.commits, 1);
});

Deno.test("parseWalHeader() states the fields", () => {
  const { wal } = sample(8192, ["CREATE TABLE t(x)"]);
  const view = new DataView(wal.buffer);
  const expected: WalHeader = {
    big_endian_checksums: false,
    page_size: 8192,
    salt1: view.getUint32(16),
    salt2: view.getUint32(20),
    checksum1: view.getUint32(24),
    checksum2: view.getUint32(28),
  };
  assertEquals(parseWalHeader(wal), expected);
});
