/**
 * Builds the shop: a made-up but realistic database of customers, products, orders,
 * reviews with full-text search, and click trails, at any size from 12 MB to 4 GB.
 *
 * The same seed, size and SQLite version give the same bytes. A few products
 * sell most, prices end in .99, text repeats as text does: so it compresses, scans
 * and splits pages like the real thing, and it runs no clock.
 *
 * @module
 */

import { DatabaseSync } from "node:sqlite";
import { SeededRandom, ZipfTable } from "./seeded_random.ts";
import {
  CATEGORIES,
  CITIES,
  FAMILY_NAMES,
  GIVEN_NAMES,
  QUALITIES,
  STREET_KINDS,
  STREETS,
  THINGS,
  VOCABULARY,
} from "./vocabulary.ts";

/** How a shop is made. */
export interface ShopOptions {
  /** Size of the file in MiB, 12 to 8192; met within 2 percent. Default 50. */
  size_mb?: number;
  /** Seed of everything random, default 1. */
  seed?: number;
}

/** What {@linkcode buildShop} made. */
export interface Shop {
  /** Size of the file. */
  size_bytes: number;
  /** Rows by table. */
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

const AGENTS = [
  "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
  "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
  "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
];

/**
 * Builds a shop as the SQLite file `path`, in WAL mode and folded into one file.
 * Synchronous: about a second for 50 MB.
 *
 * @param path Where; the file must not exist
 * @param options Size and seed
 * @returns Its size and rows
 */
export function buildShop(path: string, options: ShopOptions = {}): Shop {
  const size_mb = options.size_mb ?? 50;
  const builder = new ShopBuilder(path, options.seed ?? 1);
  try {
    return builder.build(size_mb);
  } finally {
    builder.close();
  }
}

class ShopBuilder {
  readonly #db: DatabaseSync;
  readonly #random: SeededRandom;
  readonly #words = new ZipfTable(VOCABULARY.length, 1);
  readonly #rows: Record<string, number> = {};

  constructor(path: string, seed: number) {
    this.#db = new DatabaseSync(path);
    this.#random = new SeededRandom(seed);
    // Nothing to recover: a build that dies is thrown away.
    this.#db.exec(
      "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536",
    );
  }

  build(size_mb: number): Shop {
    const core_mb = Math.min(size_mb, CORE_LIMIT_MB);
    const customers = Math.round(core_mb * CUSTOMERS_PER_MB);
    const products = Math.round(core_mb * PRODUCTS_PER_MB);
    this.#db.exec(SCHEMA);
    this.#fill("customers", 9, customers, (id) => this.#customer(id));
    const prices: number[] = [];
    this.#fill("products", 7, products, (id) => this.#product(id, prices));
    this.#orders(Math.round(core_mb * ORDERS_PER_MB), customers, prices);
    const popular = new ZipfTable(products, 0.8);
    this.#fill("reviews", 7, Math.round(core_mb * REVIEWS_PER_MB), (id) => this.#review(id, popular, customers));
    this.#db.exec(INDICES);
    this.#visits(size_mb * 256, customers);
    this.#db.exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE)");
    const size_bytes = this.#pages() * 4096;
    return { size_bytes, rows: this.#rows };
  }

  close(): void {
    this.#db.close();
  }

  #pages(): number {
    return Number(this.#db.prepare("PRAGMA page_count").get()!.page_count);
  }

  #fill(table: string, columns: number, count: number, row: (id: number) => (string | number)[]): void {
    const insert = this.#db.prepare(`INSERT INTO ${table} VALUES (${Array(columns).fill("?").join(", ")})`);
    this.#db.exec("BEGIN");
    for (let id = 1; id <= count; id++) insert.run(...row(id));
    this.#db.exec("COMMIT");
    this.#rows[table] = count;
  }

  #customer(id: number): (string | number)[] {
    const random = this.#random;
    const given = random.pick(GIVEN_NAMES);
    const family = random.pick(FAMILY_NAMES);
    const [city, country, dial] = random.pick(CITIES);
    const email = `${given}.${family}${id}@example.${random.pick(["com", "org", "net"])}`.toLowerCase();
    const phone = `${dial} ${random.between(100, 999)} ${random.between(100_000, 9_999_999)}`;
    const street = `${random.between(1, 180)} ${random.pick(STREETS)} ${random.pick(STREET_KINDS)}`;
    return [
      id,
      `${given} ${family}`,
      email,
      phone,
      street,
      String(random.between(10_000, 99_999)),
      city,
      country,
      this.#time(2019, 6),
    ];
  }

  #product(id: number, prices: number[]): (string | number)[] {
    const random = this.#random;
    const name = `${random.pick(QUALITIES)} ${random.pick(THINGS)}${
      random.chance(0.3) ? ` ${random.between(2, 900)}` : ""
    }`;
    const category = random.pick(CATEGORIES);
    // Log-uniform from 2 to about 700, then dressed as shops do.
    const whole = Math.floor(2 * Math.exp(random.below(5_860) / 1_000));
    const price = (whole * 100 + random.pick([99, 99, 99, 95, 90, 49, 50, 0, random.below(100)])) / 100;
    prices.push(price);
    return [
      id,
      `${category.slice(0, 3).toUpperCase()}-${String(id).padStart(6, "0")}`,
      name,
      category,
      this.#prose(25, 60),
      price,
      random.below(400),
    ];
  }

  #orders(count: number, customers: number, prices: readonly number[]): void {
    const random = this.#random;
    const popular = new ZipfTable(prices.length, 0.9);
    const loyal = new ZipfTable(customers, 0.6);
    const order = this.#db.prepare("INSERT INTO orders VALUES (?, ?, ?, ?)");
    const item = this.#db.prepare("INSERT OR IGNORE INTO order_items VALUES (?, ?, ?, ?)");
    let items = 0;
    this.#db.exec("BEGIN");
    for (let id = 1; id <= count; id++) {
      const open = id > count * 0.97;
      const status = open ? random.pick(["new", "paid", "packed"]) : random.chance(0.06) ? "returned" : "delivered";
      order.run(id, 1 + loyal.draw(random), this.#time(2021 + Math.floor((id * 4) / (count + 1)), 1), status);
      for (let line = random.pick([1, 1, 1, 2, 2, 3, 4, 6]); line > 0; line--) {
        const product = popular.draw(random);
        items += Number(item.run(id, product + 1, random.pick([1, 1, 1, 1, 2, 2, 3]), prices[product]!).changes);
      }
    }
    this.#db.exec("COMMIT");
    this.#rows.orders = count;
    this.#rows.order_items = items;
  }

  #review(id: number, popular: ZipfTable, customers: number): (string | number)[] {
    const random = this.#random;
    const rating = random.pick([5, 5, 5, 5, 4, 4, 4, 3, 2, 1]);
    return [
      id,
      1 + popular.draw(random),
      1 + random.below(customers),
      rating,
      this.#prose(2, 6),
      this.#prose(15, 110),
      this.#time(2021, 4),
    ];
  }

  #visits(target_pages: number, customers: number): void {
    const random = this.#random;
    const pool = this.#trails(Math.min(TRAIL_POOL_CHARS, target_pages * 1_024));
    const insert = this.#db.prepare("INSERT INTO visits VALUES (?, ?, ?, ?, ?)");
    let id = 0;
    while (this.#pages() < target_pages) {
      this.#db.exec("BEGIN");
      for (let row = 0; row < 64; row++) {
        const length = 300 + Math.floor(6_000 * (random.next() / 0x1_0000_0000) ** 3);
        const from = pool.indexOf("\n", random.below(pool.length - length - 300)) + 1;
        insert.run(
          ++id,
          1 + random.below(customers),
          this.#time(2024, 1),
          random.pick(AGENTS),
          pool.substring(from, from + length),
        );
      }
      this.#db.exec("COMMIT");
    }
    this.#rows.visits = id;
  }

  #trails(length: number): string {
    const random = this.#random;
    const products = new ZipfTable(9_000, 0.7);
    const lines: string[] = [];
    for (let chars = 0; chars < length;) {
      const ms = random.between(80, 90_000);
      const page = random.pick([
        `/product/${1 + products.draw(random)}?ref=${random.pick(CATEGORIES)}`,
        `/search?q=${VOCABULARY[this.#words.draw(random)]}+${VOCABULARY[this.#words.draw(random)]}`,
        `/category/${random.pick(CATEGORIES)}?page=${random.between(1, 30)}`,
        `/basket/${random.next().toString(36)}`,
      ]);
      const line = `{"t":${ms},"p":"${page}","x":${random.below(1_920)},"y":${random.below(8_000)}}`;
      lines.push(line);
      chars += line.length + 1;
    }
    return lines.join("\n");
  }

  #prose(low: number, high: number): string {
    const random = this.#random;
    let text = "";
    let start = true;
    for (let left = random.between(low, high); left > 0; left--) {
      const word = VOCABULARY[this.#words.draw(random)]!;
      text += start ? word.charAt(0).toUpperCase() + word.slice(1) : word;
      start = left > 1 && random.chance(0.09);
      text += start ? ". " : left > 1 ? " " : ".";
    }
    return text;
  }

  #time(year: number, years: number): string {
    const random = this.#random;
    const two = (value: number) => String(value).padStart(2, "0");
    const day = `${year + random.below(years)}-${two(random.between(1, 12))}-${two(random.between(1, 28))}`;
    return `${day} ${two(random.below(24))}:${two(random.below(60))}:${two(random.below(60))}`;
  }
}
