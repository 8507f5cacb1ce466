/**
 * Shows a diff: one part for each file, whose lines are made when they come near.
 *
 * A file counts as read when it is open and its last line has been in sight, with every long line shown whole; or when its
 * box was ticked by hand. Lines wrap, so that nothing can be put out of sight to the right.
 */

import { codeNodes } from "./code.ts";
import type { Diff, DiffFile, DiffLine } from "./diff.ts";
import { browser, el, elWith, type PageElement, type SightObserver } from "./dom.ts";
import { counted } from "./format.ts";
import { runsRightToLeft, shownLine } from "./hidden.ts";
import { tag } from "./page.ts";
import { colouring } from "./syntax.ts";
import { changedWords, type LineChange } from "./changed_words.ts";

/** Lines that are made at once. */
const CHUNK_LINES = 200;
/** Files with more lines begin closed. */
const OPEN_LINES = 1_500;
/** All files together may begin open up to this. */
const OPEN_TOTAL = 20_000;
/** What is shown of a longer line before one asks for the rest. */
const LINE_CHARS = 2_000;
const LINE_PX = 20;

export interface FileView {
  readonly file: DiffFile;
  readonly element: PageElement;
  readonly read: boolean;
  toggle(open?: boolean): void;
  markRead(read: boolean): void;
}

export interface DiffViewOptions {
  signal: AbortSignal;
  /** A file was read, or its tick was taken away. */
  onRead(): void;
}

export function showDiff(diff: Diff, { signal, onRead }: DiffViewOptions): FileView[] {
  const sight = new Sight(signal);
  let budget = OPEN_TOTAL;
  return diff.files.map((file, index) => {
    const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
    const open = lines <= OPEN_LINES && lines <= budget;
    if (open) budget -= lines;
    return new FilePart(file, { id: `file-${index}`, open, sight, onRead });
  });
}

/** Acts once when an element is near, or in sight. */
class Sight {
  readonly #near: SightObserver;
  readonly #inside: SightObserver;
  /** What is still to be done, in the order of the page. */
  readonly #near_actions = new Map<PageElement, () => void>();
  readonly #inside_actions = new Map<PageElement, () => void>();
  readonly #idle: PageElement[] = [];
  readonly #signal: AbortSignal;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    this.#near = observe(this.#near_actions, { rootMargin: "1200px 0px" });
    this.#inside = observe(this.#inside_actions, {});
    // What is printed is all there.
    const printing = () => [...this.#near_actions.keys()].forEach((element) => this.#fill(element));
    browser.addEventListener("beforeprint", printing);
    signal.addEventListener("abort", () => {
      this.#near.disconnect();
      this.#inside.disconnect();
      browser.removeEventListener("beforeprint", printing);
    }, { once: true });
  }

  /** Acts when the element is near; with `soon` also before, when there is time: what is there can be searched for. */
  near(element: PageElement, action: () => void, soon: boolean): void {
    this.#near_actions.set(element, action);
    this.#near.observe(element);
    if (!soon) return;
    this.#idle.push(element);
    if (this.#idle.length === 1) setTimeout(() => this.#fillNext());
  }

  inside(element: PageElement, action: () => void): void {
    this.#inside_actions.set(element, action);
    this.#inside.observe(element);
  }

  /** One after the other, so that the page answers in between. */
  #fillNext(): void {
    if (this.#signal.aborted) return;
    const element = this.#idle.shift();
    if (element !== undefined) this.#fill(element);
    if (this.#idle.length > 0) setTimeout(() => this.#fillNext());
  }

  #fill(element: PageElement): void {
    this.#near.unobserve(element);
    take(this.#near_actions, element)?.();
  }
}

function observe(actions: Map<PageElement, () => void>, options: { rootMargin?: string }): SightObserver {
  const observer: SightObserver = new browser.IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      take(actions, target)?.();
    }
  }, options);
  return observer;
}

function take<K, V>(map: Map<K, V>, key: K): V | undefined {
  const value = map.get(key);
  map.delete(key);
  return value;
}

class FilePart implements FileView {
  readonly file: DiffFile;
  readonly element: PageElement;
  readonly #options: { id: string; open: boolean; sight: Sight; onRead: () => void };
  readonly #tick: PageElement;
  readonly #fold: PageElement;
  readonly #body: PageElement;
  #filled = false;
  #end_seen = false;
  #cut_lines = 0;
  /** What a person has set stays set. */
  #by_hand = false;

  constructor(
    file: DiffFile,
    options: { id: string; open: boolean; sight: Sight; onRead: () => void },
  ) {
    this.file = file;
    this.#options = options;
    const { id } = options;
    this.#tick = elWith("input", {
      type: "checkbox",
      on: {
        change: () => {
          this.#by_hand = true;
          this.#changed();
        },
      },
    });
    this.#body = elWith("div.file-body", { id: `${id}-body` });
    this.#fold = elWith("button.fold", {
      type: "button",
      "aria-controls": `${id}-body`,
      on: { click: () => this.toggle() },
    }, el("span.path", ...shownLine(file.path)));
    this.element = elWith(
      "article.file",
      { id, tabindex: -1, "aria-labelledby": `${id}-name` },
      el(
        "header.file-head",
        elWith("h3", { id: `${id}-name` }, this.#fold),
        file.status === "modified" ? "" : tag(file.status),
        file.binary && tag("binary"),
        counts(file),
        el("label.read", this.#tick, "Read"),
      ),
      this.#body,
    );
    this.toggle(options.open);
  }

  get read(): boolean {
    return this.#tick.checked;
  }

  toggle(open = this.#body.hidden): void {
    this.#body.hidden = !open;
    this.#fold.setAttribute("aria-expanded", String(open));
    this.element.classList.toggle("closed", !open);
    if (!open || this.#filled) return;
    this.#filled = true;
    this.#fill();
  }

  markRead(read: boolean): void {
    this.#by_hand = true;
    this.#set(read);
  }

  #set(read: boolean): void {
    if (this.#tick.checked === read) return;
    this.#tick.checked = read;
    this.#changed();
  }

  #changed(): void {
    this.element.classList.toggle("is-read", this.read);
    this.#options.onRead();
  }

  /** By itself a file becomes read only when nothing of it is left to be shown. */
  #settle(): void {
    if (this.#end_seen && this.#cut_lines === 0 && !this.#by_hand) this.#set(true);
  }

  #fill(): void {
    const { file } = this;
    const { sight } = this.#options;
    const colour = colouring(file.path);
    if (file.notes.length > 0) {
      this.#body.append(
        el("p.file-note", ...file.notes.flatMap((note) => [...shownLine(note), el("br")])),
      );
    }
    if (file.binary) this.#body.append(el("p.file-note", "Binary: its content is not shown."));
    else if (file.hunks.length === 0) this.#body.append(el("p.file-note", "No line is changed."));
    for (const hunk of file.hunks) {
      this.#body.append(
        el("div.hunk", el("span", hunk.range), el("span.place", ...shownLine(hunk.place.slice(0, 200)))),
      );
      for (let at = 0; at < hunk.lines.length; at += CHUNK_LINES) {
        const lines = hunk.lines.slice(at, at + CHUNK_LINES);
        const chunk = el("div.chunk");
        chunk.style.setProperty("--rows", `${lines.length * LINE_PX}px`);
        const cut = lines.filter(({ text }) => text.length > LINE_CHARS).length;
        this.#cut_lines += cut;
        sight.near(chunk, () => {
          chunk.classList.add("filled");
          chunk.append(this.#table(lines, colour));
        }, this.#options.open);
        this.#body.append(chunk);
      }
    }
    const end = el("div.file-end");
    this.#body.append(end);
    sight.inside(end, () => {
      this.#end_seen = true;
      this.#settle();
    });
  }

  #table(lines: readonly DiffLine[], colour: ReturnType<typeof colouring>): PageElement {
    const changes = pairUp(lines);
    const body = el("tbody");
    for (const [index, line] of lines.entries()) body.append(this.#row(line, changes[index]!, colour));
    return elWith("table.code", { role: "presentation" }, body);
  }

  #row(line: DiffLine, changed: LineChange["before"], colour: ReturnType<typeof colouring>): PageElement {
    const { kind, text } = line;
    if (kind === "note") return el("tr.note", number(0), number(0), el("td", ...shownLine(text)));
    const cut = text.length > LINE_CHARS;
    const visible = cut ? text.slice(0, LINE_CHARS) : text;
    // A carriage return at the end is how some systems end lines: it is shown, as everything else.
    const cell = el("td.line", ...codeNodes(visible, { tokens: colour?.(visible) ?? [], changed }));
    if (runsRightToLeft(text)) {
      cell.classList.add("logical");
      cell.setAttribute("title", "Has letters that are written from right to left; shown in the order of the file");
    }
    if (cut) cell.append(this.#rest(text, cell));
    return elWith("tr", { class: kind }, number(line.before), number(line.after), cell);
  }

  #rest(text: string, cell: PageElement): PageElement {
    return elWith("button.more", {
      type: "button",
      on: {
        click: () => {
          cell.replaceChildren(...codeNodes(text, { tokens: [], changed: [] }));
          this.#cut_lines--;
          this.#settle();
        },
      },
    }, `Show ${counted(text.length - LINE_CHARS, "more character")}`);
  }
}

export function counts({ added, deleted }: { added: number; deleted: number }): PageElement {
  return el(
    "span.counts",
    el("span.plus", `+${added.toLocaleString("en")}`),
    " ",
    el("span.minus", `−${deleted.toLocaleString("en")}`),
  );
}

function number(value: number): PageElement {
  // An attribute, shown by the style sheet: so that it is not copied with the code.
  return elWith("td.n", { "data-n": value === 0 ? "" : value });
}

/** The changed words of each line: deleted lines are compared with the added ones that follow them. */
function pairUp(lines: readonly DiffLine[]): LineChange["before"][] {
  const found: LineChange["before"][] = lines.map(() => []);
  for (let at = 0; at < lines.length;) {
    const first = at;
    while (lines[at]?.kind === "deleted") at++;
    const middle = at;
    while (lines[at]?.kind === "added") at++;
    for (let offset = 0; offset < Math.min(middle - first, at - middle); offset++) {
      const change = changedWords(lines[first + offset]!.text, lines[middle + offset]!.text);
      found[first + offset] = change.before;
      found[middle + offset] = change.after;
    }
    if (at === first) at++;
  }
  return found;
}
