/**
 * Draws a report: as tables on a terminal, and as the project's page on benchmarks.
 */

import type { BenchCase, BenchPart } from "./bench.ts";
import { type Figure, meetsTarget, type Report } from "./figures.ts";

const HEADINGS = ["where", "size", "what", "p50", "19 of 20", "best", "n", "ratio", "target"];

/** The figures of one case as aligned rows under a heading; `ratio` is the p50 over that of the figure it is set beside. */
export function caseRows(figures: readonly Figure[]): string[][] {
  return [
    HEADINGS,
    ...figures.map((figure) => [
      figure.place,
      figure.size_mb === undefined ? "" : `${figure.size_mb} MB`,
      figure.subject,
      `${shown(figure.stats.p50)} ${figure.unit}`,
      figure.stats.n > 1 ? shown(mostly(figure)) : "",
      figure.stats.n > 1 ? shown(best(figure)) : "",
      String(figure.stats.n),
      ratio(figure, figures),
      target(figure),
    ]),
  ];
}

/** Rows as text with aligned columns, numbers to the right. */
function textTable(rows: readonly string[][]): string {
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row.map((cell, column) => column < 3 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)).join("  ")
      .trimEnd()
  ).join("\n");
}

/** The whole report for a terminal. */
export function textReport(report: Report, cases: readonly BenchCase[]): string {
  const parts = cases.flatMap((benchCase) => {
    const figures = report.figures.filter((figure) => figure.case === benchCase.name);
    return figures.length === 0 ? [] : [`${benchCase.title}\n${textTable(caseRows(figures))}`];
  });
  if (report.skipped.length > 0) {
    parts.push(
      "Not measured\n" + report.skipped.map((skip) => `${skip.case}: ${skip.subject}: ${skip.reason}`).join("\n"),
    );
  }
  return parts.join("\n\n");
}

const INTRODUCTION = `# Benchmarks

This page is written by \`deno task bench --write-docs\`, each part from a run on one machine. \`deno task bench --help\` says how to repeat it.

- What is compared is measured in one run, in turns (A B B A), after a warm-up, so that a noisy minute hits both sides. p50 is the median; \`19 of 20\` is what that many samples keep to (p95, or p5 where more is better); both by nearest rank.
- \`ratio\` is the p50 over that of the row it is set beside, of the same place and size. A target belongs to the row's p50; there are no timed assertions in the tests.
- A load of more than the number of cores means that other work ran beside it: compare, then, within its part only.`;

/** The page of documentation: parts that `report` has figures of are drawn from it, the others stay as `previous` has them. */
export function benchmarksPage(report: Report, parts: readonly BenchPart[], previous: string): string {
  const sections = parts.map((part) => {
    const figures = figuresOf(report, part);
    return figures.length > 0 ? partSection(report, part, figures) : sectionOf(previous, part, parts);
  });
  return [INTRODUCTION, ...sections.filter((section) => section !== "")].join("\n\n") + "\n";
}

function heading({ title }: BenchPart): string {
  return `## ${title}`;
}

/** What `page` says of a part. */
function sectionOf(page: string, part: BenchPart, parts: readonly BenchPart[]): string {
  const lines = page.split("\n");
  const from = lines.indexOf(heading(part));
  if (from < 0) return "";
  const headings = parts.map(heading);
  const length = lines.slice(from + 1).findIndex((line) => headings.includes(line));
  return lines.slice(from, length < 0 ? undefined : from + 1 + length).join("\n").trim();
}

function figuresOf({ figures }: Report, { cases }: BenchPart): Figure[] {
  return figures.filter((figure) => cases.some(({ name }) => name === figure.case));
}

function partSection(report: Report, part: BenchPart, figures: readonly Figure[]): string {
  const machine = Object.entries(report.machine).map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`);
  const day = report.started_at.slice(0, 10);
  const parts = [
    heading(part),
    list(part.method),
    `Run of ${day}, ${Math.round(report.duration_seconds)} s${report.quick ? ", quick sizes" : ""}, on:`,
    list(machine),
    ...(figures.some(({ target }) => target) ? [targetSection(figures)] : []),
  ];
  for (const benchCase of part.cases) {
    const own = figures.filter((figure) => figure.case === benchCase.name);
    if (own.length === 0) continue;
    parts.push(`### ${benchCase.title}\n\n${benchCase.method}\n\n${markdownTable(caseRows(own))}`);
  }
  const skipped = report.skipped.filter((skip) => part.cases.some(({ name }) => name === skip.case));
  if (skipped.length > 0) {
    parts.push("### Not measured\n\n" + list(skipped.map((skip) => `${skip.case}: ${skip.subject}: ${skip.reason}`)));
  }
  return parts.join("\n\n");
}

function targetSection(figures: readonly Figure[]): string {
  const targeted = figures.filter((figure) => figure.target !== undefined);
  const missed = targeted.filter((figure) => !meetsTarget(figure)).map((figure) => {
    const size = figure.size_mb === undefined ? "" : ` at ${figure.size_mb} MB`;
    const { value, is } = figure.target!;
    const bound = `${is === "at_most" ? "at most" : "at least"} ${value}`;
    return `${figure.subject}${size} on ${figure.place}: ${shown(figure.stats.p50)} ${figure.unit}, goal ${bound}`;
  });
  const summary = `${targeted.length - missed.length} of ${targeted.length} targets are met in this run.`;
  if (missed.length === 0) return `### Targets\n\n${summary}`;
  const subjects = targeted.filter((figure) => !meetsTarget(figure)).map(({ subject }) => subject);
  const known = REASONS.filter(([about]) => subjects.some((subject) => about.test(subject))).map(([, why]) => why);
  const reasons = known.length === 0 ? "" : `\n\nWhat is known of the reasons:\n\n${list(known)}`;
  return `### Targets\n\n${summary} Missed:\n\n${list(missed)}${reasons}`;
}

/** Why a target is missed, by the figures that it speaks of: what was found by measuring, not a guess. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [
    /^taskd fork$/,
    "A fork makes two objects durable one after the other, each with an fsync of its bytes and of its name: how long " +
    "that takes is the disk's matter, and the size of the database has no part in it.",
  ],
  [
    /^taskd fork \+ open \+ close/,
    "Where blocks cannot be cloned, opening a session on a new fork writes the whole database once.",
  ],
  [
    /^stored, /,
    "A page whose rows moved within it is stored whole, compressed: as its difference it would be no smaller. One that " +
    "changed where it stood costs a hundred bytes.",
  ],
  [
    /share kept|transactions committed/,
    "A writer that never pauses shares two cores with the session that reads after it, and is held off for a moment " +
    "whenever the log is folded. At a few thousand transactions a second it does not notice.",
  ],
  [
    /^one core, |idle/,
    "Over half of what idle sessions cost is renewing leases, 50 compare-and-swaps with an fsync a second for 500 of them; " +
    "the rest is looking at their logs.",
  ],
  [
    /^added to the p(50|99)$|through the gateway$|^added to the first token$/,
    "Client, gateway and vendor take turns on the machine's processors, so that other work shows in the gateway's figures three times. Of the time " +
    "that the gateway works under load, a third goes into writes to sockets, a fifth into collecting garbage, and less than a tenth into checking and metering.",
  ],
  [
    /^share of a direct copy, taskd$/,
    "A tunnel reads and writes every byte in one thread, and nine tenths of that is the kernel's copying and waking. Copying a GB takes 0.7 to 0.8 s of processor time " +
    "of three processes (the proxy's part is 0.34 to 0.38 s), directly 0.4 s of two: with two processors, and with other work on them, the share falls accordingly.",
  ],
  [
    /^[\d,]+ tasks/,
    "`taskd version` and `cat` in the same table tell what starting any program and reading the same files took in this run, other work included. Without its index, every row of every trace is held " +
    "against the one before and checked; a broker does that once, when it starts and there is no index.",
  ],
  [
    /snapshot/,
    "Pages are compressed in blocks of 1 MiB, so that one can be read alone; a small database full of random text " +
    "compresses less than a large one.",
  ],
];

function list(items: readonly string[]): string {
  return items.map((item) => `- ${item}`).join("\n");
}

function markdownTable(rows: readonly string[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const [head, ...body] = rows;
  const rule = line(HEADINGS.map((_, column) => column < 3 ? "---" : "--:"));
  return [line(head!), rule, ...body.map(line)].join("\n");
}

function best(figure: Figure): number {
  return higherIsBetter(figure) ? figure.stats.max : figure.stats.min;
}

/** What nineteen samples of twenty keep to. */
function mostly(figure: Figure): number {
  return higherIsBetter(figure) ? figure.stats.p5 : figure.stats.p95;
}

function higherIsBetter({ unit, target }: Figure): boolean {
  return unit === "MB/s" || unit === "tx/s" || unit === "requests/s" || unit === "events/s" ||
    unit === "tunnels/s" || target?.is === "at_least";
}

function ratio(figure: Figure, figures: readonly Figure[]): string {
  if (figure.beside === undefined || figure.beside === figure.subject) return "";
  const other = figures.find(({ subject, place, size_mb, unit }) =>
    subject === figure.beside && place === figure.place && size_mb === figure.size_mb && unit === figure.unit
  );
  return other === undefined || other.stats.p50 === 0 ? "" : `x${shown(figure.stats.p50 / other.stats.p50)}`;
}

function target(figure: Figure): string {
  if (figure.target === undefined) return "";
  const sign = figure.target.is === "at_most" ? "<=" : ">=";
  return `${sign} ${figure.target.value} ${meetsTarget(figure) ? "met" : "MISSED"}`;
}

/** Three significant digits, without exponents. */
function shown(value: number): string {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 3));
}
