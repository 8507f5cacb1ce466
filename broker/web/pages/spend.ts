/**
 * What a task has spent, as it is reported twice: live by its lease, and by the rows of its trace, which come later and say
 * less. A page shows the later of two figures, so that it never goes down.
 */

import type { TaskView } from "../../api/wire.ts";
import type { SpendFigures } from "../../task/schema.ts";
import { el, type PageElement } from "./dom.ts";
import { cost, counted, dollars } from "./format.ts";

/** Figures of one task that tell which came later. */
type ReportedSpend = Omit<SpendFigures, "priced">;

/** Sums over what is settled: they only grow. */
const SETTLED = ["usd", "unmetered_requests", "input_tokens", "output_tokens"] as const;

export function laterSpend<T extends ReportedSpend>(shown: T | undefined, reported: T): T {
  if (shown === undefined) return reported;
  if (SETTLED.some((sum) => reported[sum] < shown[sum])) return shown;
  if (SETTLED.some((sum) => reported[sum] > shown[sum])) return reported;
  // Requests count from their beginning: with the same sums, more of them is later.
  return reported.requests < shown.requests ? shown : reported;
}

/** What a task has spent, on the page; for the gate also of which budget, and the tokens. */
export class Spent {
  readonly elements: readonly PageElement[] = [el("p.figure"), el("p.hint")];
  readonly #gate: { budget_usd: number } | undefined;
  #spend: SpendFigures | undefined;

  constructor(task: TaskView, gate?: { budget_usd: number }) {
    this.#gate = gate;
    this.#spend = task.live ?? task.spend;
    this.#show();
  }

  set(reported: SpendFigures): void {
    this.#spend = laterSpend(this.#spend, reported);
    this.#show();
  }

  #show(): void {
    const { budget_usd = 0 } = this.#gate ?? {};
    const { requests = 0, unmetered_requests = 0, input_tokens = 0, output_tokens = 0 } = this.#spend ?? {};
    const [figure, detail] = this.elements;
    figure!.textContent = cost(this.#spend);
    detail!.textContent = [
      budget_usd > 0 && `of ${dollars(budget_usd)}`,
      this.#spend !== undefined && counted(requests, "request"),
      unmetered_requests > 0 && `${unmetered_requests} unmetered`,
      this.#gate && this.#spend && `${(input_tokens + output_tokens).toLocaleString("en")} tokens`,
    ].filter((part) => part).join(" · ");
  }
}
