import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Admission } from "../../../broker/admission/admission.ts";
import type { CeilingView } from "../../../broker/api/wire.ts";
import { serveHttp } from "../../../broker/http/serve.ts";
import { LANES } from "../../../broker/agents.ts";
import { GROUPINGS } from "../../../broker/task/stats_schema.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { ceilingLines, parseSince, render, type StatsResult } from "../../../cli/commands/stats.ts";
import { Io } from "../../../cli/text/io.ts";
import { GROUPING_NAMES, VENDOR_NAMES } from "../../../cli/table/tasks.ts";
import { ScriptedEngine } from "../../cli/support/broker.ts";
import { makePlace } from "../../cli/support/taskd.ts";
import { plantAuditDirectory } from "../../support/audit_dirs.ts";
import { DEFAULTS, figures, settlement, someId, START } from "../admission/site.ts";
import { plantTrace, someOrder } from "./lives.ts";
import { longTest } from "../../support/long.ts";

const DENO_DIR = JSON.parse(
  new TextDecoder().decode((await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output()).stdout),
).denoDir;

async function host() {
  const place = await makePlace({
    env: (base) => ({ HOME: `${base}/home`, DENO_DIR, BROKER_SOCKET: `${base}/run/broker.sock` }),
  });
  await Deno.mkdir(`${place.base}/home/.taskd`, { recursive: true, mode: 0o700 });
  return { ...place, audit_root: `${place.base}/home/.taskd/audit`, socket: `${place.base}/run/broker.sock` };
}

class CeilingEngine extends ScriptedEngine {
  #admission: Admission;
  constructor(tasks: TaskStore, admission: Admission) {
    super(tasks);
    this.#admission = admission;
  }
  override ceiling(): CeilingView {
    return this.#admission.ceiling();
  }
}

// conformance: b2.spend.source b2.stats.offline b2.spend.agent b2.ceiling.display
Deno.test("stats adds up an audit directory without a broker, and says null of the ceiling", async () => {
  await using place = await host();
  const planted = await plantAuditDirectory(place.audit_root, { tasks: 60 });
  const usd = planted.reduce((sum, task) => sum + (task.metered ? task.usd : 0), 0);
  const unknown = planted.filter(({ metered }) => !metered).length;
  const stats = await place.json(["stats", "--by", "agent"]);
  assertEquals(stats.tasks, 60);
  assertEquals((stats.spend as { usd: number }).usd, usd);
  assertEquals(stats.agent_reported, { tasks: unknown, usd: unknown * 77 });
  assertEquals(stats.global_ceiling, null);
  const { stdout } = await place.taskd("stats");
  assertStringIncludes(stdout, `spend: $${usd.toFixed(2)} in `);
  assertStringIncludes(stdout, `agent-reported: $${(unknown * 77).toFixed(2)} by ${unknown} tasks`);
  assert(!stdout.includes("global ceiling"), stdout);
  // deno-lint-ignore no-control-regex
  assert(!/[█▁\u001b]/.test(stdout), "plain text off a terminal");
  // It only reads.
  assertEquals([...Deno.readDirSync(place.audit_root)].length, 60);
});

Deno.test("a damaged trace and a hostile instruction change no figure and reach no terminal", async () => {
  await using place = await host();
  await plantAuditDirectory(place.audit_root, { tasks: 3 });
  Deno.writeTextFileSync(`${place.audit_root}/${someId()}.jsonl`, '{"v":1}\n');
  plantTrace(place.audit_root, [{ type: "created", task: someOrder(someId(), { repo: "\u001b[2Jx\u202e" }) }]);
  const stats = await place.json(["stats"]);
  assertEquals([stats.tasks, stats.damaged, stats.under_way], [4, 1, 1]);
  const { stdout } = await place.taskd("stats", "--by", "repo");
  // deno-lint-ignore no-control-regex
  assert(!/[\u001b\u202e]/.test(stdout), JSON.stringify(stdout));
});

Deno.test("--reconcile holds a vendor's bill against what was metered, day by day", async () => {
  await using place = await host();
  await Deno.mkdir(place.audit_root, { mode: 0o700 });
  const spent = (agent: string, ...usd: number[]) => {
    const spends = usd.map((amount) => ({ type: "spend" as const, spend: { ...figures(amount), requests: 2 } }));
    plantTrace(place.audit_root, [{ type: "created", task: someOrder(someId(), { agent }) }, ...spends]);
  };
  spent("agent_a", 0.25, 1.5);
  spent("agent_a", 0.5);
  spent("agent_b", 40);
  const day = "2026-01-01";
  const bill = `${place.base}/cost.csv`;
  await Deno.writeTextFile(bill, `usage_date_utc,model,cost_usd\n2025-12-31,m,3\n${day},m,1.5\n${day},m,0.5\n`);
  const { reconciliation } = await place.json(["stats", "--reconcile", bill, "--vendor", "vendor_a"]);
  const { days, ...sums } = reconciliation as { days: { day: string }[] };
  assertEquals(days.map((row) => row.day), ["2025-12-31", day]);
  assertEquals(sums, { billed_usd: 5, metered_usd: 2, difference_usd: 3, unmetered_requests: 0, damaged: 0 });
  const { stdout } = await place.taskd("stats", "--reconcile", bill, "--vendor", "vendor_a");
  assertEquals(stdout.split("\n").slice(0, 4).map((line) => line.trim().split(/ {2,}/)), [
    ["DAY", "BILLED", "METERED", "DIFFERENCE", "UNMETERED"],
    ["2025-12-31", "$3.0000", "$0.0000", "$3.0000", "-"],
    [day, "$2.0000", "$2.0000", "$0.0000", "-"],
    ["total", "$5.0000", "$2.0000", "$3.0000", "-"],
  ]);
  await Deno.writeTextFile(bill, "a,b\n");
  const refused = await place.taskd("stats", "--reconcile", bill);
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.stderr, "Name it with --date-column; there are: a, b");
});

longTest("--since takes a duration or a date, and refuses anything else", async () => {
  await using place = await host();
  await plantAuditDirectory(place.audit_root, { tasks: 48, every_ms: 3_600_000 });
  assertEquals((await place.json(["stats", "--since", "2026-01-02"])).tasks, 24);
  assertEquals((await place.json(["stats", "--since", "1m"])).tasks, 0);
  for (const words of [["--since", "yesterday"], ["--since", "2026-02-31"], ["--by", "moon"]]) {
    assertEquals((await place.taskd("stats", ...words)).code, 2);
  }
  assertEquals(parseSince("2026-01-31T08:00:00Z", 0), Date.UTC(2026, 0, 31, 8));
  assertEquals(parseSince("24h", 90_000_000), 3_600_000);
});

// conformance: b2.ceiling.display b4.admin_ceiling b4.stats.json
longTest("with a running broker and a ceiling, stats shows its headroom in the contract's words", async () => {
  await using place = await host();
  const tasks = await TaskStore.open(place.audit_root);
  const settings = { ...DEFAULTS, max_concurrent_tasks: 3, global_budget_usd: 5, global_max_tasks: 10 };
  const admission = await Admission.open({ audit_root: place.audit_root, settings });
  const engine = new CeilingEngine(tasks, admission);
  const log = (line: string) => {
    throw new Error(line);
  };
  const http = await serveHttp({ engine, socket: place.socket, tokens: `${place.base}/api-tokens.json`, log });
  try {
    const ended_at = new Date().toISOString();
    for (let n = 0; n < 3; n++) {
      const claim = admission.claim(START);
      const id = someId();
      claim.begin(id, ended_at);
      admission.settled(settlement(id, 0.25));
      if (n < 2) await claim.end({ outcome: "pushed", ended_at, spend: figures(0.25) });
    }
    const { stdout } = await place.taskd("stats");
    assertStringIncludes(
      stdout,
      [
        "global ceiling (the last 24h):",
        "  spend:  $0.75 of $5.00, $4.25 left (broker-metered)",
        "  starts: 3 of 10, 7 left (2 recorded, 1 in flight)",
      ].join("\n"),
    );
    const { global_ceiling } = await place.json(["stats"]);
    assertEquals(global_ceiling, JSON.parse(JSON.stringify(admission.ceiling())));
  } finally {
    await http.close();
    await tasks.close();
    await admission.close();
  }
});

Deno.test("the section says which limb is off, which refuses and why, and what total means", () => {
  const view: CeilingView = {
    enabled: true,
    window: "0s",
    window_ms: 0,
    budget_usd: 0,
    spent_usd: 12.5,
    headroom_usd: null,
    max_tasks: 4,
    recorded_starts: 4,
    in_flight_starts: 0,
    starts: 4,
    headroom_starts: 0,
    usd: { blocked: false, reason: "" },
    tasks: { blocked: true, reason: "it is reached" },
    damaged: 0,
    oldest_entry: null,
    newest_entry: null,
  };
  assertEquals(ceilingLines(view), [
    "global ceiling (in total, nothing ages out):",
    "  spend:  $12.50 no limit (broker-metered)",
    "  starts: 4 of 4, 0 left (4 recorded, 0 in flight)",
    "  refuses: it is reached",
  ]);
});

Deno.test("on a terminal there are bars and sparklines, within its width", async () => {
  const sink = { writeSync: (bytes: Uint8Array) => bytes.length, isTerminal: () => true };
  const signal = new AbortController().signal;
  const io = new Io({ stdout: sink, stderr: sink, json: false, quiet: false, no_color: true, signal, now: () => 0 });
  const place = await Deno.makeTempDir();
  try {
    await plantAuditDirectory(`${place}/audit`, { tasks: 50, every_ms: 43_200_000 });
    const { computeStats } = await import("../../../broker/task/stats.ts");
    const store = await TaskStore.open(`${place}/audit`);
    const stats: StatsResult = {
      ...computeStats(store.list({ limit: 1_000 }), { by: "agent" }),
      global_ceiling: null,
    };
    await store.close();
    const text = await render(stats, io);
    const waiting = await render({ ...stats, push_failed: 2, data_waits: 1 }, io);
    assertStringIncludes(waiting, "push failed: 2 wait, approved (taskd tasks --stage push_failed)\n");
    assertStringIncludes(waiting, "pushed, data waits: 1 (taskd tasks --stage data_waits)\n");
    assertStringIncludes(text, "█");
    assertStringIncludes(text, "2026-01-01 to 2026-01-25");
    assert(text.split("\n").every((line) => line.length <= io.columns!), text);
  } finally {
    await Deno.remove(place, { recursive: true });
  }
});

Deno.test("stats may read the records, speak to the broker's socket, and nothing else", async () => {
  await using place = await host();
  const { stdout } = await place.taskd("stats", "--print-permissions");
  const lines = Object.fromEntries(stdout.trimEnd().split("\n").map((line) => line.split(/\s+(.*)/).slice(0, 2)));
  assertEquals(lines, {
    read: `${place.socket} ${place.audit_root}`,
    write: place.socket,
    net: `unix:${place.socket}`,
    run: "nothing",
    env: "nothing",
    sys: "uid",
    ffi: "nothing",
    import: "nothing",
  });
});

Deno.test("the command table's groupings and vendors are the broker's", () => {
  assertEquals([GROUPING_NAMES, VENDOR_NAMES], [[...GROUPINGS], [...LANES]]);
});
