/**
 * What every page is given, and the parts that several pages have.
 */

import { type Api, ApiError } from "./api.ts";
import { type Child, el, elWith, type PageElement } from "./dom.ts";
import { shown, shownLine } from "./hidden.ts";

/** A key and what it does; the overlay behind `?` lists them. */
export interface Shortcut {
  key: string;
  does: string;
  run(): void;
}

export interface PageContext {
  api: Api;
  main: PageElement;
  /** Aborted when another page takes over. */
  signal: AbortSignal;
  setTitle(title: string): void;
  setShortcuts(shortcuts: readonly Shortcut[]): void;
  /** Announces to screen readers. */
  announce(text: string): void;
  go(path: string): void;
}

export function notice(kind: "bad" | "warn", ...content: Child[]): PageElement {
  return elWith("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, ...content);
}

/** What went wrong, with what to do about it. */
export function failure(error: unknown): PageElement {
  const problem = error instanceof ApiError ? error.problem : {};
  const text = error instanceof Error ? error.message : String(error);
  return notice(
    "bad",
    el("strong", ...shownLine(text)),
    problem.hint === undefined ? "" : el("span", " ", ...shownLine(problem.hint)),
  );
}

export function section(
  title: string,
  options: { id?: string; class?: string },
  ...content: (PageElement | false)[]
): PageElement {
  const id = options.id ?? title.toLowerCase().replaceAll(/[^a-z]+/g, "-");
  return elWith(
    "section",
    { class: `section ${options.class ?? ""}`.trim(), "aria-labelledby": `${id}-title` },
    elWith("h2", { id: `${id}-title` }, title),
    ...content,
  );
}

/** A list of names and values; entries without a value are left out. */
export function facts(entries: readonly (readonly [string, PageElement | string | undefined])[]): PageElement {
  return el(
    "dl.facts",
    ...entries.flatMap(([name, value]) =>
      value === undefined
        ? []
        : [el("div", el("dt", name), el("dd", ...(typeof value === "string" ? shownLine(value) : [value])))]
    ),
  );
}

/** A table, by the heads of its columns. */
export function tableOf(kind: string, heads: readonly string[], body: PageElement): PageElement {
  const head = el("tr", ...heads.map((text) => elWith("th", { scope: "col" }, ...shownLine(text))));
  return el(`table.${kind}`, el("thead", head), body);
}

export function prose(text: string, name: string): PageElement {
  return el("div.prose", ...shown(text.replaceAll("\r\n", "\n")), el("span.sr", ` (end of the ${name})`));
}

export function taskLink(id: string, ...content: Child[]): PageElement {
  return elWith("a", { href: `/ui/tasks/${id}` }, ...content);
}

export function lineOf(text: string): PageElement {
  return el("span", ...shownLine(text));
}

export function tag(text: string, kind = ""): PageElement {
  return elWith("span", { class: `tag ${kind}`.trim() }, text);
}
