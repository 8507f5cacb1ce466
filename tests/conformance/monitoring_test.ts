import { assert, assertEquals } from "@std/assert";
import { COMMANDS, GLOBAL_FLAGS } from "../../cli/table/commands.ts";
import { parseCall } from "../../cli/plan/parse.ts";
import { Metrics } from "../../daemon/metrics.ts";
import { MoreMetrics } from "../../daemon/more_metrics.ts";

interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { h: number; w: number; x: number; y: number };
  targets?: { refId: string; expr: string }[];
}

function docs(name: string): Promise<string> {
  return Deno.readTextFile(new URL(`../../docs/${name}`, import.meta.url));
}

/** The series of an exposition, by default of `/metrics`, with those that a histogram adds. */
async function series(exposition?: string): Promise<{ families: Set<string>; names: Set<string> }> {
  const text = exposition ?? await new Metrics("dev").render([]);
  const families = new Set<string>();
  const names = new Set<string>();
  for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    families.add(name!);
    const suffixes = type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
    for (const suffix of suffixes) names.add(name! + suffix);
  }
  return { families, names };
}

function metricsIn(text: string): string[] {
  return [...text.matchAll(/bstore_[a-z_]+/g)].map((match) => match[0]);
}

// conformance: 9.names
Deno.test("the dashboard shows all 21 families and nothing that does not exist", async () => {
  const dashboard = JSON.parse(await docs("monitoring/grafana-dashboard.json")) as { title: string; panels: Panel[] };
  const { families, names } = await series();
  const used = dashboard.panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => metricsIn(expr)));
  assertEquals(used.filter((name) => !names.has(name)), []);
  const shown = new Set(used.map((name) => name.replace(/_(bucket|sum|count)$/, "")));
  assertEquals([...families].filter((name) => !shown.has(name)), []);
  assertEquals(families.size, 21);
});

Deno.test("the dashboard's panels have ids of their own, queries that differ, and do not overlap", async () => {
  const { panels } = JSON.parse(await docs("monitoring/grafana-dashboard.json")) as { panels: Panel[] };
  assertEquals(new Set(panels.map(({ id }) => id)).size, panels.length);
  const taken = new Map<string, string>();
  for (const { title, type, targets = [], gridPos: { h, w, x, y } } of panels) {
    assert(type === "row" || targets.length > 0, title);
    assertEquals(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
    assert(x + w <= 24, title);
    for (let row = y; row < y + h; row++) {
      for (let column = x; column < x + w; column++) {
        assertEquals(taken.get(`${row} ${column}`), undefined, title);
        taken.set(`${row} ${column}`, title);
      }
    }
  }
});

/** Pages for readers, as paths below docs/; the tables that are written from the program stand for themselves. */
const PAGES = ["tutorials", "how-to", "explanation"].flatMap((folder) =>
  [...Deno.readDirSync(new URL(`../../docs/${folder}`, import.meta.url))].map(({ name }) => `${folder}/${name}`)
);

Deno.test("alerts and guides name no metric that does not exist", async () => {
  const { families, names } = await series();
  for (const name of (await series(await new MoreMetrics().render([]))).names) names.add(name);
  for (const page of ["monitoring/alerts.yml", ...PAGES]) {
    const unknown = metricsIn(await docs(page)).filter((name) => !names.has(name) && !families.has(name));
    assertEquals(unknown, [], page);
  }
});

Deno.test("every call of the program in a tutorial, guide or explanation is one that it understands", async () => {
  const groups = new Set(COMMANDS.map(({ name }) => name));
  for (const page of PAGES) {
    const text = await docs(page);
    const calls = [
      ...[...text.matchAll(/`taskd ([^`]+)`/g)].map((match) => match[1]!),
      ...[...text.matchAll(/^Exec\w+=-?\S*taskd ([^#\n]+)/gm)].map((match) => match[1]!),
    ];
    for (
      const call of calls.map((each) =>
        each.replaceAll("%i", "app").replaceAll("<command>", "status app").replaceAll(/<[a-z]+>/g, "0a1b").trim()
      )
    ) {
      // Named without its arguments, as one does in a sentence.
      if (groups.has(call)) continue;
      const parsed = await parseCall(call.split(/\s+/), {
        commands: COMMANDS,
        globals: GLOBAL_FLAGS,
        env: () => undefined,
        absolute: (path) => `/here/${path}`,
      }).catch((error) => error.message);
      assertEquals(parsed.kind, "command", `${page}: ${call}: ${parsed}`);
    }
  }
});
