/**
 * Parts of a long page, whose content is in the document while it is near what the reader sees.
 *
 * A part that is far is an empty element of the height that it had, so that nothing moves; what is kept stays once made.
 */

import { browser, type PageElement, type PageNode, type SightObserver } from "./dom.ts";

/** How far from what is in sight a part is made. */
const NEAR = "1200px 0px";

interface Part {
  make(): readonly PageNode[];
  /** Its content has left the document. */
  left?(): void;
  filled: boolean;
}

/** Makes parts when they come near, and acts once when an element is in sight. */
export class Sight {
  readonly #keep: boolean;
  readonly #near: SightObserver;
  readonly #inside: SightObserver;
  /** In the order of the page. */
  readonly #parts = new Map<PageElement, Part>();
  readonly #actions = new Map<PageElement, () => void>();
  readonly #idle: PageElement[] = [];
  readonly #signal: AbortSignal;

  /** With `keep` parts that were made stay, and all are made when there is time: what is there can be searched for. */
  constructor(signal: AbortSignal, keep: boolean) {
    this.#signal = signal;
    this.#keep = keep;
    this.#near = new browser.IntersectionObserver((entries) => {
      for (const { target, isIntersecting, boundingClientRect } of entries) {
        if (isIntersecting) this.fill(target);
        else this.#empty(target, boundingClientRect.height);
      }
    }, { rootMargin: NEAR });
    this.#inside = new browser.IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        const act = this.#actions.get(target);
        this.forget(target);
        act?.();
      }
    }, {});
    // What is printed is all there; what is far leaves again.
    const printing = () => {
      for (const element of this.#parts.keys()) {
        this.fill(element);
        this.#near.unobserve(element);
        if (this.#parts.has(element)) this.#near.observe(element);
      }
    };
    browser.addEventListener("beforeprint", printing);
    signal.addEventListener("abort", () => {
      this.#near.disconnect();
      this.#inside.disconnect();
      browser.removeEventListener("beforeprint", printing);
    }, { once: true });
  }

  /** Makes what is in an element when that is near; until then it has `height_px`. */
  near(element: PageElement, height_px: number, part: Omit<Part, "filled">): void {
    element.style.setProperty("height", `${height_px}px`);
    this.#parts.set(element, { ...part, filled: false });
    this.#near.observe(element);
    if (!this.#keep) return;
    this.#idle.push(element);
    if (this.#idle.length === 1) setTimeout(() => this.#fillNext());
  }

  inside(element: PageElement, action: () => void): void {
    this.#actions.set(element, action);
    this.#inside.observe(element);
  }

  /** For an element that is no longer in the document. */
  forget(element: PageElement): void {
    this.#near.unobserve(element);
    this.#inside.unobserve(element);
    this.#parts.delete(element);
    this.#actions.delete(element);
  }

  fill(element: PageElement): void {
    const part = this.#parts.get(element);
    if (part === undefined || part.filled) return;
    if (this.#keep) this.forget(element);
    part.filled = true;
    element.style.setProperty("height", "");
    element.append(...part.make());
  }

  #empty(element: PageElement, height_px: number): void {
    const part = this.#parts.get(element);
    // What has the focus keeps it.
    if (part?.filled !== true || element.querySelector(":focus") !== null) return;
    part.filled = false;
    element.style.setProperty("height", `${height_px}px`);
    element.replaceChildren();
    part.left?.();
  }

  /** One after the other, so that the page answers in between. */
  #fillNext(): void {
    if (this.#signal.aborted) return;
    const element = this.#idle.shift();
    if (element !== undefined) this.fill(element);
    if (this.#idle.length > 0) setTimeout(() => this.#fillNext());
  }
}
