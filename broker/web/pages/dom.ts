/**
 * The browser, as far as the pages use it: its types, and the one way in which elements are made.
 *
 * The types are written out because Deno's own and those of a browser contradict each other when both are loaded for one
 * check. Text gets into a page as text nodes alone: there is no call here that reads markup.
 */

export interface PageNode extends EventTarget {
  textContent: string | null;
}

/** An element of the page, with the properties of those kinds that the pages use. */
export interface PageElement extends PageNode {
  id: string;
  hidden: boolean;
  readonly classList: {
    add(name: string): void;
    remove(name: string): void;
    toggle(name: string, on?: boolean): boolean;
  };
  readonly style: { setProperty(name: string, value: string): void };
  readonly children: ArrayLike<PageElement>;
  /** Of inputs and buttons. */
  value: string;
  checked: boolean;
  disabled: boolean;
  /** Of dialogs and details. */
  open: boolean;
  scrollTop: number;
  readonly scrollHeight: number;
  readonly clientHeight: number;
  append(...children: (PageNode | string)[]): void;
  insertBefore(child: PageNode, before: PageNode | null): void;
  replaceWith(other: PageNode): void;
  getBoundingClientRect(): { readonly top: number; readonly bottom: number; readonly height: number };
  replaceChildren(...children: (PageNode | string)[]): void;
  remove(): void;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  getAttribute(name: string): string | null;
  querySelector(selector: string): PageElement | null;
  closest(selector: string): PageElement | null;
  matches(selector: string): boolean;
  scrollIntoView(options: { block: "start" | "center" | "nearest" }): void;
  focus(options?: { preventScroll: boolean }): void;
  showModal(): void;
  close(): void;
}

export interface KeyPress extends Event {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly repeat: boolean;
}

export interface Click extends Event {
  readonly button: number;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly shiftKey: boolean;
}

interface SightEntry {
  readonly target: PageElement;
  readonly isIntersecting: boolean;
  readonly boundingClientRect: { readonly height: number };
}

export interface SightObserver {
  observe(element: PageElement): void;
  unobserve(element: PageElement): void;
  disconnect(): void;
}

export interface Browser extends EventTarget {
  readonly document: {
    title: string;
    readonly visibilityState: "visible" | "hidden";
    readonly activeElement: PageElement | null;
    readonly body: PageElement;
    createElement(tag: string): PageElement;
    createElementNS(namespace: string, tag: string): PageElement;
    getElementById(id: string): PageElement | null;
    addEventListener(type: string, listener: (event: Event) => void, options?: { signal: AbortSignal }): void;
  };
  readonly location: { pathname: string; hash: string };
  readonly history: {
    pushState(state: null, unused: string, url: string): void;
    replaceState(state: null, unused: string, url: string): void;
  };
  /** Of this tab and origin: a reload keeps it, a closed tab takes it along. */
  readonly sessionStorage: {
    getItem(name: string): string | null;
    setItem(name: string, value: string): void;
    removeItem(name: string): void;
  };
  readonly innerHeight: number;
  scrollTo(options: { top: number }): void;
  readonly IntersectionObserver: new (
    callback: (entries: SightEntry[]) => void,
    options?: { rootMargin?: string },
  ) => SightObserver;
}

export const browser: Browser = globalThis as unknown as Browser;

/** Attributes by name, and listeners by the name of their event. */
export interface ElementOptions {
  [attribute: string]: string | number | boolean | undefined | Record<string, (event: Event) => void>;
  on?: Record<string, (event: Event) => void>;
}

/** A child; `false` and `undefined` are left out. */
export type Child = PageNode | string | false | undefined;

/** An element; `name` is a tag with its classes, such as `p.hint`. Strings become text. */
export function el(name: string, ...children: Child[]): PageElement {
  return elWith(name, {}, ...children);
}

export function elWith(name: string, options: ElementOptions, ...children: Child[]): PageElement {
  const [tag, ...classes] = name.split(".");
  const element = fill(browser.document.createElement(tag!), options, children);
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  return element;
}

export function svg(tag: string, options: ElementOptions, ...children: Child[]): PageElement {
  return fill(browser.document.createElementNS("http://www.w3.org/2000/svg", tag), options, children);
}

function fill(element: PageElement, options: ElementOptions, children: readonly Child[]): PageElement {
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === "object") {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is PageNode | string => child !== undefined && child !== false));
  return element;
}

export function byId(id: string): PageElement {
  const found = browser.document.getElementById(id);
  if (found === null) throw new Error(`The page has no element ${id}`);
  return found;
}

/**
 * Calls `action` again and again while the page is seen, and as soon as it is seen again; never while a call goes on.
 *
 * @param hidden_ms How often in a tab that is not seen; never by default.
 */
export function every(
  period_ms: number,
  signal: AbortSignal,
  action: () => void | Promise<void>,
  hidden_ms = Infinity,
): void {
  let running = false;
  let last_ms = performance.now();
  const run = async () => {
    const seen = browser.document.visibilityState === "visible";
    if (running || signal.aborted || !seen && performance.now() - last_ms < hidden_ms) return;
    running = true;
    last_ms = performance.now();
    try {
      await action();
    } finally {
      running = false;
    }
  };
  const timer = setInterval(() => void run(), period_ms);
  browser.document.addEventListener("visibilitychange", () => void run(), { signal });
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}
