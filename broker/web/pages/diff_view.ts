/**
 * Shows a diff: one part for each file, whose lines are made when they come near. Of many files, or many lines, those that
 * are far leave the document again; what was read, opened and shown whole is remembered.
 *
 * A file counts as read when it is open and its last line has been in sight, with every long line shown whole; or when its
 * box was ticked by hand. Lines wrap, so that nothing can be put out of sight to the right.
 */

import { codeNodes } from "./code.ts";
import type { Diff, DiffFile, DiffLine } from "./diff.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { runsRightToLeft, shownLine } from "./hidden.ts";
import { tag } from "./page.ts";
import { Sight } from "./sight.ts";
import { colouring } from "./syntax.ts";
import { changedWords, type LineChange } from "./changed_words.ts";

/** Lines that are made at once. */
const CHUNK_LINES = 200;
/** Files with more lines begin closed. */
const OPEN_LINES = 1_500;
/** With more files, or more lines in all of them, only what is near is in the document. */
const KEPT_FILES = 200;
const KEPT_LINES = 20_000;
/** Files that come and go together, and the lines at which such a group ends. */
const GROUP_FILES = 20;
const GROUP_LINES = 200;
/** What is shown of a longer line before one asks for the rest. */
const LINE_CHARS = 2_000;
/** Heights, about: of a line, of a hunk's head, of a file's head with what is around it. */
const LINE_PX = 20;
const HUNK_PX = 30;
const HEAD_PX = 66;

/** A part of the change that is read by itself: a file, a definition, the rows of a table. */
export interface FileView {
  readonly file: Pick<DiffFile, "path" | "added" | "deleted">;
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

/** Whether all of a diff may be in the document at once. */
export function isKept({ files }: Diff): boolean {
  return files.length <= KEPT_FILES && files.reduce((sum, file) => sum + lineCount(file), 0) <= KEPT_LINES;
}

/** Each file, and the elements in which they come. */
export function showDiff(
  diff: Diff,
  { signal, onRead }: DiffViewOptions,
): { views: FileView[]; elements: PageElement[] } {
  const keep = isKept(diff);
  const sight = new Sight(signal, keep);
  const groups: { element: PageElement; parts: FilePart[]; lines: number; height_px: number }[] = [];
  const views = diff.files.map((file, index) => {
    const lines = lineCount(file);
    let group = groups.at(-1);
    if (group === undefined || group.parts.length === GROUP_FILES || group.lines + lines > GROUP_LINES) {
      groups.push(group = { element: el("div"), parts: [], lines: 0, height_px: 0 });
    }
    const { element } = group;
    const open = lines <= OPEN_LINES;
    const part = new FilePart(file, { id: `file-${index}`, open, sight, onRead, show: () => sight.fill(element) });
    group.parts.push(part);
    group.lines += lines;
    group.height_px += HEAD_PX + (open ? lines * LINE_PX + file.hunks.length * HUNK_PX : 0);
    return part;
  });
  if (keep) return { views, elements: views.map((part) => part.make()) };
  for (const { element, parts, height_px } of groups) {
    sight.near(element, height_px, {
      make: () => parts.map((part) => part.make()),
      left: () => parts.forEach((part) => part.leave()),
    });
  }
  return { views, elements: groups.map(({ element }) => element) };
}

function lineCount(file: DiffFile): number {
  return file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
}

/** The elements of a file that change. */
interface FileElements {
  root: PageElement;
  tick: PageElement;
  fold: PageElement;
  body: PageElement;
}

interface FileOptions {
  id: string;
  open: boolean;
  sight: Sight;
  onRead(): void;
  /** Puts it into the document. */
  show(): void;
}

class FilePart implements FileView {
  readonly file: DiffFile;
  readonly #options: FileOptions;
  #elements: FileElements | undefined;
  /** What is watched of them. */
  #watched: PageElement[] = [];
  #open: boolean;
  #read = false;
  #end_seen = false;
  /** Long lines that were shown whole, of so many. */
  readonly #whole = new Set<DiffLine>();
  readonly #long: number;
  /** What a person has set stays set. */
  #by_hand = false;

  constructor(file: DiffFile, options: FileOptions) {
    this.file = file;
    this.#options = options;
    this.#open = options.open;
    this.#long = file.hunks.reduce((sum, { lines }) => sum + lines.filter(isLong).length, 0);
  }

  get element(): PageElement {
    this.#options.show();
    return this.#elements!.root;
  }

  get read(): boolean {
    return this.#read;
  }

  make(): PageElement {
    const { file } = this;
    const { id } = this.#options;
    const tick = elWith("input", { type: "checkbox", on: { change: () => this.markRead(tick.checked) } });
    const body = elWith("div.file-body", { id: `${id}-body` });
    const fold = elWith("button.fold", {
      type: "button",
      "aria-controls": `${id}-body`,
      on: { click: () => this.toggle() },
    }, el("span.path", ...shownLine(file.path)));
    const root = elWith(
      "article.file",
      { id, tabindex: -1, "aria-labelledby": `${id}-name` },
      el(
        "header.file-head",
        elWith("h3", { id: `${id}-name` }, fold),
        file.status === "modified" ? "" : tag(file.status),
        file.binary && tag("binary"),
        counts(file),
        el("label.read", tick, "Read"),
      ),
      body,
    );
    this.#elements = { root, tick, fold, body };
    this.#mark();
    this.toggle(this.#open);
    return root;
  }

  /** Its elements have left the document. */
  leave(): void {
    for (const element of this.#watched) this.#options.sight.forget(element);
    this.#watched = [];
    this.#elements = undefined;
  }

  toggle(open = !this.#open): void {
    this.#open = open;
    if (this.#elements === undefined) return;
    const { root, fold, body } = this.#elements;
    body.hidden = !open;
    fold.setAttribute("aria-expanded", String(open));
    root.classList.toggle("closed", !open);
    if (open && body.children.length === 0) this.#fill(body);
  }

  markRead(read: boolean): void {
    this.#by_hand = true;
    this.#set(read);
  }

  #set(read: boolean): void {
    if (this.#read === read) return;
    this.#read = read;
    this.#mark();
    this.#options.onRead();
  }

  #mark(): void {
    if (this.#elements === undefined) return;
    this.#elements.tick.checked = this.#read;
    this.#elements.root.classList.toggle("is-read", this.#read);
  }

  /** By itself a file becomes read only when nothing of it is left to be shown. */
  #settle(): void {
    if (this.#end_seen && this.#whole.size === this.#long && !this.#by_hand) this.#set(true);
  }

  #fill(body: PageElement): void {
    const { file } = this;
    const { sight } = this.#options;
    const colour = colouring(file.path);
    if (file.notes.length > 0) {
      body.append(
        el("p.file-note", ...file.notes.flatMap((note) => [...shownLine(note), el("br")])),
      );
    }
    if (file.binary) body.append(el("p.file-note", "Binary: its content is not shown."));
    else if (file.hunks.length === 0) body.append(el("p.file-note", "No line is changed."));
    for (const hunk of file.hunks) {
      body.append(
        el("div.hunk", el("span", hunk.range), el("span.place", ...shownLine(hunk.place.slice(0, 200)))),
      );
      for (let at = 0; at < hunk.lines.length; at += CHUNK_LINES) {
        const lines = hunk.lines.slice(at, at + CHUNK_LINES);
        const chunk = el("div.chunk");
        this.#watched.push(chunk);
        const height_px = lines.length * LINE_PX;
        chunk.style.setProperty("--rows", `${height_px}px`);
        sight.near(chunk, height_px, {
          make: () => {
            chunk.classList.add("filled");
            return [this.#table(lines, colour)];
          },
          left: () => chunk.classList.remove("filled"),
        });
        body.append(chunk);
      }
    }
    const end = el("div.file-end");
    body.append(end);
    if (this.#end_seen) return;
    this.#watched.push(end);
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
    const cut = isLong(line) && !this.#whole.has(line);
    const visible = cut ? text.slice(0, LINE_CHARS) : text;
    // A carriage return at the end is how some systems end lines: it is shown, as everything else.
    const cell = el("td.line", ...codeNodes(visible, { tokens: colour?.(visible) ?? [], changed }));
    if (runsRightToLeft(text)) {
      cell.classList.add("logical");
      cell.setAttribute("title", "Has letters that are written from right to left; shown in the order of the file");
    }
    if (cut) cell.append(this.#rest(line, cell));
    return elWith("tr", { class: kind }, number(line.before), number(line.after), cell);
  }

  #rest(line: DiffLine, cell: PageElement): PageElement {
    const { text } = line;
    return elWith("button.more", {
      type: "button",
      on: {
        click: () => {
          cell.replaceChildren(...codeNodes(text, { tokens: [], changed: [] }));
          this.#whole.add(line);
          this.#settle();
        },
      },
    }, `Show ${counted(text.length - LINE_CHARS, "more character")}`);
  }
}

function isLong({ text }: DiffLine): boolean {
  return text.length > LINE_CHARS;
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
