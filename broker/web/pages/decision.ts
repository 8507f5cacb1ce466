/**
 * The panel in which a person decides: what is still open, the categories to look at twice, approve and deny.
 *
 * Approve stays disabled until every file of the diff was read, every category ticked and every conflict decided; what a diff does not show is a
 * category too.
 */

import type { TrustBrief } from "../../task/schema.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { shownLine } from "./hidden.ts";

export interface DecisionOptions {
  categories: readonly string[];
  brief: TrustBrief | undefined;
  /** What is shown cannot be approved at all. */
  blocked: boolean;
  approve(acknowledge: string[]): void;
  deny(reason: string): void;
}

interface DecisionState {
  /** What is not read yet, in words. */
  unread: readonly string[];
  /** How many conflicts are not decided yet. */
  undecided: number;
  /** While an answer is on its way nothing can be pressed. */
  busy: boolean;
}

/** Paths that a category lists before one asks for all. */
const MAX_PATHS = 5;

export class DecisionForm {
  readonly element: PageElement;
  readonly #options: DecisionOptions;
  readonly #boxes: { category: string; input: PageElement; row: PageElement }[];
  readonly #approve: PageElement;
  readonly #reason: PageElement;
  readonly #deny: PageElement;
  readonly #open: PageElement;
  #state: DecisionState = { unread: [], undecided: 0, busy: false };

  constructor(options: DecisionOptions) {
    this.#options = options;
    this.#boxes = options.categories.map((category) => this.#category(category));
    this.#approve = elWith("button.approve", {
      type: "submit",
      "aria-describedby": "still-open",
    }, "Approve and push");
    this.#reason = elWith("input", { type: "text", id: "deny-reason", maxlength: 4096, autocomplete: "off" });
    this.#deny = elWith("button.deny", { type: "submit" }, "Deny");
    this.#open = elWith("ul.still-open", { id: "still-open", tabindex: -1 });
    this.element = elWith(
      "section.decision",
      { id: "decision", "aria-labelledby": "decision-title" },
      elWith("h2", { id: "decision-title" }, "Decide"),
      this.#looks(),
      elWith("form", { on: { submit: (event) => this.#submit(event) } }, this.#open, this.#approve),
      elWith(
        "form.deny-form",
        { on: { submit: (event) => this.#refuse(event) } },
        elWith("label", { for: "deny-reason" }, "Reason, for the record"),
        el("div.row", this.#reason, this.#deny),
      ),
    );
    this.#update();
  }

  set(state: Partial<DecisionState>): void {
    Object.assign(this.#state, state);
    this.#update();
  }

  /** Points at categories that the broker still wants to be named. */
  pointAt(missing: readonly string[]): void {
    for (const { category, input, row } of this.#boxes) {
      const unread = missing.includes(category);
      row.classList.toggle("unread", unread);
      if (unread) input.checked = false;
    }
    this.#update();
    this.#boxes.find(({ category }) => missing.includes(category))?.input.focus();
  }

  /** Brings the reader to the button, or to what keeps it disabled. */
  focus(): void {
    this.element.scrollIntoView({ block: "nearest" });
    (this.#approve.disabled ? this.#open : this.#approve).focus({ preventScroll: true });
    (this.#approve.disabled ? this.#open : this.#approve).scrollIntoView({ block: "nearest" });
  }

  focusDeny(): void {
    this.#reason.focus();
  }

  #looks(): PageElement | string {
    if (this.#boxes.length === 0) return "";
    return el("fieldset.looks", el("legend", "Look twice"), ...this.#boxes.map(({ row }) => row));
  }

  #category(category: string): { category: string; input: PageElement; row: PageElement } {
    const input = elWith("input", { type: "checkbox", on: { change: () => this.#update() } });
    const flag = this.#options.brief?.flags.find((known) => known.category === category);
    const paths = flag?.paths ?? [];
    const item = ({ path, detail }: { path: string; detail?: string }) =>
      el("li", el("code", ...shownLine(path)), detail !== undefined && el("small", " ", ...shownLine(detail)));
    const row = el(
      "div.look",
      el(
        "label",
        input,
        el(
          "span",
          el("strong", ...shownLine(category.replaceAll("_", " "))),
          flag !== undefined && el("small", ...shownLine(flag.reason)),
        ),
      ),
      paths.length > 0 && el("ul.look-paths", ...paths.slice(0, MAX_PATHS).map(item)),
      paths.length > MAX_PATHS &&
        el(
          "details",
          el("summary", `${(flag?.count ?? paths.length) - MAX_PATHS} more`),
          el("ul.look-paths", ...paths.slice(MAX_PATHS).map(item)),
        ),
    );
    return { category, input, row };
  }

  #missing(): string[] {
    const { unread, undecided } = this.#state;
    const looks = this.#boxes.filter(({ input }) => !input.checked).length;
    return [
      ...this.#options.blocked ? ["this cannot be approved: see above"] : [],
      ...unread.slice(0, MAX_PATHS),
      ...unread.length > MAX_PATHS ? [`${unread.length - MAX_PATHS} more parts not read`] : [],
      ...undecided === 0 ? [] : [`${counted(undecided, "conflict")} not decided`],
      ...looks === 0 ? [] : [`${counted(looks, "second look")} not ticked`],
    ];
  }

  #update(): void {
    const missing = this.#missing();
    this.#approve.disabled = this.#state.busy || missing.length > 0;
    this.#deny.disabled = this.#state.busy;
    this.#open.replaceChildren(...missing.map((text) => el("li", ...shownLine(text))));
    this.#open.classList.toggle("empty", missing.length === 0);
    if (missing.length === 0) this.#open.append(el("li.ready", "All of it read, all of it ticked."));
  }

  #submit(event: Event): void {
    event.preventDefault();
    if (this.#approve.disabled) return;
    this.#options.approve(this.#boxes.map(({ category }) => category));
  }

  #refuse(event: Event): void {
    event.preventDefault();
    if (!this.#state.busy) this.#options.deny(this.#reason.value.trim());
  }
}
