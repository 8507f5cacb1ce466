/**
 * Writes docs/reference/metrics.md from the metrics of both daemons and the rules for their alerts.
 * `deno run -A tests/docs/metrics_reference.ts` brings the page up to date; a test fails while it is not.
 */

import { parse } from "@std/yaml/parse";
import type { CeilingView } from "../../broker/api/wire.ts";
import { BrokerMetrics } from "../../broker/engine/metrics.ts";
import { Metrics } from "../../daemon/metrics.ts";
import { MoreMetrics } from "../../daemon/more_metrics.ts";

const ROOT = new URL("../../", import.meta.url);

/** The page. */
export const PAGE = new URL("docs/reference/metrics.md", ROOT);

interface Rules {
  groups: { rules: { alert: string; labels: { severity: string }; annotations: { summary: string } }[] }[];
}

/** The page with its tables brought up to date. */
export async function withReference(page: string): Promise<string> {
  const parts: [string, string][] = [
    ["store metrics", families(await new Metrics("dev").render([]))],
    ["more store metrics", families(await new MoreMetrics().render([]))],
    ["store alerts", await alerts("alerts.yml")],
    ["broker metrics", families(await brokerText())],
    ["broker alerts", await alerts("alerts-broker.yml")],
  ];
  return parts.reduce((text, [name, table]) => {
    const [mark, end] = [`<!-- ${name}: written by tests/docs/metrics_reference.ts -->`, `<!-- end of ${name} -->`];
    const [from, to] = [text.indexOf(mark), text.indexOf(end)];
    if (from < 0 || to < from) throw new Error(`docs/reference/metrics.md has lost the marks of its ${name}`);
    return `${text.slice(0, from + mark.length)}\n\n${table}\n\n${text.slice(to)}`;
  }, page);
}

/** A place of an alert's text by the name of what stands there. */
function labelled(_whole: string, name: string): string {
  return `\`${name.replace("labels.", "")}\``;
}

/** A row for each family of a text in Prometheus's format. */
function families(text: string): string {
  const kinds = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => [name!, kind!]));
  const rows = [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(([, name, help]) =>
    `- \`${name}\`${kinds.get(name!) === "histogram" ? " (histogram)" : ""}: ${help!.replaceAll("<", "\\<")}`
  );
  return rows.join("\n");
}

async function alerts(file: string): Promise<string> {
  const { groups } = parse(await Deno.readTextFile(new URL(`docs/monitoring/${file}`, ROOT))) as Rules;
  const rows = groups.flatMap(({ rules }) => rules).map(({ alert, labels, annotations }) =>
    `- \`${alert}\` (${labels.severity}): ${
      annotations.summary.replace(" on {{ $labels.instance }}", "").replaceAll(
        /\{\{ *\$([^}|]*?) *(?:\|[^}]*)?\}\}/g,
        labelled,
      )
    }`
  );
  return rows.join("\n");
}

/** What a broker without tasks exposes, with a global ceiling. */
async function brokerText(): Promise<string> {
  const ceiling: CeilingView = {
    enabled: true,
    window: "24h",
    window_ms: 86_400_000,
    budget_usd: 1,
    spent_usd: 0,
    headroom_usd: 1,
    max_tasks: 1,
    recorded_starts: 0,
    in_flight_starts: 0,
    starts: 0,
    headroom_starts: 1,
    usd: { blocked: false, reason: "" },
    tasks: { blocked: false, reason: "" },
    damaged: 0,
    oldest_entry: null,
    newest_entry: null,
  };
  return await new BrokerMetrics("dev", () => ({ running: 0, pending: 0, slots: 1, ceiling, queue: [] })).text();
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, await withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
