/**
 * Shortcuts of one key, and the overlay that lists them. They can be switched off there, for those whose voice or
 * switch control types letters.
 */

import { browser, el, elWith, type KeyPress, type PageElement } from "./dom.ts";
import type { Shortcut } from "./page.ts";

/** The shortcuts of the page that is shown, and those of every page. */
export class Keys {
  readonly #general: readonly Shortcut[];
  readonly #dialog: PageElement;
  #page: readonly Shortcut[] = [];
  #on = true;

  constructor(general: readonly Shortcut[]) {
    this.#general = [...general, { key: "?", does: "this list", run: () => this.help() }];
    this.#dialog = elWith("dialog.help", { "aria-labelledby": "help-title" });
    browser.document.body.append(this.#dialog);
    browser.addEventListener("keydown", (event) => this.#press(event as KeyPress));
  }

  set(shortcuts: readonly Shortcut[]): void {
    this.#page = shortcuts;
  }

  help(): void {
    if (this.#dialog.open) return;
    const list = [...this.#page, ...this.#general];
    const toggle = elWith("input", {
      type: "checkbox",
      checked: this.#on,
      on: { change: () => this.#on = toggle.checked },
    });
    this.#dialog.replaceChildren(
      elWith("h2", { id: "help-title" }, "Keys"),
      el("dl", ...list.map(({ key, does }) => el("div", el("dt", el("kbd", key)), el("dd", does)))),
      el("label.row", toggle, "Use these keys"),
      elWith("button.plain", { type: "button", on: { click: () => this.#dialog.close() } }, "Close"),
    );
    this.#dialog.showModal();
  }

  #press(event: KeyPress): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || this.#dialog.open) return;
    const focus = browser.document.activeElement;
    if (focus?.matches("input:not([type=checkbox]), textarea, select") ?? false) return;
    const found = [...this.#page, ...this.#general].find(({ key }) => key === event.key);
    if (found === undefined || !this.#on && found.key !== "?") return;
    event.preventDefault();
    found.run();
  }
}
