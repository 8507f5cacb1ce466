/**
 * SentDecisions that got no answer: whether they were carried out is not known, so they are never sent again, and what became
 * of them is looked up. The broker may still receive one that is on its way.
 */

import type { TaskView } from "../../api/wire.ts";
import { ApiError } from "./api.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { shownLine } from "./hidden.ts";
import { notice } from "./page.ts";
import { OUTCOME_LABELS, STAGE_LABELS } from "./stages.ts";

/** The decisions that a page sends about its task. */
export interface SentDecisions {
  /** Called before one is sent: an earlier one is of no interest any more. */
  sending(): void;
  /** Looks up what became of one without an answer; undefined when the page is shown anew for it. */
  lookUp(asked: string): Promise<PageElement | undefined>;
}

/** Whether a request failed without an answer. */
export function isUnknown(error: unknown): boolean {
  return error instanceof ApiError && error.status === 0;
}

/** Said at once. */
export function unknownOutcome(asked: string, id: string): PageElement {
  return notice(
    "bad",
    el("strong", `The broker gave no answer to “${asked}”: its outcome is unknown.`),
    " It is not sent again. This page looks the task up as soon as the broker answers; on the command line ",
    el("code", `taskd inspect ${id.slice(0, 12)}`),
    " does.",
  );
}

/** Said of a task that was to be begun: it would be another one. */
export function unknownRepetition(): PageElement {
  return notice(
    "bad",
    el("strong", "The broker gave no answer: whether another task was begun is unknown."),
    " Look ",
    elWith("a", { href: "/ui/" }, "at what is under way"),
    " before you ask again.",
  );
}

/** Whether a task has moved since `before`. */
export function hasMoved(before: TaskView, now: TaskView): boolean {
  return now.stage !== before.stage || now.stage_since !== before.stage_since;
}

/** Said once the task was looked up. */
export function foundOutcome(asked: string, before: TaskView, now: TaskView): PageElement {
  const { stage, outcome } = now;
  const label = outcome === undefined ? STAGE_LABELS[stage] : OUTCOME_LABELS[outcome][0];
  const [title, text] = hasMoved(before, now)
    ? [`The broker gave no answer to “${asked}”. What became of it: `, `${label}.`]
    : [
      `“${asked}” is not on the record: the task is as it was. `,
      `${label}. If it still arrives, this page shows it. You can decide again.`,
    ];
  return notice("warn", el("strong", title), ...shownLine(text));
}
