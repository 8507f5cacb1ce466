/**
 * The output of a task: the last lines, following the newest unless the reader has scrolled up.
 */

import { el, elWith, type PageElement } from "./dom.ts";
import { shown } from "./hidden.ts";

/** Pieces that stay on the page; the log has them all. */
const MAX_PIECES = 2_000;
/** Colours of a terminal say nothing here; every other sequence is shown as what it is. */
// deno-lint-ignore no-control-regex
const COLOUR = /\u001b\[[\d;]*m/g;

export class Output {
  readonly element: PageElement;
  readonly #pane: PageElement;
  readonly #follow: PageElement;
  readonly #dropped: PageElement;

  constructor() {
    this.#pane = elWith("pre.output", { tabindex: 0, role: "log", "aria-live": "off", "aria-label": "Output" });
    this.#pane.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.#pane;
      this.#follow.checked = scrollHeight - scrollTop - clientHeight < 24;
    });
    this.#follow = elWith("input", { type: "checkbox", checked: true, on: { change: () => this.#scroll() } });
    this.#dropped = elWith("p.hint", { hidden: true }, "Earlier output is in the task's log.");
    this.element = el("div", this.#dropped, this.#pane, el("label.follow", this.#follow, "Follow"));
  }

  add(text: string, options: { channel: string; cut_chars?: number }): void {
    const { channel, cut_chars = 0 } = options;
    const line = text.endsWith("\n") ? text : `${text}\n`;
    this.#pane.append(
      elWith("span", { class: `o-${channel}` }, ...shown(line.replaceAll(COLOUR, "").replaceAll("\r\n", "\n"))),
    );
    if (cut_chars > 0) this.#pane.append(el("span.o-note", `(${cut_chars} more characters)\n`));
    while (this.#pane.children.length > MAX_PIECES) {
      this.#pane.children[0]!.remove();
      this.#dropped.hidden = false;
    }
    this.#scroll();
  }

  #scroll(): void {
    if (this.#follow.checked) this.#pane.scrollTop = this.#pane.scrollHeight;
  }
}
