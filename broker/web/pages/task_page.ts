/**
 * The page of one task: its gate while it waits for approval, else what it does or has come to. It follows the task, and
 * changes over when the task moves on.
 */

import type { TaskEventView, TaskView } from "../../api/wire.ts";
import type { Stage } from "../../task/stages.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { repoName } from "./format.ts";
import { decidedChanges, showGate } from "./gate.ts";
import { showLive } from "./live.ts";
import { failure, notice, type PageContext } from "./page.ts";
import { OUTCOME_LABELS, STAGE_LABELS } from "./stages.ts";
import { foundOutcome, hasMoved, type SentDecisions } from "./unanswered.ts";

export async function showTask(context: PageContext, id: string): Promise<void> {
  await new Turn(context, id).show();
}

/** Stages in which a task offers something else than before. */
const ANOTHER_PAGE: ReadonlySet<Stage> = new Set(["awaiting_approval", "pushing", "push_failed", "data_waits"]);

/** One showing after the other, each of which ends the one before. */
class Turn {
  readonly #context: PageContext;
  readonly #id: string;
  #showing = new AbortController();
  /** What was decided without an answer, and of which state of the task, until the task has moved. */
  #unanswered: { asked: string; before: TaskView } | undefined;

  constructor(context: PageContext, id: string) {
    this.#context = context;
    this.#id = id;
  }

  async show(message?: PageElement): Promise<void> {
    this.#showing.abort();
    this.#showing = new AbortController();
    const signal = AbortSignal.any([this.#showing.signal, this.#context.signal]);
    const context = { ...this.#context, signal };
    try {
      const task = await context.api.task(this.#id, signal);
      const { asked, before } = this.#unanswered ?? {};
      this.#unanswered = undefined;
      if (asked !== undefined && before !== undefined) message ??= foundOutcome(asked, before, task);
      context.setTitle(
        `${task.stage === "awaiting_approval" ? "Approve" : STAGE_LABELS[task.stage]}: ${repoName(task.repo)}`,
      );
      if (task.stage === "awaiting_approval") await this.#gate(context, task, message);
      else await this.#live(context, task, message);
    } catch (error) {
      if (!signal.aborted) context.main.replaceChildren(failure(error));
    }
  }

  async #gate(context: PageContext, task: TaskView, message?: PageElement): Promise<void> {
    const view = await showGate(context, {
      task,
      message,
      reload: (next) => void this.show(next),
      decisions: this.#decisions(context, task),
    });
    await this.#follow(context, task, (event) => {
      if (event.event === "spend") view.setSpend(event.data);
      const gate = event.event === "stage" ? event.data.gate : undefined;
      if (gate !== undefined && gate.diff_sha256 !== task.gate?.diff_sha256) {
        void this.show(notice("warn", "The diff has changed. This is the one at the gate now."));
      }
    });
  }

  async #live(context: PageContext, task: TaskView, message?: PageElement): Promise<void> {
    const brief = await context.api.brief(task.id, context.signal);
    const changes = await decidedChanges(context, task, brief);
    const view = showLive(context, {
      task,
      brief,
      changes,
      decisions: this.#decisions(context, task),
      message,
    });
    await this.#follow(context, task, (event) => view.take(event), 0);
  }

  #decisions(context: PageContext, task: TaskView): SentDecisions {
    return {
      sending: () => this.#unanswered = undefined,
      lookUp: (asked) => this.#lookUp(context, task, asked),
    };
  }

  async #lookUp({ api, signal }: PageContext, before: TaskView, asked: string): Promise<PageElement | undefined> {
    this.#unanswered = { asked, before };
    if (signal.aborted) {
      // The task has moved already, and the page with it.
      if (!this.#context.signal.aborted) void this.show();
      return undefined;
    }
    try {
      const now = await api.task(this.#id, signal);
      // The page is shown anew already, or is another one.
      if (this.#unanswered === undefined || signal.aborted) return undefined;
      // It may still be on its way: what becomes of it then is said, too.
      if (!hasMoved(before, now)) return foundOutcome(asked, before, now);
      void this.show();
      return undefined;
    } catch (error) {
      return signal.aborted ? undefined : failure(error);
    }
  }

  /** Follows the rows after number `after`; a move that the page has not shown yet may need another page. */
  async #follow(
    context: PageContext,
    task: TaskView,
    take: (event: TaskEventView) => void,
    after = task.seq,
  ): Promise<void> {
    await context.api.follow(task.id, {
      after,
      signal: context.signal,
      onEvent: (event, seq) => {
        take(event);
        if (seq === undefined || seq <= task.seq) return;
        if (event.event === "result") {
          context.announce(OUTCOME_LABELS[event.data.outcome][0]);
          void this.show();
        } else if (event.event === "stage") {
          const { stage } = event.data;
          context.announce(STAGE_LABELS[stage]);
          if (task.stage === "awaiting_approval" || ANOTHER_PAGE.has(stage)) void this.show();
        }
      },
    });
  }
}

export function notFound(context: PageContext): void {
  context.setTitle("Not found");
  context.main.replaceChildren(
    el("h1", "There is no such page"),
    el("p", elWith("a", { href: "/ui/" }, "What waits for approval")),
  );
}
