/**
 * Series for `promtool test rules`: what a daemon shows in successive scrapes, each taken for a minute of its life.
 */

import { join } from "@std/path/join";

/** Where promtool is. */
export const PROMTOOL = "/usr/bin/promtool";
const ALERTS = new URL("../../docs/monitoring/", import.meta.url).pathname;

/** Successive scrapes of one instance. */
export class Recording {
  readonly #job: string;
  readonly #scrapes: (Map<string, number> | undefined)[] = [];
  /** How many seconds of the series a second of recording stands for: ages grow by so much faster. */
  readonly #speed: number;

  /** Of the scrape job `job`, whose daemon is scraped `per_second` times a second. */
  constructor(job: string, per_second: number) {
    this.#job = job;
    this.#speed = per_second * 60;
  }

  /** Adds a scrape; undefined for one that was not answered. */
  add(text: string | undefined): void {
    if (text === undefined) return void this.#scrapes.push(undefined);
    const values = new Map<string, number>();
    for (const [, series, value] of text.matchAll(/^([a-z_]+(?:\{[^}]*\})?) (\S+)$/gm)) {
      values.set(series!, Number(value) * (series!.startsWith("bstore_durable_age_seconds") ? this.#speed : 1));
    }
    this.#scrapes.push(values);
  }

  /** Names of the alerts of `rules` that fire at the end, by promtool. */
  async firing(rules: string, alerts: readonly string[]): Promise<string[]> {
    const minutes = this.#scrapes.length - 1;
    const asked = alerts.map((alertname) => ({ alertname, eval_time: `${minutes}m`, exp_alerts: [] }));
    const text = await promtool(rules, { series: this.#series(), asked });
    // Each that fires is a difference to what was expected, and named.
    return alerts.filter((alertname) => new RegExp(`alertname: ${alertname},`).test(text));
  }

  #series(): { series: string; values: string }[] {
    const names = new Set(this.#scrapes.flatMap((scrape) => [...scrape?.keys() ?? []]));
    const at = { job: this.#job, instance: "here" };
    const series = [...names].map((name) => ({
      series: labelled(name, at),
      values: this.#scrapes.map((scrape) => scrape?.get(name) ?? "_").join(" "),
    }));
    const up = this.#scrapes.map((scrape) => scrape === undefined ? 0 : 1).join(" ");
    return [...series, { series: labelled("up", at), values: up }];
  }
}

function labelled(series: string, labels: Record<string, string>): string {
  const [, name, own = ""] = /^([a-z_]+)(?:\{(.*)\})?$/.exec(series)!;
  const added = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return `${name}{${[...added, ...(own === "" ? [] : [own])].join(",")}}`;
}

/** What promtool says of a test in which none of the alerts is expected. */
async function promtool(rules: string, { series, asked }: { series: object[]; asked: object[] }): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "taskd-alerts-" });
  try {
    const file = join(folder, "test.json");
    const tests = [{ interval: "1m", input_series: series, alert_rule_test: asked }];
    await Deno.writeTextFile(
      file,
      JSON.stringify({ rule_files: [join(ALERTS, rules)], evaluation_interval: "1m", tests }),
    );
    const { stdout, stderr } = await new Deno.Command(PROMTOOL, { args: ["test", "rules", file] }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    if (!/SUCCESS|FAILED/.test(text)) throw new Error(text);
    return text;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
