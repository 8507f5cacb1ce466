/**
 * `deno task soak --minutes 20 --seed N --tasks 50 --queued 500 --kills 10`: {@linkcode soak} and then
 * {@linkcode soakStore}, each for a while; `--only broker` or `store` for one of them, `--seconds` in place of `--minutes`
 * for a short run, `--keep` to look at the files of a broker's run that failed. Prints a table; the seed replays the
 * decisions of a run. Exits with 1 when a promise was broken.
 */

import { soak, type SoakReport } from "./_soak.ts";
import { soakStore, textOf } from "./_store_soak.ts";

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
    ["  estimated of them, of answers that broke off", usd(money.estimated_usd)],
    [`  never reported, ${money.unreported_requests} requests`, usd(money.unreported_usd)],
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
const only = Deno.args.includes("--only") ? Deno.args[Deno.args.indexOf("--only") + 1] : undefined;
if (only !== undefined && only !== "broker" && only !== "store") throw new Error("--only takes broker or store");
const log = (line: string) => console.log(line);
log(`seed ${seed}`);
const violations: string[] = [];
if (only !== "store") {
  const report = await soak({
    seed,
    duration_ms,
    tasks: option("tasks") ?? (short === undefined ? 50 : 8),
    queued: option("queued") ?? (short === undefined ? 500 : 40),
    kills: option("kills") ?? (short === undefined ? 10 : 3),
    keep: Deno.args.includes("--keep"),
    log,
  });
  log(table(report));
  violations.push(...report.violations);
}
if (only !== "broker") {
  // The broker has more that can happen to it.
  const report = await soakStore({ seed, duration_ms: only === "store" ? duration_ms : duration_ms / 2, log });
  log(`store daemon: ${report.sessions} sessions, before: ${textOf(report.before)}; after: ${textOf(report.after)}`);
  violations.push(...report.violations);
}
for (const violation of violations) log(`BROKEN ${violation}`);
log(violations.length === 0 ? `seed ${seed}: every promise was kept` : `seed ${seed}: FAILED`);
if (violations.length > 0) Deno.exit(1);
