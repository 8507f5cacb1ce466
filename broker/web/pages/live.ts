/**
 * A task under way, or one that has ended: its stages as they come, its output, what it spends.
 */

import type { TaskEventView, TaskView } from "../../api/wire.ts";
import type { TrustBrief } from "../../task/schema.ts";
import type { Stage } from "../../task/stages.ts";
import { commitAddress } from "../../../lib/text/commit_address.ts";
import { decisionFacts } from "../../task/decided.ts";
import { Conflicts } from "./conflicts.ts";
import { el, elWith, every, type PageElement } from "./dom.ts";
import { findings, provenance } from "./evidence.ts";
import { dollars, duration, moment, repoName } from "./format.ts";
import { shown, shownLine } from "./hidden.ts";
import { Output } from "./output.ts";
import { facts, failure, type PageContext, prose, section, tag } from "./page.ts";
import { Spent } from "./spend.ts";
import { OUTCOME_LABELS, STAGE_LABELS } from "./stages.ts";
import { isUnknown, type SentDecisions, unknownOutcome, unknownRepetition } from "./unanswered.ts";

const KILLABLE: ReadonlySet<Stage> = new Set(["admission", "staging", "setting_up", "running", "collecting"]);

export interface LiveOptions {
  task: TaskView;
  brief: TrustBrief | undefined;
  changes?: PageElement | undefined;
  message?: PageElement | undefined;
  decisions: SentDecisions;
}

/** Shows a task that does not wait for approval. */
export function showLive(context: PageContext, options: LiveOptions): { take(event: TaskEventView): void } {
  const { task, brief, changes, message, decisions } = options;
  const { main, signal } = context;
  const timeline = new Timeline(signal);
  const output = new Output();
  const spent = new Spent(task);
  const conflicts = new Conflicts(task, () => {});
  const title = el("h1", headline(task));
  const notes = el("ul.notes");
  main.replaceChildren(
    el(
      "div.gate",
      el(
        "div.gate-head",
        message,
        el("p.eyebrow", ...shownLine(repoName(task.repo))),
        title,
        task.reason !== undefined && el("p.waiting", ...shown(task.reason)),
        decision(task),
        pushedTo(task),
      ),
      el(
        "div.gate-main",
        conflicts.element,
        section("Instruction", {}, prose(task.instruction, "instruction")),
        section("Output", {}, output.element),
        findings(task, brief),
        changes,
      ),
      elWith(
        "aside.gate-side",
        { "aria-label": "Progress and cost" },
        section("Progress", {}, timeline.element, notes),
        section("Spent", { class: "spent" }, ...spent.elements, claim(task)),
        buttons(context, { task, conflicts, decisions }),
        provenance(task, brief),
      ),
    ),
  );
  context.setShortcuts([]);
  return {
    take({ event, data }) {
      if (event === "stage") {
        timeline.enter(data.stage, data.ts);
        if (task.outcome === undefined) title.textContent = STAGE_LABELS[data.stage];
      } else if (event === "result") timeline.end(data.ts, OUTCOME_LABELS[data.outcome][0]);
      else if (event === "output") output.add(data.text, data);
      else if (event === "spend") spent.set(data);
      else if (event === "note") notes.append(el("li", ...shownLine(data.text)));
      else if (event === "ci") notes.append(el("li", `Checks: ${data.state.replaceAll("_", " ")}`));
    },
  };
}

function headline({ stage, outcome }: TaskView): PageElement {
  if (outcome === undefined) return el("span", STAGE_LABELS[stage]);
  const [label, kind] = OUTCOME_LABELS[outcome];
  return elWith("span", { class: kind }, label);
}

/** Who answered at the gate, and when. */
function decision(task: TaskView): PageElement | false {
  const entries = decisionFacts(task);
  // The times alone have no words.
  return entries.length > 0 &&
    facts(entries.map(([name, text]) => [name, /^\d{4}-[\d:.T-]+Z$/.test(text) ? moment(text) : text]));
}

function pushedTo({ pushed, repo }: TaskView): PageElement | false {
  if (pushed === undefined) return false;
  const { branch, commit, pull_request } = pushed;
  // Whatever the code host has answered: only a plain web address becomes a link.
  const link = (href: string, text: string) =>
    /^https:\/\/[^\s"'<>]+$/.test(href)
      ? elWith("a", { href, target: "_blank", rel: "noopener noreferrer" }, text)
      : undefined;
  const short = commit.slice(0, 12);
  return facts([
    ["Branch", branch],
    ["Commit", link(commitAddress(repo, commit) ?? "", short) ?? short],
    ["Pull request", pull_request && (link(pull_request, pull_request) ?? pull_request)],
  ]);
}

/** An agent's own figure: only where the broker has none, and marked as such. */
function claim({ spend, live, claimed_usd }: TaskView): PageElement | false {
  return spend === undefined && live === undefined && claimed_usd !== undefined &&
    el("p.hint", `${dollars(claimed_usd)} as reported by the agent; not measured`);
}

function buttons(
  context: PageContext,
  { task, conflicts, decisions }: Pick<LiveOptions, "task" | "decisions"> & { conflicts: Conflicts },
): PageElement | false {
  const { api } = context;
  const messages = el("div");
  const press = (label: string, style: string, act: () => Promise<void>) => {
    const button = elWith("button", {
      type: "button",
      class: style,
      on: {
        click: async () => {
          button.disabled = true;
          decisions.sending();
          try {
            await act();
          } catch (error) {
            messages.replaceChildren(failure(error));
            if (isUnknown(error)) {
              messages.replaceChildren(unknownOutcome(label, task.id));
              const found = await decisions.lookUp(label);
              if (found === undefined) return;
              messages.replaceChildren(found);
            }
            button.disabled = false;
          }
        },
      },
    }, label);
    return button;
  };
  const waits = task.stage === "push_failed" || task.stage === "data_waits";
  const push = waits && press("Push again", "approve", () => api.push(task.id, conflicts.request));
  const end = (waits || KILLABLE.has(task.stage)) &&
    press(waits ? "Give it up" : "End this task", "deny", () => api.end(task.id, "kill", "ended in the web pages"));
  const again = task.stage === "done" && press("Run it again", "plain", async () => {
    const id = await api.retry(task.id).then(({ id }) => id).catch((error) => {
      if (isUnknown(error)) return undefined;
      throw error;
    });
    // Whether another task was begun is seen among those that are under way.
    if (id === undefined) messages.replaceChildren(unknownRepetition());
    else context.go(`/ui/tasks/${id}`);
  });
  return (end || again) && el("div.actions", messages, push, end, again);
}

/** Stages as they were entered, each with how long it took. */
class Timeline {
  readonly element: PageElement = el("ol.timeline");
  #running: { since_ms: number; time: PageElement; row: PageElement } | undefined;

  constructor(signal: AbortSignal) {
    every(1_000, signal, () => this.#show(Date.now()));
  }

  enter(stage: Stage, ts: string): void {
    this.#close(Date.parse(ts));
    const time = el("span.time");
    const row = elWith("li.now", { title: moment(ts), "aria-current": "step" }, el("span", STAGE_LABELS[stage]), time);
    this.element.append(row);
    this.#running = { since_ms: Date.parse(ts), time, row };
    this.#show(Date.now());
  }

  end(ts: string, label: string): void {
    this.#close(Date.parse(ts));
    this.element.append(elWith("li.ended", { title: moment(ts) }, el("span", label), tag(moment(ts), "time")));
  }

  #close(now_ms: number): void {
    this.#show(now_ms);
    this.#running?.row.classList.remove("now");
    this.#running?.row.removeAttribute("aria-current");
    this.#running = undefined;
  }

  #show(now_ms: number): void {
    if (this.#running !== undefined) this.#running.time.textContent = duration(now_ms - this.#running.since_ms);
  }
}
