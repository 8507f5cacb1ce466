/**
 * The changed rows of one table, loaded as the reader goes. Few of them are in the document at once, however many there
 * are: what lies above keeps its height, and comes back when the reader does.
 *
 * A table counts as read when all of its rows have been in sight, unfiltered or kind by kind, with no value of them
 * folded; or when its box was ticked by hand.
 */

import type { BriefDatabase, RowChange } from "../../task/database_schema.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../../task/row_pages.ts";
import { rowCount, type SeenRows } from "../../task/seen.ts";
import { browser, el, elWith, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { failure, tag } from "./page.ts";
import { columnsOf, foldedIn, rowElement } from "./row_view.ts";

export type ChangedTable = BriefDatabase["tables"][number];
type Kind = RowChange["change"];
type Filter = Kind | "all";

/** Elements of rows in the document before those furthest away are taken out. */
const MOST_ELEMENTS = 1_800;
/** Elements of a cell, about. */
const CELL_ELEMENTS = 5;
/** How far from the window rows are made, in pixels. */
const NEAR_PX = 400;
const FIRST_ROWS = 20;
const MOST_ROWS = 60;
/** More than a value has. */
const WHOLE_BYTES = 16 << 20;
const FILTERS: readonly Filter[] = ["all", "changed", "removed", "added"];

export interface TableViewOptions {
  id: string;
  database: { db: string; base: string };
  table: ChangedTable;
  open: boolean;
  signal: AbortSignal;
  rows(query: DatabaseDiffQuery): Promise<DatabaseRows>;
  onRead(): void;
}

/** Rows that came in one answer, and what came before. */
interface Part {
  cursor: string | undefined;
  limit: number;
  /** Number of its first row, from 0. */
  from: number;
  height: number;
  rows: RowChange[];
  body?: PageElement;
}

export class TableView {
  /** As a file has them: what the list of parts shows. */
  readonly file: { path: string; added: number; deleted: number };
  readonly element: PageElement;
  readonly #options: TableViewOptions;
  readonly #total: number;
  readonly #tick: PageElement;
  readonly #fold: PageElement;
  readonly #body: PageElement = el("div.file-body");
  readonly #above: PageElement = el("div.above");
  readonly #head: PageElement = el("tr");
  readonly #table: PageElement;
  readonly #below: PageElement = el("div.below");
  readonly #status: PageElement = elWith("p.hint", { role: "status" });
  readonly #filters = new Map<Filter, PageElement>();
  readonly #unfold: PageElement;
  readonly #search: PageElement;
  #filter: Filter = "all";
  #parts: Part[] = [];
  /** Those in the document: from, to. */
  #window: [number, number] = [0, 0];
  #next: string | undefined;
  #ended = false;
  #loading = false;
  #round = 0;
  #columns: string[] = [];
  #same: string[] = [];
  #unfolded = false;
  /** Rows that were in sight, by filter. */
  readonly #reached: Record<Filter, number> = { all: 0, changed: 0, removed: 0, added: 0 };
  #folded = 0;
  #by_hand = false;

  constructor(options: TableViewOptions) {
    this.#options = options;
    const { id, database: { db, base }, table } = options;
    const { rows_added, rows_changed, rows_removed } = table;
    this.#total = rowCount(table);
    const path = `${db}@${base} ${table.table}`;
    this.file = { path, added: rows_added + rows_changed, deleted: rows_removed + rows_changed };
    this.#tick = elWith("input", { type: "checkbox", on: { change: () => this.markRead(this.#tick.checked) } });
    this.#fold = elWith(
      "button.fold",
      { type: "button", on: { click: () => this.toggle() } },
      el("span.path", ...shownLine(path)),
    );
    this.#table = el("table.rows", el("thead", this.#head));
    for (const filter of FILTERS) {
      const count = filter === "all" ? this.#total : table[`rows_${filter}`];
      const button = elWith(
        "button",
        { type: "button", on: { click: () => this.#show(filter) } },
        `${filter} ${count.toLocaleString("en")}`,
      );
      if (count > 0) this.#filters.set(filter, button);
    }
    this.#search = elWith("input", {
      type: "search",
      placeholder: "Search values",
      "aria-label": `Search the rows of ${path}`,
      on: { change: () => this.#show(this.#filter) },
    });
    this.#unfold = elWith("button.more", { type: "button", on: { click: () => this.#toggleColumns() } });
    this.element = elWith(
      "article.file.rows-of",
      { id, tabindex: -1, "aria-labelledby": `${id}-name` },
      el(
        "header.file-head",
        elWith("h3", { id: `${id}-name` }, this.#fold),
        table.change === "changed"
          ? ""
          : tag(table.change === "added" ? "new table" : table.change === "removed" ? "table removed" : table.change),
        table.internal === true && tag("internal"),
        el("label.read", this.#tick, "Read"),
      ),
      this.#body,
    );
    // Rows are asked for before their place is in sight, and read once it is.
    this.#watch(this.#below, NEAR_PX, () => this.#further());
    this.#watch(this.#above, NEAR_PX, () => this.#back());
    this.#watch(this.#below, 0, () => this.#sighted());
    this.toggle(options.open);
  }

  #watch(element: PageElement, margin: number, act: () => void): void {
    const sight = new browser.IntersectionObserver((entries) => {
      if (entries.at(-1)?.isIntersecting) act();
    }, { rootMargin: `${margin}px 0px` });
    sight.observe(element);
    this.#options.signal.addEventListener("abort", () => sight.disconnect(), { once: true });
  }

  get name(): string {
    return this.#options.table.table;
  }

  get read(): boolean {
    return this.#tick.checked;
  }

  /** How many rows were not in sight. */
  get unread(): number {
    const { all, changed, removed, added } = this.#reached;
    return Math.max(0, this.#total - Math.max(all, changed + removed + added));
  }

  /** For the record of the approval. */
  get seen(): SeenRows {
    return { name: this.file.path, to: this.unread === 0 ? this.#total : this.#reached.all, of: this.#total };
  }

  toggle(open = this.#body.hidden): void {
    this.#body.hidden = !open;
    this.#fold.setAttribute("aria-expanded", String(open));
    this.element.classList.toggle("closed", !open);
    this.#body.replaceChildren();
    if (!open) return void this.#round++;
    this.#body.append(
      el("div.row-tools", ...this.#filters.values(), this.#search, this.#unfold),
      el("div.rows-frame", this.#above, this.#table, this.#below),
      this.#status,
    );
    this.#show(this.#filter);
  }

  markRead(read: boolean): void {
    this.#by_hand = true;
    this.#set(read);
  }

  #set(read: boolean): void {
    this.#tick.checked = read;
    this.element.classList.toggle("is-read", read);
    this.#options.onRead();
  }

  /** From the first row on. */
  #show(filter: Filter): void {
    this.#filter = filter;
    this.#round++;
    for (const [name, button] of this.#filters) button.setAttribute("aria-pressed", String(name === filter));
    for (const part of this.#parts) part.body?.remove();
    this.#parts = [];
    this.#window = [0, 0];
    // What was left folded stays unread.
    this.#by_hand ||= this.#folded > 0;
    this.#folded = 0;
    this.#next = undefined;
    this.#ended = this.#loading = false;
    this.#columns = this.#same = [];
    this.#place();
    void this.#load();
  }

  #query(cursor: string | undefined, limit: number): DatabaseDiffQuery {
    const search = this.#search.value;
    return {
      database: this.#options.database.db,
      table: this.#options.table.table,
      limit,
      ...(this.#filter === "all" ? {} : { kind: this.#filter }),
      ...(search === "" ? {} : { search }),
      ...(cursor === undefined ? {} : { cursor }),
    };
  }

  async #load(): Promise<void> {
    if (this.#loading || this.#ended) return;
    this.#loading = true;
    const round = this.#round;
    const [cursor, limit] = [this.#next, this.#limit()];
    this.#status.textContent = "Reading rows…";
    try {
      const { rows, next } = await this.#options.rows(this.#query(cursor, limit));
      if (round !== this.#round) return;
      const last = this.#parts.at(-1);
      const from = last === undefined ? 0 : last.from + last.rows.length;
      this.#next = next;
      this.#ended = next === undefined;
      if (rows.length > 0) {
        this.#parts.push({ cursor, limit, from, height: 0, rows });
        this.#folded += this.#search.value === "" ? rows.reduce((sum, row) => sum + foldedIn(row), 0) : 0;
        this.#fill(this.#parts.length - 1);
        this.#trim("above");
      }
      this.#loading = false;
      this.#say();
      this.#again();
    } catch (error) {
      if (round !== this.#round || this.#options.signal.aborted) return;
      this.#ended = true;
      this.#status.replaceChildren(failure(error));
      if (this.#parts.length > 0) return;
      // What the brief has is here in any case.
      const { rows = [] } = this.#options.table;
      this.#parts = [{ cursor: undefined, limit: rows.length, from: 0, height: 0, rows }];
      this.#fill(0);
    }
  }

  /** The end may be in sight still: an observer speaks of changes alone. */
  #again(): void {
    if (this.#isNear(0)) this.#sighted();
    if (this.#isNear(NEAR_PX)) setTimeout(() => this.#further());
  }

  #isNear(margin: number): boolean {
    const { top, bottom } = this.#below.getBoundingClientRect();
    return bottom > -margin && top < browser.innerHeight + margin && !this.#body.hidden;
  }

  /** The reader is at the end of what is there. */
  #sighted(): void {
    const last = this.#parts[this.#window[1] - 1];
    if (last === undefined || this.#search.value !== "") return;
    this.#reached[this.#filter] = Math.max(this.#reached[this.#filter], last.from + last.rows.length);
    if (this.unread === 0 && this.#folded === 0 && !this.#by_hand && !this.read) this.#set(true);
    else this.#options.onRead();
  }

  #limit(): number {
    const columns = this.#visible().length;
    return columns === 0 ? FIRST_ROWS : Math.max(4, Math.min(MOST_ROWS, Math.floor(600 / (columns * CELL_ELEMENTS))));
  }

  #visible(): string[] {
    return this.#unfolded ? [...this.#columns, ...this.#same] : this.#columns;
  }

  #further(): void {
    const [, to] = this.#window;
    if (to < this.#parts.length) {
      this.#fill(to);
      this.#trim("above");
      this.#say();
      this.#again();
    } else void this.#load();
  }

  /** The reader is above what is there. */
  #back(): void {
    const [from] = this.#window;
    if (from === 0) return;
    const above = -this.#above.getBoundingClientRect().top;
    let [at, height] = [0, 0];
    while (at < from - 1 && height + this.#parts[at]!.height <= above) height += this.#parts[at++]!.height;
    if (at < from - 1) {
      for (const part of this.#parts.slice(...this.#window)) this.#take(part);
      this.#window = [at, at];
      this.#fill(at);
    } else {
      this.#fill(from - 1);
      this.#trim("below");
    }
    this.#say();
  }

  /** Puts a part that touches the window into the document. */
  #fill(at: number): void {
    const part = this.#parts[at]!;
    this.#learn(part.rows);
    part.body = this.#bodyOf(part);
    const [from, to] = this.#window;
    const before = at < from ? this.#parts[from]?.body : undefined;
    if (before === undefined) this.#table.append(part.body);
    else this.#table.insertBefore(part.body, before);
    this.#window = at < from ? [at, to] : [from, at + 1];
    this.#place();
  }

  #bodyOf(part: Part): PageElement {
    const columns = this.#visible();
    return el("tbody", ...part.rows.map((row) => rowElement(row, columns, () => void this.#whole(part))));
  }

  /** A column that has not been seen to differ may do so further on. */
  #learn(rows: readonly RowChange[]): void {
    const [columns, same] = [new Set(this.#columns), new Set(this.#same)];
    for (const row of rows) {
      const found = columnsOf(row);
      for (const name of found.shown) columns.add(name);
      for (const name of found.same) same.add(name);
    }
    const known = this.#columns.length + this.#same.length;
    this.#same = [...same].filter((name) => !columns.has(name));
    if (columns.size === this.#columns.length && known === columns.size + this.#same.length) return;
    this.#columns = [...columns];
    this.#drawAgain();
  }

  #drawAgain(): void {
    const same = this.#same.length;
    this.#unfold.hidden = same === 0;
    this.#unfold.textContent = `${this.#unfolded ? "Fold" : "Show"} ${counted(same, "unchanged column")}`;
    this.#head.replaceChildren(el("th"), ...this.#visible().map((name) => el("th", ...shownLine(name))));
    for (const part of this.#parts.slice(...this.#window)) {
      const body = this.#bodyOf(part);
      part.body?.replaceWith(body);
      part.body = body;
    }
  }

  #toggleColumns(): void {
    this.#unfolded = !this.#unfolded;
    this.#drawAgain();
    this.#trim("above");
  }

  /** Takes out what is furthest away. */
  #trim(side: "above" | "below"): void {
    const row = (this.#visible().length + 1) * CELL_ELEMENTS;
    const size = () => this.#parts.slice(...this.#window).reduce((sum, { rows }) => sum + rows.length * row, 0);
    while (size() > MOST_ELEMENTS && this.#window[1] - this.#window[0] > 1) {
      this.#take(this.#parts[side === "above" ? this.#window[0]++ : --this.#window[1]]!);
    }
    this.#place();
  }

  #take(part: Part): void {
    part.height = part.body?.getBoundingClientRect().height ?? 0;
    part.body?.remove();
    delete part.body;
  }

  #place(): void {
    const height = this.#parts.slice(0, this.#window[0]).reduce((sum, part) => sum + part.height, 0);
    this.#above.style.setProperty("height", `${height}px`);
  }

  /** Reads the rows of a part again, with their values in full. */
  async #whole(part: Part): Promise<void> {
    const round = this.#round;
    const rows: RowChange[] = [];
    try {
      for (let cursor = part.cursor; rows.length < part.rows.length;) {
        const query = { ...this.#query(cursor, part.rows.length - rows.length), value_bytes: WHOLE_BYTES };
        const page = await this.#options.rows(query);
        rows.push(...page.rows);
        cursor = page.next;
        if (cursor === undefined) break;
      }
    } catch (error) {
      return this.#status.replaceChildren(failure(error));
    }
    if (round !== this.#round) return;
    this.#folded -= part.rows.reduce((sum, row) => sum + foldedIn(row), 0);
    part.rows = rows;
    this.#drawAgain();
    this.#again();
  }

  #say(): void {
    const [first, last] = [this.#parts[this.#window[0]], this.#parts[this.#window[1] - 1]];
    const of = this.#filter === "all" ? this.#total : this.#options.table[`rows_${this.#filter}`];
    const number = (count: number) => count.toLocaleString("en");
    const folded = this.#folded === 0 ? "" : `; ${counted(this.#folded, "value")} folded`;
    const found = this.#search.value === "" ? `of ${number(of)}` : this.#ended ? "found" : "found so far";
    this.#status.textContent = first === undefined || last === undefined
      ? "No rows"
      : `Rows ${number(first.from + 1)} to ${number(last.from + last.rows.length)} ${found}${folded}`;
  }
}
