/**
 * The approval gate: one task, everything that the broker knows of its change, and the decision.
 *
 * The page computes the digest of the bytes that it shows and compares it with the task's record. What is approved is the
 * change that the record has with these bytes; bytes that are not the recorded ones cannot be approved.
 */

import { contentText } from "../../../lib/text/characters.ts";
import type { TaskView } from "../../api/wire.ts";
import type { SpendFigures, TrustBrief } from "../../task/schema.ts";
import { type Api, ApiError, digest } from "./api.ts";
import { dataSection, definitionFiles, tableViews } from "./databases.ts";
import { Conflicts } from "./conflicts.ts";
import { DecisionForm } from "./decision.ts";
import { type Diff, parseDiff } from "./diff.ts";
import { counts, type FileView, isKept, showDiff } from "./diff_view.ts";
import { el, elWith, every, type PageElement } from "./dom.ts";
import { findings, provenance } from "./evidence.ts";
import { ago, counted, duration, repoName } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { failure, notice, type PageContext, prose, section, type Shortcut, tag } from "./page.ts";
import type { TableView } from "./table_view.ts";
import { Sight } from "./sight.ts";
import { Spent } from "./spend.ts";
import { briefTables, seenOf } from "../../task/seen.ts";
import { isShown } from "../../task/shown.ts";
import { isUnknown, type SentDecisions, unknownOutcome } from "./unanswered.ts";

/** Names that come and go together in the list of a large change, and the height of one. */
const LIST_PARTS = 50;
const ITEM_PX = 26;

export interface GateOptions {
  task: TaskView;
  /** Said above the content, about why the page is shown anew. */
  message?: PageElement | undefined;
  reload(message?: PageElement): void;
  decisions: SentDecisions;
}

export async function showGate(
  context: PageContext,
  { task, message, reload, decisions }: GateOptions,
): Promise<{ setSpend(spend: SpendFigures): void }> {
  const { api, main, signal } = context;
  const [bytes, brief] = await Promise.all([api.diff(task.id, signal), api.brief(task.id, signal)]);
  const genuine = await isShown(task, { diff: bytes, brief }, digest);
  if (signal.aborted) throw signal.reason;
  const diff = parseDiff(contentText(bytes));
  // The page answers in between.
  await new Promise((resolve) => setTimeout(resolve));
  const { diff_sha256 = "", second_look = [] } = task.gate ?? {};
  const messages = el("div.messages", message, ...warnings(task, genuine));
  const tell = (box: PageElement) => {
    messages.replaceChildren(box);
    box.scrollIntoView({ block: "nearest" });
  };
  const say = (error: unknown) => tell(failure(error));
  // Every table has to be read, or ticked: that acknowledges its category, where it can be read at all.
  const of_tables = new Set(
    briefTables(brief?.databases).filter(({ unread }) => !unread).map(({ category }) => category),
  );
  const [own, others] = [true, false].map((is) => second_look.filter((category) => of_tables.has(category) === is));
  const conflicts = new Conflicts(task, () => decision.set({ undecided: conflicts.undecided }));
  const decision = new DecisionForm({
    categories: others!,
    brief,
    blocked: !genuine || !task.trace.intact,
    approve: (acknowledge) =>
      settle(() => {
        const code = files.views.slice(0, diff.files.length).map(({ read }) => read);
        const seen = seenOf(brief, code, files.tables.map((table) => table.seen));
        const decide = conflicts.request;
        return api.approve(task.id, {
          diff_sha256,
          acknowledge: [...own!, ...acknowledge],
          seen,
          ...(decide && { decide }),
        });
      }, "Approve and push"),
    deny: (reason) => settle(() => api.end(task.id, "deny", reason), "Deny"),
  });
  const settle = async (act: () => Promise<void>, asked: string): Promise<void> => {
    decision.set({ busy: true });
    decisions.sending();
    try {
      await act();
      context.announce(asked === "Deny" ? "Denied" : "Approved");
      reload();
    } catch (error) {
      if (isUnknown(error)) {
        tell(unknownOutcome(asked, task.id));
        const found = await decisions.lookUp(asked);
        if (found === undefined) return;
        tell(found);
        return decision.set({ busy: false });
      }
      decision.set({ busy: false });
      if (error instanceof ApiError && error.status === 409) reload(refusal(error));
      else {
        say(error);
        if (error instanceof ApiError && error.problem.missing !== undefined) decision.pointAt(error.problem.missing);
      }
    }
  };

  decision.set({ undecided: conflicts.undecided });
  const files = partList({ api, brief, diff, task, decision, signal });
  const spent = new Spent(task, { budget_usd: brief?.budget_usd ?? 0 });
  main.replaceChildren(
    el(
      "div.gate",
      gateHead(task, messages, signal),
      el(
        "div.gate-main",
        section("Instruction", {}, prose(task.instruction, "instruction")),
        conflicts.element,
        findings(task, brief),
        dataSection(brief, files.tables),
        changes(task, diff, files),
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
  // The code host may be slow to answer: the page is there before.
  api.bases(task.id, signal).then((notes) => {
    messages.append(...notes.map((note) => notice("warn", el("strong", "Since then: "), ...shownLine(note))));
  }).catch((error) => signal.aborted || say(error));
  return { setSpend: (spend) => spent.set(spend) };
}

function warnings(task: TaskView, genuine: boolean): (PageElement | false)[] {
  return [
    !genuine && notice(
      "bad",
      el("strong", "This is not the diff or the brief at the gate."),
      " It cannot be approved; reload the page.",
    ),
    !task.trace.intact &&
    notice("bad", el("strong", "The record of this task was altered: "), ...shownLine(task.trace.fault)),
  ];
}

/** Files, definitions and tables of the change, with what was read of them, which the decision shows. */
function partList(
  { api, brief, diff, task, decision, signal }: {
    api: Api;
    brief: TrustBrief | undefined;
    diff: Diff;
    task: TaskView;
    decision: DecisionForm;
    signal: AbortSignal;
  },
) {
  const progress = elWith("p.progress", { role: "status" });
  const list = el("div.file-list");
  const items = new Map<FileView, PageElement>();
  const update = () => {
    const read = parts.filter((part) => part.read).length;
    const rows = tables.filter((table) => !table.read).map((table) =>
      `${counted(table.unread, "row")} of ${table.name} not read`
    );
    const files = unreadText(views.slice(0, diff.files.length), "file");
    decision.set({ unread: [...files, ...unreadText(views.slice(diff.files.length), "definition"), ...rows] });
    progress.textContent = `${read.toLocaleString("en")} of ${
      counted(parts.length, parts.length === diff.files.length ? "file" : "part")
    } read`;
    for (const [part, item] of items) item.classList.toggle("is-read", part.read);
  };
  // The first of them is open at once, and says what it has.
  let tables: TableView[] = [];
  let parts: FileView[] = [];
  const all = withDefinitions(diff, brief);
  const { views, elements } = showDiff(all, { signal, onRead: () => update() });
  tables = tableViews(brief, { api, task, signal, onRead: () => update() });
  parts = [...tables, ...views];
  const walk = new Walk(parts);
  const item = (part: FileView, index: number) => {
    const name = el("span.path", el("bdi", ...shownLine(part.file.path)));
    const button = elWith("button", { type: "button", on: { click: () => walk.to(index) } }, name, counts(part.file));
    const made = elWith("li", { class: part.read ? "is-read" : "" }, button);
    items.set(part, made);
    return made;
  };
  const sight = new Sight(signal, false);
  const size = isKept(all) ? Math.max(1, parts.length) : LIST_PARTS;
  for (let from = 0; from < parts.length; from += size) {
    const some = parts.slice(from, from + size);
    const group = el("ol");
    list.append(group);
    const make = () => some.map((part, at) => item(part, from + at));
    if (size !== LIST_PARTS) group.append(...make());
    else sight.near(group, some.length * ITEM_PX, { make, left: () => some.forEach((part) => items.delete(part)) });
  }
  update();
  const title = tables.length === 0 ? "Files" : "Tables and files";
  return { views, elements, tables, walk, element: section(title, { id: "file-list" }, progress, list) };
}

function unreadText(parts: readonly FileView[], what: string): string[] {
  const unread = parts.filter(({ read }) => !read).length;
  return unread === 0 ? [] : [`${unread.toLocaleString("en")} of ${counted(parts.length, what)} not read`];
}

function withDefinitions(diff: Diff, brief: TrustBrief | undefined): Diff {
  return { ...diff, files: [...diff.files, ...definitionFiles(brief)] };
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

/** The change that was at the gate, once there is an answer; a diff that is gone, or is another one, is said to be so. */
export async function decidedChanges(
  { api, signal }: PageContext,
  task: TaskView,
  brief: TrustBrief | undefined,
): Promise<PageElement | undefined> {
  if (task.gate === undefined) return undefined;
  try {
    const bytes = await api.diff(task.id, signal);
    const genuine = await isShown(task, { diff: bytes, brief }, digest);
    if (!genuine) return notice("bad", el("strong", "The kept diff or brief is not the one that was at the gate."));
    const diff = parseDiff(contentText(bytes));
    const onRead = () => {};
    const tables = tableViews(brief, { api, task, signal, onRead });
    return el(
      "div.evidence.decided",
      dataSection(brief, tables),
      changes(task, diff, showDiff(withDefinitions(diff, brief), { signal, onRead })),
    );
  } catch (error) {
    if (signal.aborted) throw error;
    return section("Changes", {}, failure(error));
  }
}

function changes(
  task: TaskView,
  diff: Diff,
  { views, elements }: { views: readonly FileView[]; elements: readonly PageElement[] },
): PageElement {
  const digest = el("code", task.gate?.diff_sha256.slice(0, 8));
  return section(
    "Changes",
    { class: task.stage === "awaiting_approval" ? "changes" : "changes decided" },
    el("p.hint", `${counted(views.length, "file")}, `, counts(total(diff)), ", change ", digest),
    ...diff.preamble.length === 0 ? [] : [el("pre.file-note", ...shownLine(diff.preamble.join("\n")))],
    ...elements,
    diff.truncated && notice("warn", "The diff ends here: the rest of the change is not shown."),
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

  shortcuts(decision: DecisionForm): Shortcut[] {
    const current = (): FileView | undefined => this.#views[this.#at];
    return [
      { key: "j", does: "next table or file", run: () => this.to(this.#at + 1) },
      { key: "k", does: "previous table or file", run: () => this.to(this.#at - 1) },
      { key: "o", does: "open or close it", run: () => current()?.toggle() },
      {
        key: "m",
        does: "mark it as read, or as not read",
        run: () => current()?.markRead(!(current()?.read ?? true)),
      },
      { key: "a", does: "go to Approve, or to what is missing", run: () => decision.focus() },
      { key: "d", does: "go to Deny", run: () => decision.focusDeny() },
    ];
  }
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
  const { code, hint = "" } = error.problem;
  const [title, ...text] = code === "stale_diff"
    ? [
      "The diff has changed since it was shown. ",
      "Nothing was approved. This is the diff as it is now; read it again.",
    ]
    : code === "altered"
    ? ["What is kept of this task was altered. Nothing was approved. ", ...shownLine(`${error.message}. ${hint}`)]
    : ["This is decided already. ", ...shownLine(error.message)];
  return notice("bad", el("strong", title!), ...text);
}
