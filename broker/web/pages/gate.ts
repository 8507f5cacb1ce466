/**
 * The approval gate: one task, everything that the broker knows of its change, and the decision.
 *
 * The page computes the digest of the bytes that it shows and compares it with the task's record. What is approved is the
 * change that the record has with these bytes; bytes that are not the recorded ones cannot be approved.
 */

import type { TaskView } from "../../api/wire.ts";
import type { SpendFigures, TrustBrief } from "../../task/schema.ts";
import { ApiError } from "./api.ts";
import { Decision } from "./decision.ts";
import { type Diff, parseDiff } from "./diff.ts";
import { counts, type FileView, showDiff } from "./diff_view.ts";
import { el, elWith, every, type PageElement } from "./dom.ts";
import { findings, provenance } from "./evidence.ts";
import { ago, counted, duration, repoName, short } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { failure, notice, type PageContext, prose, section, type Shortcut, tag } from "./page.ts";
import { Spent } from "./spend.ts";

export interface GateView {
  setSpend(spend: SpendFigures): void;
}

export interface GateOptions {
  task: TaskView;
  /** Said above the content, about why the page is shown anew. */
  message?: PageElement;
  reload(message?: PageElement): void;
}

export async function showGate(context: PageContext, { task, message, reload }: GateOptions): Promise<GateView> {
  const { api, main, signal } = context;
  const [bytes, brief] = await Promise.all([api.diff(task.id, signal), api.brief(task.id, signal)]);
  const sha256 = await digest(bytes);
  if (signal.aborted) throw signal.reason;
  const diff = parseDiff(new TextDecoder().decode(bytes));
  const genuine = isShown(task, sha256);
  const messages = el("div.messages", message ?? "", ...warnings(task, genuine));
  const say = (error: unknown) => {
    const box = failure(error);
    messages.replaceChildren(box);
    box.scrollIntoView({ block: "nearest" });
  };
  const decision = new Decision({
    categories: task.gate?.second_look ?? [],
    brief,
    unseen: unseen(diff, brief),
    blocked: !genuine || !task.trace.intact,
    approve: (acknowledge) =>
      settle(() => api.approve(task.id, { diff_sha256: task.gate?.diff_sha256 ?? "", acknowledge }), "Approved"),
    deny: (reason) => settle(() => api.end(task.id, "deny", reason), "Denied"),
  });
  const settle = async (act: () => Promise<void>, done: string) => {
    decision.setBusy(true);
    try {
      await act();
      context.announce(done);
      reload();
    } catch (error) {
      decision.setBusy(false);
      if (error instanceof ApiError && error.status === 409) reload(refusal(error));
      else {
        say(error);
        if (error instanceof ApiError && error.problem.missing !== undefined) decision.pointAt(error.problem.missing);
      }
    }
  };

  const files = fileList(diff, { decision, signal });
  const spent = new Spent(task, { budget_usd: brief?.budget_usd ?? 0 });
  main.replaceChildren(
    el(
      "div.gate",
      gateHead(task, messages, signal),
      el(
        "div.gate-main",
        section("Instruction", {}, prose(task.instruction, "instruction")),
        findings(task, brief),
        changes(task, diff, files.views),
      ),
      elWith(
        "aside.gate-side",
        { "aria-label": "Files and decision" },
        files.element,
        section("Spent", { class: "spent" }, ...spent.elements),
        decision.element,
        provenance(task, brief),
      ),
    ),
  );
  context.setShortcuts(files.walk.shortcuts(decision));
  return { setSpend: (spend) => spent.set(spend) };
}

function warnings(task: TaskView, genuine: boolean): PageElement[] {
  return [
    ...genuine ? [] : [
      notice("bad", el("strong", "This is not the diff at the gate."), " It cannot be approved; reload the page."),
    ],
    ...task.trace.intact ? [] : [
      notice("bad", el("strong", "The record of this task was altered: "), ...shownLine(task.trace.fault)),
    ],
  ];
}

/** The files of the change with what was read of them, which the decision shows. */
function fileList(
  diff: Diff,
  { decision, signal }: { decision: Decision; signal: AbortSignal },
): { views: readonly FileView[]; walk: Walk; element: PageElement } {
  const progress = elWith("p.progress", { role: "status" });
  const list = el("ol.file-list");
  const update = () => {
    const unread = views.filter(({ read }) => !read).length;
    decision.setUnread(unread, views.length);
    progress.textContent = `${views.length - unread} of ${counted(views.length, "file")} read`;
    for (const [index, { read }] of views.entries()) list.children[index]?.classList.toggle("is-read", read);
  };
  const views = showDiff(diff, { signal, onRead: () => update() });
  const walk = new Walk(views);
  list.append(...views.map((view, index) => {
    const name = el("span.path", el("bdi", ...shownLine(view.file.path)));
    return el("li", elWith("button", { type: "button", on: { click: () => walk.to(index) } }, name, counts(view.file)));
  }));
  update();
  return { views, walk, element: section("Files", { id: "file-list" }, progress, list) };
}

function gateHead(task: TaskView, messages: PageElement, signal: AbortSignal): PageElement {
  return el(
    "div.gate-head",
    messages,
    el(
      "p.eyebrow",
      ...shownLine(repoName(task.repo)),
      task.sensitive === true ? tag("sensitive", "bad") : "",
      task.draft === true ? tag("draft") : "",
    ),
    el("h1", "Approve this change?"),
    waiting(task, signal),
  );
}

function changes(task: TaskView, diff: Diff, views: readonly FileView[]): PageElement {
  const digest = el("code", short(task.gate?.diff_sha256 ?? ""));
  return section(
    "Changes",
    { class: "changes" },
    el("p.hint", `${counted(views.length, "file")}, `, counts(total(diff)), ", change ", digest),
    ...diff.preamble.length === 0 ? [] : [el("pre.file-note", ...shownLine(diff.preamble.join("\n")))],
    ...views.map(({ element }) => element),
  );
}

class Walk {
  readonly #views: readonly FileView[];
  #at = -1;

  constructor(views: readonly FileView[]) {
    this.#views = views;
  }

  to(index: number): void {
    const view = this.#views[Math.max(0, Math.min(index, this.#views.length - 1))];
    if (view === undefined) return;
    this.#at = this.#views.indexOf(view);
    view.element.focus({ preventScroll: true });
    view.element.scrollIntoView({ block: "start" });
  }

  shortcuts(decision: Decision): Shortcut[] {
    const current = (): FileView | undefined => this.#views[this.#at];
    return [
      { key: "j", does: "next file", run: () => this.to(this.#at + 1) },
      { key: "k", does: "previous file", run: () => this.to(this.#at - 1) },
      { key: "o", does: "open or close the file", run: () => current()?.toggle() },
      {
        key: "m",
        does: "mark the file as read, or as not read",
        run: () => current()?.markRead(!(current()?.read ?? true)),
      },
      { key: "a", does: "go to Approve, or to what is missing", run: () => decision.focus() },
      { key: "d", does: "go to Deny", run: () => decision.focusDeny() },
    ];
  }
}

/** Whether the bytes that were shown are those which the record, whose rows are chained, has for the change at the gate. */
function isShown({ gate, evidence }: TaskView, sha256: string): boolean {
  const change = evidence.change;
  if (change === null || typeof change !== "object" || Array.isArray(change)) return false;
  return change.shown_sha256 === sha256 && change.diff_sha256 === gate?.diff_sha256;
}

/** What a person has to know and does not see. */
function unseen(diff: Diff, brief: TrustBrief | undefined): string[] {
  const more = (brief?.diff?.files_changed ?? 0) - diff.files.length;
  return [
    ...diff.truncated ? ["The diff is longer than what a page shows; its end is cut off."] : [],
    ...more > 0 ? [`${counted(more, "changed file")} of the change are not in this diff.`] : [],
    ...diff.files.some(({ binary }) => binary) ? ["The content of binary files."] : [],
  ];
}

function total({ files }: Diff): { added: number; deleted: number } {
  return files.reduce((sum, file) => ({ added: sum.added + file.added, deleted: sum.deleted + file.deleted }), {
    added: 0,
    deleted: 0,
  });
}

/** A line that says how long it has waited, and until when it may. */
function waiting(task: TaskView, signal: AbortSignal): PageElement {
  const line = el("p.waiting");
  const timeout_ms = task.gate?.timeout_ms ?? 0;
  const show = () => {
    const now_ms = Date.now();
    const left_ms = Date.parse(task.stage_since) + timeout_ms - now_ms;
    const waited = ago(task.stage_since, now_ms).replace("just now", "a moment").replace(/ ago$/, "");
    line.textContent = `Waiting for ${waited}` +
      (timeout_ms === 0 ? "" : left_ms > 0 ? `; denied by itself in ${duration(left_ms)}` : "; its time is over");
  };
  show();
  every(1_000, signal, show);
  return line;
}

/** Why an answer came too late, in the words of the page. */
function refusal(error: ApiError): PageElement {
  const stale = error.problem.code === "stale_diff";
  return notice(
    "bad",
    el("strong", stale ? "The diff has changed since it was shown. " : "This is decided already. "),
    ...stale ? ["Nothing was approved. This is the diff as it is now; read it again."] : shownLine(error.message),
  );
}

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
