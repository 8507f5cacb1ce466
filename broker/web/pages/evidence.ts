/**
 * What the broker established about a task, part by part.
 */

import type { TaskView } from "../../api/wire.ts";
import type { CommandEvidence, TrustBrief } from "../../task/schema.ts";
import { el, type PageElement } from "./dom.ts";
import { counted, duration } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { facts, section, tag } from "./page.ts";

const NOT_KNOWN = "not known";

export function provenance(task: TaskView, brief: TrustBrief | undefined): PageElement {
  const extra = task.egress_extra?.map(({ host, ports }) => `${host}:${ports.join(",")}`).join(" ");
  return section(
    "Where it comes from",
    { class: "provenance" },
    facts([
      ["Agent", `${task.agent}, ${task.model ?? "model of its choice"}`],
      ["Base", `${task.base === undefined ? "" : `${task.base} `}${brief?.base_commit?.slice(0, 12) ?? NOT_KNOWN}`],
      ["Sandbox", [brief?.runtime ?? NOT_KNOWN, brief?.image].filter((part) => part).join(", ")],
      ["Image digest", brief?.image_digest ?? undefined],
      ["Settings", brief?.policy_hash?.slice(0, 12) ?? NOT_KNOWN],
      ["Extra hosts", extra],
      ["Repeats", task.retry_of?.slice(0, 8)],
      ["Record", task.trace.intact ? `intact, ${counted(task.trace.rows, "row")}` : undefined],
      ["Task", task.id],
    ]),
  );
}

/** What was done and found; what is missing is listed once the work has ended. */
export function findings(task: TaskView, brief: TrustBrief | undefined): PageElement {
  return el(
    "div.evidence",
    (task.stage === "done" || task.stage === "awaiting_approval") && missing(brief),
    grantedEgress(task),
    refusedEgress(task),
    setup(brief),
  );
}

function missing(brief: TrustBrief | undefined): PageElement | false {
  const gaps = brief === undefined ? ["anything: there is no brief of this task"] : brief.missing_evidence;
  return gaps.length > 0 &&
    section(
      "Not established",
      { class: "missing" },
      el("ul", ...gaps.map((gap) => el("li", ...shownLine(gap)))),
    );
}

function grantedEgress({ egress_grants = [] }: TaskView): PageElement | false {
  return egress_grants.length > 0 && section(
    "Connections that a person allowed",
    {},
    el(
      "ul.granted",
      ...egress_grants.map(({ target, at, for_ms, uses, used, by }) => {
        const count = `used ${uses === undefined ? counted(used, "time") : `${used} of ${counted(uses, "time")}`}`;
        const text = [`for ${duration(for_ms)} from ${at}`, count, by === undefined ? "" : `by ${by.who}`];
        const said = text.filter((part) => part).join(" · ");
        return el("li", el("code", ...shownLine(target)), el("span", ...shownLine(said)));
      }),
    ),
  );
}

function refusedEgress({ refused_egress }: TaskView): PageElement | false {
  return refused_egress.length > 0 && section(
    "Refused connections",
    {},
    el(
      "ul.refused",
      ...refused_egress.map(({ target, reason, hint }) =>
        el(
          "li",
          el("code", ...shownLine(target)),
          el("span", ...shownLine(reason)),
          hint !== undefined && el("small", ...shownLine(hint)),
        )
      ),
    ),
  );
}

const STATUS: Readonly<Record<CommandEvidence["status"], readonly [string, string]>> = {
  passed: ["passed", "good"],
  failed: ["failed", "bad"],
  timed_out: ["timed out", "bad"],
  not_run: ["not run", "quiet"],
};

function setup(brief: TrustBrief | undefined): PageElement | false {
  const evidence = brief?.setup;
  if (evidence === undefined || evidence === null) return false;
  const { participation, key_prefix } = evidence.cache;
  return section(
    "Setup",
    {},
    el(
      "ul.commands",
      ...evidence.commands.map(({ phase, command, status, exit_code, duration_ms }) =>
        el(
          "li",
          tag(...STATUS[status]),
          el(
            "code",
            ...shownLine(command.map((word) => /^[\w./:=@%+,-]+$/.test(word) ? word : JSON.stringify(word)).join(" ")),
          ),
          el(
            "small",
            [phase, exit_code === undefined ? "" : `exit code ${exit_code}`, duration(duration_ms)].filter((part) =>
              part
            ).join(" · "),
          ),
        )
      ),
    ),
    el("p.hint", `Dependency cache: ${participation}${key_prefix === undefined ? "" : `, ${key_prefix}`}`),
  );
}
