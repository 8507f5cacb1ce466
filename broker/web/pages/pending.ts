/**
 * What waits for approval, and what is under way.
 */

import type { PendingTask, TaskListItem } from "../../api/wire.ts";
import { type Child, el, every, type PageElement } from "./dom.ts";
import { ago, cost, counted, duration, opening, repoName } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { failure, lineOf, type PageContext, section, tag, taskLink } from "./page.ts";
import { STAGE_LABELS } from "./stages.ts";

const REFRESH_MS = 2_000;
const NOTHING = "Nothing waits. A task that is done with its work shows up here by itself.";
/** Tasks that are looked through for those under way: the newest. */
const RECENT = 50;

export async function showPending(context: PageContext): Promise<void> {
  const { api, main, signal } = context;
  context.setShortcuts([]);
  const waiting = el("div");
  const running = el("div");
  main.replaceChildren(el("div.narrow", el("h1", "Waiting for approval"), waiting, running));
  let last = "";
  let count: number | undefined;
  const refresh = async () => {
    try {
      const [pending, { tasks }] = await Promise.all([api.pending(signal), api.tasks({ limit: RECENT, signal })]);
      const active = tasks.filter(({ stage }) => stage !== "done" && stage !== "awaiting_approval");
      context.setTitle(pending.length === 0 ? "Nothing waits" : `${pending.length} waiting`);
      if (count !== undefined && pending.length > count) {
        context.announce(`${counted(pending.length, "task")} waiting for approval`);
      }
      count = pending.length;
      // A list that is made anew loses the reader's place: only when something is different.
      const now_ms = Date.now();
      const state = JSON.stringify([
        pending.map((task) => ({ ...task, expires_in_ms: 0 })),
        active,
        Math.floor(now_ms / 30_000),
      ]);
      if (state === last) return;
      last = state;
      const focus = main.querySelector("a:focus")?.getAttribute("href");
      waiting.replaceChildren(
        pending.length === 0 ? el("p.empty", NOTHING) : el("ul.cards", ...pending.map((task) => card(task, now_ms))),
      );
      running.replaceChildren(
        active.length === 0
          ? ""
          : section("Under way", {}, el("ul.cards", ...active.map((task) => activeCard(task, now_ms)))),
      );
      if (focus !== undefined && focus !== null) {
        main.querySelector(`a[href="${focus}"]`)?.focus({ preventScroll: true });
      }
    } catch (error) {
      if (signal.aborted) return;
      waiting.replaceChildren(failure(error));
      last = "";
    }
  };
  await refresh();
  every(REFRESH_MS, signal, refresh);
}

function card(task: PendingTask, now_ms: number): PageElement {
  const change = `${counted(task.files_changed, "file")}, ${counted(task.lines_changed, "line")}`;
  const end = task.expires_in_ms === undefined ? "" : ` · denied by itself in ${duration(task.expires_in_ms)}`;
  const { second_look } = task.gate;
  return cardOf(
    task,
    opening(task.instruction),
    `${change} · ${cost(task.spend)} · ${task.agent} · ${ago(task.since, now_ms)}${end}`,
    (second_look.length > 0 || task.sensitive) && el(
      "span.tags",
      task.sensitive && tag("sensitive", "bad"),
      ...second_look.slice(0, 8).map((category) => el("span.tag.warn", ...shownLine(category.replaceAll("_", " ")))),
    ),
  );
}

function activeCard(task: TaskListItem, now_ms: number): PageElement {
  const spent = cost(task.live ?? task.spend);
  const meta = `${STAGE_LABELS[task.stage]} · ${spent} · ${task.agent} · ${ago(task.created_at, now_ms)}`;
  return cardOf(task, task.instruction, meta);
}

function cardOf({ id, repo }: { id: string; repo: string }, text: string, meta: string, tags?: Child): PageElement {
  const what = el("strong", lineOf(text));
  return el("li.card", taskLink(id, el("span.eyebrow", lineOf(repoName(repo))), what, el("span.meta", meta), tags));
}
