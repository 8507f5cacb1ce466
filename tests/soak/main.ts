/**
 * `deno task soak --minutes 20 --seed N --tasks 50 --queued 500 --kills 10`: {@linkcode soak} for a while, `--seconds` in
 * place of `--minutes` for a short one, `--keep` to look at the files of a run that failed. Prints a table; the seed replays the decisions of a run. Exits with 1 when a
 * promise was broken.
 */

import { soak, type SoakReport } from "./_soak.ts";

function option(name: string): number | undefined {
  const index = Deno.args.indexOf(`--${name}`);
  return index < 0 ? undefined : Number(Deno.args[index + 1]);
}

function table({ money, outcomes, reasons, counts, ...report }: SoakReport): string {
  const usd = (figure: number) => `$${figure.toFixed(4)}`;
  const rows: [string, string | number][] = [
    ["tasks", report.tasks],
    ...[...outcomes].sort().map(([name, count]): [string, number] => [`  ${name}`, count]),
    ["queue items", report.items],
    ["brokers killed", report.kills],
    ["brokers replaced", report.replacements],
    ["branches pushed", report.branches],
    ["requests at the model's endpoint", report.requests],
    ["billed", usd(money.billed_usd)],
    ["  metered, in the traces", usd(money.metered_usd)],
    [`  never told, ${money.untold_requests} requests`, usd(money.untold_usd)],
    [`  lost with killed brokers, ${money.lost_requests} requests`, usd(money.lost_usd)],
    ["starts of unknown cost in the ledger", money.unknown_starts],
    ["most starts in a window", report.max_starts],
    ["most memory of a broker", `${Math.round(report.max_rss_bytes / 2 ** 20)} MiB`],
    ["most open files of a broker", report.max_open_files],
    ["at rest", `${Math.round((report.rest?.rss_bytes ?? 0) / 2 ** 20)} MiB, ${report.rest?.open_files} files`],
    ...[...reasons].sort().map(([name, count]): [string, number] => [`ended: ${name}`, count]),
    ...[...counts].sort().map(([name, count]): [string, number] => [`answers: ${name}`, count]),
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join("\n");
}

const seed = option("seed") ?? Math.floor(Math.random() * 2 ** 31);
const short = option("seconds");
const duration_ms = short === undefined ? (option("minutes") ?? 20) * 60_000 : short * 1_000;
console.log(`seed ${seed}`);
const report = await soak({
  seed,
  duration_ms,
  tasks: option("tasks") ?? (short === undefined ? 50 : 8),
  queued: option("queued") ?? (short === undefined ? 500 : 40),
  kills: option("kills") ?? (short === undefined ? 10 : 3),
  keep: Deno.args.includes("--keep"),
  log: (line) => console.log(line),
});
console.log(table(report));
for (const violation of report.violations) console.log(`BROKEN ${violation}`);
console.log(report.violations.length === 0 ? `seed ${seed}: every promise was kept` : `seed ${seed}: FAILED`);
if (report.violations.length > 0) Deno.exit(1);
