/**
 * Builds a shop: a made-up but realistic database of customers, products, orders,
 * reviews with full-text search, and click trails, at any size.
 *
 * The same seed, size and SQLite version give the same bytes. A few products sell most, prices end in .99, words repeat
 * as often as in text: so it compresses, scans and splits pages like the real thing, and it runs no clock.
 */

import { DatabaseSync } from "node:sqlite";

export interface ShopOptions {
  /** Size of the file in MiB, 12 to 8192, met within 2 percent. Default 50. */
  size_mb?: number;
  /** Seed of everything random, default 1. */
  seed?: number;
}

export interface Shop {
  size_bytes: number;
  rows: Record<string, number>;
}

const SCHEMA = `
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, phone TEXT, street TEXT NOT NULL, postcode TEXT NOT NULL,
  city TEXT NOT NULL, country TEXT NOT NULL, joined_at TEXT NOT NULL);
CREATE TABLE products (
  id INTEGER PRIMARY KEY, sku TEXT NOT NULL UNIQUE, name TEXT NOT NULL, category TEXT NOT NULL, description TEXT NOT NULL,
  price NUMERIC NOT NULL, stock INTEGER NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers, placed_at TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE order_items (
  order_id INTEGER NOT NULL REFERENCES orders, product_id INTEGER NOT NULL REFERENCES products, quantity INTEGER NOT NULL,
  price NUMERIC NOT NULL, PRIMARY KEY (order_id, product_id)) WITHOUT ROWID;
CREATE TABLE reviews (
  id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES products, customer_id INTEGER NOT NULL REFERENCES customers,
  rating INTEGER NOT NULL CHECK (rating BETWEEN 1 AND 5), title TEXT NOT NULL, body TEXT NOT NULL, written_at TEXT NOT NULL);
CREATE TABLE visits (
  id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, started_at TEXT NOT NULL, agent TEXT NOT NULL, trail TEXT NOT NULL);
`;

// After the rows: an index over sorted rows builds faster and packs tighter than one kept up row by row.
const INDICES = `
CREATE INDEX orders_by_customer ON orders (customer_id, placed_at);
CREATE INDEX items_by_product ON order_items (product_id);
CREATE INDEX reviews_by_product ON reviews (product_id, rating);
CREATE INDEX products_by_category ON products (category, price);
CREATE VIRTUAL TABLE products_search USING fts5(name, description, content='products', content_rowid='id');
CREATE VIRTUAL TABLE reviews_search USING fts5(title, body, content='reviews', content_rowid='id');
INSERT INTO products_search (products_search) VALUES ('rebuild');
INSERT INTO reviews_search (reviews_search) VALUES ('rebuild');
CREATE TRIGGER reviews_added AFTER INSERT ON reviews BEGIN
  INSERT INTO reviews_search (rowid, title, body) VALUES (new.id, new.title, new.body); END;
CREATE TRIGGER reviews_removed AFTER DELETE ON reviews BEGIN
  INSERT INTO reviews_search (reviews_search, rowid, title, body) VALUES ('delete', old.id, old.title, old.body); END;
`;

// Rows per MiB of the tables proper; chosen so that they and their indices fill about 0.8 of it.
const CUSTOMERS_PER_MB = 320;
const PRODUCTS_PER_MB = 60;
const ORDERS_PER_MB = 1_600;
const REVIEWS_PER_MB = 520;
// Past this size only click trails grow, as they do in shops; it keeps a 4 GB build under a minute.
const CORE_LIMIT_MB = 160;
// Trails are slices of one text: longer than any compressor's window at its default level.
const TRAIL_POOL_CHARS = 24 << 20;

const AGENTS = ["Firefox/128.0 (X11; Linux x86_64)", "Chrome/126.0.0.0 (Windows NT 10.0)", "Safari/604.1 (iPhone)"]
  .map((agent) => `Mozilla/5.0 ${agent} AppleWebKit/537.36 (KHTML, like Gecko) Gecko/20100101`);
const CATEGORIES = "kitchen garden office sports toys books lighting tools".split(" ");
const CITIES = "Berlin Paris London Madrid Milano Utrecht Wien Zagreb Porto Oslo Dublin".split(" ");

/** 2,400 invented words of one to three syllables, short ones first, as in a language where common words are short. */
const WORDS: readonly string[] = (() => {
  const syllables = "ba ce di fo gu ha le mi no pu ra se ti vo lu an er in or us".split(" ");
  const [one, two] = [syllables, syllables.flatMap((a) => syllables.map((b) => a + b))];
  return [...one, ...two, ...two.slice(0, 99).flatMap((a) => syllables.map((b) => a + b))];
})();

/**
 * Builds a shop as the SQLite file `path`, which must not exist, in WAL mode and folded into one file. Synchronous:
 * about a second for 50 MB.
 */
export function buildShop(path: string, options: ShopOptions = {}): Shop {
  const db = new DatabaseSync(path);
  try {
    return new ShopBuilder(db, options.seed ?? 1).build(options.size_mb ?? 50);
  } finally {
    db.close();
  }
}

class ShopBuilder {
  readonly #db: DatabaseSync;
  readonly #rows: Record<string, number> = {};
  #state: number;

  constructor(db: DatabaseSync, seed: number) {
    this.#db = db;
    this.#state = seed >>> 0;
    // Nothing to recover: a build that dies is thrown away.
    db.exec(
      "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; PRAGMA foreign_keys = OFF",
    );
  }

  build(size_mb: number): Shop {
    const core_mb = Math.min(size_mb, CORE_LIMIT_MB);
    const customers = Math.round(core_mb * CUSTOMERS_PER_MB);
    const products = Math.round(core_mb * PRODUCTS_PER_MB);
    this.#db.exec(SCHEMA);
    this.#fill("customers", customers, (id) => this.#customer(id));
    const prices: number[] = [];
    this.#fill("products", products, (id) => this.#product(id, prices));
    this.#orders(Math.round(core_mb * ORDERS_PER_MB), customers, prices);
    this.#fill("reviews", Math.round(core_mb * REVIEWS_PER_MB), (id) => [
      id,
      1 + this.#popular(products),
      1 + this.#below(customers),
      this.#pick([5, 5, 5, 5, 4, 4, 4, 3, 2, 1]),
      this.#prose(2, 6),
      this.#prose(15, 110),
      this.#time(2021, 4),
    ]);
    this.#db.exec(INDICES);
    this.#visits(size_mb * 256, customers);
    this.#db.exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE)");
    return { size_bytes: this.#pages() * 4096, rows: this.#rows };
  }

  #pages(): number {
    return Number(this.#db.prepare("PRAGMA page_count").get()!.page_count);
  }

  #fill(table: string, count: number, row: (id: number) => (string | number)[]): void {
    this.#db.exec("BEGIN");
    const columns = this.#db.prepare(`SELECT * FROM ${table}`).columns();
    const insert = this.#db.prepare(`INSERT INTO ${table} VALUES (${columns.map(() => "?").join(", ")})`);
    for (let id = 1; id <= count; id++) insert.run(...row(id));
    this.#db.exec("COMMIT");
    this.#rows[table] = count;
  }

  #customer(id: number): (string | number)[] {
    const [given, family] = [this.#name(), this.#name()];
    return [
      id,
      `${given} ${family}`,
      `${given}.${family}${id}@example.${this.#pick(["com", "org", "net"])}`.toLowerCase(),
      `+${30 + this.#below(60)} ${this.#between(100, 999)} ${this.#between(100_000, 9_999_999)}`,
      `${this.#between(1, 180)} ${this.#name()} ${this.#pick(["Street", "Lane", "Road"])}`,
      String(this.#between(10_000, 99_999)),
      this.#pick(CITIES),
      this.#pick(["DE", "FR", "GB", "ES", "IT", "NL", "AT"]),
      this.#time(2019, 6),
    ];
  }

  #product(id: number, prices: number[]): (string | number)[] {
    const category = this.#pick(CATEGORIES);
    // Log-uniform from 2 to about 700, then with the endings that shops give prices.
    const whole = Math.floor(2 * Math.exp(this.#below(5_860) / 1_000));
    const price = (whole * 100 + this.#pick([99, 99, 99, 95, 90, 49, 50, 0, this.#below(100)])) / 100;
    prices.push(price);
    const sku = `${category.slice(0, 3).toUpperCase()}-${String(id).padStart(6, "0")}`;
    return [id, sku, `${this.#name()} ${this.#name()}`, category, this.#prose(25, 60), price, this.#below(400)];
  }

  #orders(count: number, customers: number, prices: readonly number[]): void {
    const item = this.#db.prepare("INSERT OR IGNORE INTO order_items VALUES (?, ?, ?, ?)");
    let items = 0;
    this.#fill("orders", count, (id) => {
      for (let line = this.#pick([1, 1, 1, 2, 2, 3, 4, 6]); line > 0; line--) {
        const product = this.#popular(prices.length);
        items += Number(item.run(id, product + 1, this.#pick([1, 1, 1, 1, 2, 2, 3]), prices[product]!).changes);
      }
      const open = this.#pick(["new", "paid", "packed"]);
      const closed = this.#below(100) < 6 ? "returned" : "delivered";
      const placed = this.#time(2021 + Math.floor((id * 4) / (count + 1)), 1);
      return [id, 1 + this.#below(customers), placed, id > count * 0.97 ? open : closed];
    });
    this.#rows.order_items = items;
  }

  #visits(target_pages: number, customers: number): void {
    const pool = this.#trails(Math.min(TRAIL_POOL_CHARS, target_pages * 1_024));
    const insert = this.#db.prepare("INSERT INTO visits VALUES (?, ?, ?, ?, ?)");
    let id = 0;
    while (this.#pages() < target_pages) {
      this.#db.exec("BEGIN");
      for (let row = 0; row < 64; row++) {
        const length = 300 + Math.floor(6_000 * this.#next() ** 3);
        const from = pool.indexOf("\n", this.#below(pool.length - length - 300)) + 1;
        const trail = pool.substring(from, from + length);
        insert.run(++id, 1 + this.#below(customers), this.#time(2024, 1), this.#pick(AGENTS), trail);
      }
      this.#db.exec("COMMIT");
    }
    this.#rows.visits = id;
  }

  #trails(length: number): string {
    const lines: string[] = [];
    for (let chars = 0; chars < length;) {
      const page = this.#pick([
        `/product/${1 + this.#popular(9_000)}?ref=${this.#pick(CATEGORIES)}`,
        `/search?q=${this.#word()}+${this.#word()}`,
        `/category/${this.#pick(CATEGORIES)}?page=${this.#between(1, 30)}`,
        `/basket/${this.#below(2 ** 31).toString(36)}`,
      ]);
      const line = `{"t":${this.#between(80, 90_000)},"p":"${page}","x":${this.#below(1_920)},"y":${
        this.#below(8_000)
      }}`;
      lines.push(line);
      chars += line.length + 1;
    }
    return lines.join("\n");
  }

  #prose(low: number, high: number): string {
    let text = this.#name();
    for (let left = this.#between(low, high); left > 1; left--) {
      text += this.#below(100) < 9 ? `. ${this.#name()}` : ` ${this.#word()}`;
    }
    return `${text}.`;
  }

  #name(): string {
    const word = this.#word();
    return word.charAt(0).toUpperCase() + word.slice(1);
  }

  #word(): string {
    return WORDS[this.#popular(WORDS.length)]!;
  }

  #time(year: number, years: number): string {
    const two = (value: number) => String(value).padStart(2, "0");
    const day = `${year + this.#below(years)}-${two(this.#between(1, 12))}-${two(this.#between(1, 28))}`;
    return `${day} ${two(this.#below(24))}:${two(this.#below(60))}:${two(this.#below(60))}`;
  }

  /** The next number in [0, 1) of the seed's sequence (mulberry32). */
  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  #below(count: number): number {
    return Math.floor(this.#next() * count);
  }

  #between(low: number, high: number): number {
    return low + this.#below(high - low + 1);
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#below(items.length)]!;
  }

  /** A rank from 0 by Zipf's law: rank r is 1/(r+1) as likely as rank 0, as with words and with what people buy. */
  #popular(count: number): number {
    return Math.floor((count + 1) ** this.#next()) - 1;
  }
}
