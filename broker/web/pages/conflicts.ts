/**
 * What keeps a change to databases from landing: each value that an application and the task have changed differently,
 * side by side, and the choice which of them stays.
 */

import type { TaskView } from "../../api/wire.ts";
import type { Conflict, DatabaseConflicts, DecideRequest, Decision } from "../../task/database_schema.ts";
import { isDecidable } from "../../../lib/merge/decidable.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { notice, section, tableOf } from "./page.ts";
import { isFolded, valueText } from "./row_view.ts";

/** Rows with a choice of their own; the choice for all decides the others. */
const MAX_ROWS = 200;

interface Place {
  db: string;
  conflict: Conflict;
}

type Side = Decision["take"];

/** What of a task has to be decided: at its gate, or of data that waits. */
export function conflictsOf({ stage, gate, evidence }: TaskView): readonly DatabaseConflicts[] {
  if (stage === "awaiting_approval") return gate?.conflicts ?? [];
  if (stage !== "push_failed" && stage !== "data_waits") return [];
  // The broker has checked what it wrote there.
  const results = (evidence.database_results ?? []) as unknown as { conflicts?: DatabaseConflicts }[];
  return results.flatMap(({ conflicts }) => conflicts ?? []);
}

interface Row extends Place {
  inputs: Record<Side, PageElement>;
}

export class Conflicts {
  /** Undefined where nothing is in conflict. */
  readonly element: PageElement | undefined;
  readonly #rows: Row[] = [];
  /** What can be decided and has no row of its own. */
  readonly #more: Place[] = [];
  #others: Side | undefined;
  readonly #onChange: () => void;

  constructor(task: TaskView, onChange: () => void) {
    this.#onChange = onChange;
    const found = conflictsOf(task);
    if (found.length === 0) return;
    const tables = found.filter(({ total }) => total > 0).map((one) => this.#database(one));
    this.element = section(
      "Conflicts",
      { class: "conflicts" },
      notice("warn", el("strong", "This has not landed: "), ...shownLine(task.reason ?? "")),
      this.#rows.length > 0 &&
        el(
          "div.row-tools",
          this.#all("ours", "Keep all as the database has them"),
          this.#all("theirs", "Take all as the task has them"),
        ),
      ...tables,
    );
  }

  /** How many can be decided and are not. */
  get undecided(): number {
    const open = this.#rows.filter(({ inputs }) => !inputs.ours.checked && !inputs.theirs.checked).length;
    return open + (this.#others === undefined ? this.#more.length : 0);
  }

  /** Each with the value that stands here: where the database has another one by now, it decides nothing. */
  get request(): DecideRequest | undefined {
    const decided = ({ db, conflict: { table, key, column, ours } }: Place, take: Side | undefined) =>
      take === undefined
        ? []
        : [{ db, table, ...(key && { key }), ...(column === undefined ? {} : { column }), take, ours: ours ?? null }];
    const resolve = [
      ...this.#rows.flatMap(({ inputs, ...place }) =>
        decided(place, inputs.ours.checked ? "ours" : inputs.theirs.checked ? "theirs" : undefined)
      ),
      ...this.#more.flatMap((place) => decided(place, this.#others)),
    ];
    return resolve.length === 0 ? undefined : { resolve };
  }

  #all(side: Side, label: string): PageElement {
    const click = () => {
      for (const { inputs } of this.#rows) inputs[side].checked = true;
      this.#others = side;
      this.#onChange();
    };
    return elWith("button", { type: "button", on: { click } }, label);
  }

  #database({ db, base, conflicts, total }: DatabaseConflicts): PageElement {
    const room = Math.max(0, MAX_ROWS - this.#rows.length);
    const shown = conflicts.slice(0, room);
    this.#more.push(...conflicts.slice(room).filter(isDecidable).map((conflict) => ({ db, conflict })));
    const unlisted = total - conflicts.length;
    const head = ["Table", "Key", "Column", "Before", `${db}@${base} has`, "The task has"];
    return el(
      "div.database",
      tableOf("rows", head, el("tbody", ...shown.map((conflict) => this.#row(db, conflict)))),
      conflicts.length > shown.length &&
        el("p.hint", `${counted(conflicts.length - shown.length, "more")}, decided by the choice for all.`),
      unlisted > 0 &&
        notice("bad", `${counted(unlisted, "conflict")} more than can be listed: decide with taskd merge, or deny.`),
    );
  }

  #row(db: string, conflict: Conflict): PageElement {
    const { kind, table, key = {}, column, base, ours, theirs } = conflict;
    const { detail = "Mend it in the database, or deny." } = conflict;
    const began = base === undefined && !isDecidable(conflict) ? "" : sideText(base, column);
    const cells = [table, rowText(key), column ?? "", began];
    const what = el("small", kind.replaceAll("_", " "));
    const row = (...last: PageElement[]) =>
      el("tr", ...cells.map((text, at) => el("td", ...shownLine(text), at === 0 && what)), ...last);
    if (!isDecidable(conflict)) return row(elWith("td", { colspan: 2 }, ...shownLine(detail)));
    const name = `conflict-${this.#rows.length}`;
    const input = () => elWith("input", { type: "radio", name, on: { change: () => this.#onChange() } });
    const inputs = { ours: input(), theirs: input() };
    this.#rows.push({ db, conflict, inputs });
    const choice = (side: Side, values: Conflict["ours"]) =>
      el("td", el("label", inputs[side], " ", ...shownLine(sideText(values, column))));
    return row(choice("ours", ours), choice("theirs", theirs));
  }
}

function sideText(values: Conflict["ours"], column: string | undefined): string {
  if (values === undefined) return "absent";
  return column === undefined ? rowText(values) : wholeText(values[column]);
}

function rowText(values: NonNullable<Conflict["key"]>): string {
  return Object.entries(values).map(([name, value]) => `${name}=${wholeText(value)}`).join(" ");
}

/** A folded value with its length and digest: another one may begin alike. */
function wholeText(value: Parameters<typeof valueText>[0]): string {
  const text = valueText(value);
  if (value === undefined || !isFolded(value)) return text;
  const from = value.at === undefined ? "the beginning" : `from byte ${value.at}`;
  return `${text} (${from}, of ${counted(value.bytes, "byte")}, SHA-256 ${value.sha256.slice(0, 16)})`;
}
