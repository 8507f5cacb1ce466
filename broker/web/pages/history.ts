/**
 * Every task: a table with filters, what they have cost together, and a drawing of the cost per day.
 *
 * A sum has only what the broker itself has metered. What has no price is counted and said, and what an agent claims is
 * never added.
 */

import type { TaskListItem } from "../../api/wire.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { cost, counted, dollars, moment, repoName } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { failure, lineOf, type PageContext, tableOf, taskLink } from "./page.ts";
import { perDay, sparkline } from "./sparkline.ts";
import { OUTCOME_LABELS, STAGE_LABELS } from "./stages.ts";

const PER_PAGE = 200;

interface Filters {
  outcome: string;
  agent: string;
  repo: string;
}

export async function showHistory(context: PageContext): Promise<void> {
  const { api, main, signal } = context;
  context.setTitle("History");
  context.setShortcuts([]);
  const tasks: TaskListItem[] = [];
  let next: string | undefined;
  const filters: Filters = { outcome: "", agent: "", repo: "" };
  const body = el("tbody");
  const summary = elWith("div.summary", { role: "status" });
  const selects = el("div.filters");
  const more = elWith("button.plain", { type: "button", on: { click: () => void load() } }, "Older tasks");
  const messages = el("div");

  const show = () => {
    const found = tasks.filter((task) => matches(task, filters));
    body.replaceChildren(...found.map(row));
    summary.replaceChildren(...summaryOf(found, next !== undefined));
    more.hidden = next === undefined;
  };
  const choice = (name: keyof Filters, label: string) => {
    const values = [...new Set(tasks.map((task) => valueOf(task, name)))].sort();
    const select = elWith(
      "select",
      {
        id: `filter-${name}`,
        on: {
          change: () => {
            filters[name] = select.value;
            show();
          },
        },
      },
      elWith("option", { value: "" }, "all"),
      ...values.map((value) => elWith("option", { value, selected: value === filters[name] }, shownText(value, name))),
    );
    return el("div", elWith("label", { for: `filter-${name}` }, label), select);
  };
  const load = async () => {
    more.disabled = true;
    try {
      const page = await api.tasks({ limit: PER_PAGE, signal, ...next === undefined ? {} : { before: next } });
      tasks.push(...page.tasks);
      next = page.next;
      messages.replaceChildren();
      selects.replaceChildren(choice("outcome", "Outcome"), choice("agent", "Agent"), choice("repo", "Repository"));
      show();
    } catch (error) {
      if (!signal.aborted) messages.replaceChildren(failure(error));
    } finally {
      more.disabled = false;
    }
  };
  more.hidden = true;
  main.replaceChildren(
    el(
      "div.wide",
      el("h1", "History"),
      messages,
      el("div.history-head", summary, selects),
      elWith(
        "div.scroller",
        { tabindex: 0, role: "region", "aria-label": "Tasks" },
        tableOf("tasks", ["Task", "Agent", "Outcome", "Started", "Cost"], body),
      ),
      more,
    ),
  );
  await load();
}

function valueOf(task: TaskListItem, name: keyof Filters): string {
  return name === "outcome" ? task.outcome ?? task.stage : task[name];
}

function shownText(value: string, name: keyof Filters): string {
  if (name === "outcome") {
    return (OUTCOME_LABELS as Record<string, readonly [string, string]>)[value]?.[0] ??
      (STAGE_LABELS as Record<string, string>)[value] ?? value;
  }
  // An option has no elements in it.
  return lineOf(name === "repo" ? repoName(value) : value).textContent ?? "";
}

function matches(task: TaskListItem, filters: Filters): boolean {
  return (Object.keys(filters) as (keyof Filters)[]).every((name) =>
    filters[name] === "" || valueOf(task, name) === filters[name]
  );
}

function row(task: TaskListItem): PageElement {
  const { id, repo, instruction, agent, model, stage, outcome, created_at, spend, live, claimed_usd } = task;
  const [label, kind] = outcome === undefined ? [STAGE_LABELS[stage], "live"] : OUTCOME_LABELS[outcome];
  const metered = live ?? spend;
  return el(
    "tr",
    elWith(
      "th",
      { scope: "row" },
      taskLink(id, el("span.eyebrow", lineOf(repoName(repo))), el("span.what", lineOf(instruction))),
    ),
    el("td", agent, model !== undefined && el("small", ...shownLine(model))),
    el("td", elWith("span", { class: `outcome ${kind}` }, label)),
    el("td.when", elWith("time", { datetime: created_at }, moment(created_at))),
    el(
      "td.money",
      metered !== undefined || claimed_usd === undefined
        ? metered === undefined ? "–" : cost(metered)
        : el("span", dollars(claimed_usd), el("small", "agent-reported")),
    ),
  );
}

function summaryOf(tasks: readonly TaskListItem[], more: boolean): PageElement[] {
  const metered = tasks.flatMap(({ live, spend }) => live ?? spend ?? []);
  const sum = metered.reduce((total, { usd }) => total + usd, 0);
  const unmetered = metered.reduce((total, { unmetered_requests }) => total + unmetered_requests, 0);
  const unpriced = unmetered > 0 || metered.some(({ priced }) => !priced);
  return [
    el(
      "div",
      el("p.figure", `${unpriced ? "at least " : ""}${dollars(sum)}`),
      el(
        "p.hint",
        [
          `${counted(tasks.length, "task")}${more ? " of the newest" : ""}`,
          ...unmetered === 0 ? [] : [`${counted(unmetered, "request")} unmetered`],
        ].join(" · "),
      ),
    ),
    sparkline(perDay(tasks, Date.now())),
  ];
}
