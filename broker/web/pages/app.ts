/**
 * Begins the pages: begins or goes on with the session of the tab, finds out which page is asked for, keeps the links
 * between pages within this one document, and shows whether the broker answers.
 */

import { Api } from "./api.ts";
import { browser, byId, type Click, el, elWith, every, type PageElement } from "./dom.ts";
import { duration } from "./format.ts";
import { showHistory } from "./history.ts";
import { Keys } from "./keys.ts";
import { Link } from "./link.ts";
import { failure, notice, type PageContext } from "./page.ts";
import { showPending } from "./pending.ts";
import { endedNotice, enterSession, forgetSession, signIn, takeCode } from "./session.ts";
import { notFound, showTask } from "./task_page.ts";

const LINKS = [["/ui/", "Waiting"], ["/ui/history", "History"]] as const;
/** Between two looks at whether the broker answers and how much waits, in milliseconds. */
const COUNT_MS = 5_000;
/** The same in a tab that is not seen: it keeps the session. */
const HIDDEN_COUNT_MS = 300_000;
/** A session is over after a silence of so long; what answers at its port then may be another program. */
const OVER_MS = 30 * 60_000;
/** A silence is shown after so long: browsers end every request when the machine's network changes. */
const SHOWN_MS = 1_000;
/** And after so long with what to do about it. */
const ADVICE_MS = 10_000;

class App {
  readonly #api: Api;
  readonly #link = new Link();
  readonly #main = byId("main");
  readonly #banner = byId("banner");
  readonly #links: { path: string; element: PageElement }[];
  readonly #count = elWith("span.count", { hidden: true });
  readonly #state = el("span.state");
  readonly #keys: Keys;
  readonly #end_button: PageElement;
  #page = new AbortController();
  readonly #session = new AbortController();
  #ended = false;
  /** Whether the broker has known the session. */
  #known = false;
  #shown_state = "";

  constructor() {
    this.#api = new Api({ link: this.#link, onEnded: () => this.#end() });
    this.#links = LINKS.map(([path, label]) => ({ path, element: elWith("a", { href: path }, label) }));
    this.#links[0]!.element.append(this.#count);
    this.#keys = new Keys([
      { key: "w", does: "what waits for approval", run: () => this.go("/ui/") },
      { key: "h", does: "history", run: () => this.go("/ui/history") },
    ]);
    this.#end_button = elWith("button.plain.end", {
      type: "button",
      hidden: true,
      on: { click: () => void this.#signOut() },
    }, "End session");
    byId("bar").append(
      elWith("a.brand", { href: "/ui/" }, "taskd"),
      elWith("nav", { "aria-label": "Pages" }, ...this.#links.map(({ element }) => element)),
      this.#state,
      this.#end_button,
      elWith("button.plain.keys", {
        type: "button",
        "aria-label": "Keys",
        on: { click: () => this.#keys.help() },
      }, "?"),
    );
  }

  /** Shows the page of the address, with the session of the tab. */
  async start(): Promise<void> {
    every(1_000, this.#session.signal, () => this.#showState());
    const code = takeCode();
    if (!await enterSession(this.#api, code)) {
      this.#session.abort();
      this.#main.replaceChildren(signIn(code === undefined ? "none" : "used"));
      return;
    }
    this.#end_button.hidden = false;
    browser.document.addEventListener("click", (event) => this.#click(event as Click));
    browser.addEventListener("popstate", () => void this.show());
    every(COUNT_MS, this.#session.signal, () => this.#recount(), HIDDEN_COUNT_MS);
    void this.#recount();
    await this.show();
  }

  go(path: string): void {
    browser.history.pushState(null, "", path);
    void this.show(true);
  }

  /** Shows the page of the address; `moved` puts the reader at its beginning. */
  async show(moved = false): Promise<void> {
    this.#page.abort();
    if (this.#ended) return this.#showEnded();
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
      go: (path) => this.go(path),
    };
  }

  async #recount(): Promise<void> {
    try {
      const waiting = await this.#api.pulse();
      this.#known = true;
      this.#count.textContent = String(waiting);
      this.#count.hidden = waiting === 0;
      this.#count.setAttribute("aria-label", `${waiting} waiting`);
    } catch {
      // The bar says that the broker does not answer.
      this.#count.hidden = true;
    }
  }

  /** Says in the bar that the broker is silent, and since when; after a while also what to do. */
  #showState(): void {
    const { why, lost_ms, answered_ms } = this.#link.silence ?? { lost_ms: 0, answered_ms: 0 };
    if (lost_ms > OVER_MS) return this.#end();
    const state = lost_ms < SHOWN_MS || why === undefined
      ? ""
      : why === "no answer"
      ? "The broker does not answer"
      : "No connection to the broker";
    this.#state.textContent = state && `${state}, trying again. Last answer ${duration(answered_ms)} ago`;
    if (state !== this.#shown_state) {
      byId("live").textContent = state === "" ? "The broker answers again" : `${state}, trying again`;
    }
    this.#shown_state = state;
    if (lost_ms < ADVICE_MS) this.#banner.replaceChildren();
    else if (this.#banner.children.length === 0) this.#banner.append(advice());
  }

  async #signOut(): Promise<void> {
    // A broker that does not answer ends it later by itself.
    await this.#api.endSession().catch(() => {});
    this.#end();
    this.#showEnded();
  }

  /** What is being read stays. */
  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#session.abort();
    this.#page.abort();
    forgetSession(this.#api);
    this.#end_button.hidden = true;
    this.#state.textContent = "";
    if (this.#known) this.#banner.replaceChildren(endedNotice());
    else this.#showEnded();
  }

  #showEnded(): void {
    this.#banner.replaceChildren();
    this.#main.replaceChildren(signIn("ended"));
  }

  #click(event: Click): void {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const path = (event.target as PageElement).closest("a")?.getAttribute("href");
    if (path?.startsWith("/ui/") !== true) return;
    event.preventDefault();
    this.go(path);
  }
}

function advice(): PageElement {
  return notice(
    "warn",
    el("strong", "What is shown may be out of date. "),
    "The page goes on by itself when the broker answers. If it has stopped, ",
    el("code", "taskd start"),
    " starts it; one that was started since has its pages at another address, which ",
    el("code", "taskd ui"),
    " prints.",
  );
}

await new App().start();
