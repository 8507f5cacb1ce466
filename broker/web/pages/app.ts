/**
 * Begins the pages: takes the token out of the address, finds out which page is asked for, and keeps the links between
 * pages within this one document, because the token lives in its memory and nowhere else.
 */

import { Api } from "./api.ts";
import { browser, byId, type Click, el, elWith, every, type PageElement } from "./dom.ts";
import { showHistory } from "./history.ts";
import { Keys } from "./keys.ts";
import { failure, type PageContext } from "./page.ts";
import { showPending } from "./pending.ts";
import { notFound, showTask } from "./task_page.ts";

const LINKS = [["/ui/", "Waiting"], ["/ui/history", "History"]] as const;
const COUNT_MS = 5_000;

/** Takes `#token=...` out of the address, where it would stay in the history and be copied along. */
function takeToken(): string | undefined {
  const { hash, pathname } = browser.location;
  const token = /^#token=([\x21-\x7e]+)$/.exec(hash)?.[1];
  if (hash !== "") browser.history.replaceState(null, "", pathname);
  return token;
}

function withoutToken(main: PageElement): void {
  main.replaceChildren(
    el(
      "div.narrow.sign-in",
      el("h1", "This page needs its token"),
      el(
        "p",
        "The token is part of the address that the command prints. It stays in this tab alone, and reloading the tab forgets it.",
      ),
      el("pre.command", "taskd ui"),
      el("p.hint", "Open the address that it prints. Each start of the broker makes a new token."),
    ),
  );
}

class App {
  readonly #api: Api;
  readonly #main = byId("main");
  readonly #links: { path: string; element: PageElement }[];
  readonly #count = elWith("span.count", { hidden: true });
  readonly #link = elWith("span.link", { role: "status" });
  readonly #keys: Keys;
  #page = new AbortController();

  constructor(api: Api) {
    this.#api = api;
    this.#links = LINKS.map(([path, label]) => ({ path, element: elWith("a", { href: path }, label) }));
    this.#links[0]!.element.append(this.#count);
    this.#keys = new Keys([
      { key: "w", does: "what waits for approval", run: () => this.go("/ui/") },
      { key: "h", does: "history", run: () => this.go("/ui/history") },
    ]);
    byId("bar").append(
      elWith("a.brand", { href: "/ui/" }, "taskd"),
      elWith("nav", { "aria-label": "Pages" }, ...this.#links.map(({ element }) => element)),
      this.#link,
      elWith("button.plain.keys", {
        type: "button",
        "aria-label": "Keys",
        on: { click: () => this.#keys.help() },
      }, "?"),
    );
    browser.document.addEventListener("click", (event) => this.#click(event as Click));
    browser.addEventListener("popstate", () => void this.show());
    every(COUNT_MS, new AbortController().signal, () => void this.#recount());
    void this.#recount();
  }

  go(path: string): void {
    browser.history.pushState(null, "", path);
    void this.show(true);
  }

  /** Shows the page of the address; `moved` puts the reader at its beginning. */
  async show(moved = false): Promise<void> {
    this.#page.abort();
    this.#page = new AbortController();
    const { pathname } = browser.location;
    for (const { path, element } of this.#links) {
      if (path === pathname) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
    }
    if (moved) {
      browser.scrollTo({ top: 0 });
      this.#main.focus({ preventScroll: true });
    }
    const context = this.#context(this.#page.signal);
    const id = /^\/ui\/tasks\/([0-9a-f]{1,32})$/.exec(pathname)?.[1];
    try {
      if (pathname === "/ui/") await showPending(context);
      else if (pathname === "/ui/history") await showHistory(context);
      else if (id === undefined) notFound(context);
      else await showTask(context, id);
    } catch (error) {
      if (!context.signal.aborted) this.#main.replaceChildren(failure(error));
    }
  }

  #context(signal: AbortSignal): PageContext {
    return {
      api: this.#api,
      main: this.#main,
      signal,
      setTitle: (title) => {
        browser.document.title = `${title} · taskd`;
      },
      setShortcuts: (shortcuts) => this.#keys.set(shortcuts),
      announce: (text) => {
        byId("live").textContent = text;
      },
      setLink: (up) => {
        this.#link.textContent = up ? "" : "Connecting again…";
      },
      go: (path) => this.go(path),
    };
  }

  async #recount(): Promise<void> {
    try {
      const { length } = await this.#api.pending(new AbortController().signal);
      this.#count.textContent = String(length);
      this.#count.hidden = length === 0;
      this.#count.setAttribute("aria-label", `${length} waiting`);
    } catch {
      // The page itself says that the broker does not answer.
      this.#count.hidden = true;
    }
  }

  #click(event: Click): void {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const path = (event.target as PageElement).closest("a")?.getAttribute("href");
    if (path?.startsWith("/ui/") !== true) return;
    event.preventDefault();
    this.go(path);
  }
}

const token = takeToken();
if (token === undefined) withoutToken(byId("main"));
else await new App(new Api(token)).show();
