import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import type { TaskSummary } from "./schema.ts";
import { GROUPINGS } from "./stats_schema.ts";
import { computeStats, MAX_DAYS } from "./stats.ts";

const metered = (usd: number, unmetered_requests = 0) => ({
  usd,
  requests: 2,
  unmetered_requests,
  priced: unmetered_requests === 0,
});

function task(more: Partial<TaskSummary>): TaskSummary {
  const created_at = more.created_at ?? "2026-01-05T10:00:00.000Z";
  return {
    id: "ab".repeat(16),
    repo: "https://example.com/o/r.git",
    instruction: "x",
    agent: "agent_a",
    stage: more.outcome === undefined ? "running" : "done",
    created_at,
    updated_at: created_at,
    ...more,
  };
}

// conformance: b2.spend.source b2.spend.agent
Deno.test("totals are what the broker metered; a claim of an agent is in none of them", () => {
  const stats = computeStats([
    task({ outcome: "pushed", spend: metered(1.5) }),
    task({ outcome: "denied", spend: metered(0.5, 1), claimed_usd: 70 }),
    task({ outcome: "no_diff", claimed_usd: 900 }),
    task({}),
  ], { damaged: 2 });
  assertEquals(stats.spend, { usd: 2, requests: 4, metered_tasks: 1, unmetered_tasks: 1, unmetered_requests: 1 });
  assertEquals(stats.agent_reported, { tasks: 1, usd: 900 });
  assertEquals([stats.tasks, stats.under_way, stats.damaged], [4, 1, 2]);
  const waiting = (["push_failed", "data_waits", "pushing"] as const).map((stage) => task({ stage }));
  const { under_way, push_failed, data_waits } = computeStats(waiting);
  assertEquals([under_way, push_failed, data_waits], [3, 1, 1]);
  assertEquals([stats.outcomes.pushed, stats.outcomes.no_diff, stats.outcomes.timed_out], [1, 1, 0]);
});

Deno.test("one repository is one row, however it was written; what is no repository keeps its text", () => {
  const repos = ["https://example.com/o/r.git", "git@example.com:o/r.git", "example.com/o/r", "--upload-pack=x"];
  const { groups } = computeStats(repos.map((repo) => task({ repo })), { by: "repo" });
  assertEquals(groups?.map(({ name, tasks }) => [name, tasks]), [["example.com/o/r", 3], ["--upload-pack=x", 1]]);
});

Deno.test("groups are dearest first, days in their order, and an unknown agent keeps its name", () => {
  const tasks = [
    task({ agent: "agent_d", created_at: "2026-01-07T00:00:00.000Z", spend: metered(1) }),
    task({ agent: "agent_b", created_at: "2026-01-05T23:59:59.999Z", spend: metered(3) }),
    task({ agent: "of tomorrow" }),
  ];
  const names = (by: typeof GROUPINGS[number]) => computeStats(tasks, { by }).groups?.map(({ name }) => name);
  assertEquals(names("agent"), ["agent_b", "agent_d", "of tomorrow"]);
  assertEquals(names("vendor"), ["vendor_b", "compat", "of tomorrow"]);
  assertEquals(names("day"), ["2026-01-05", "2026-01-07"]);
});

Deno.test("days without a task are days too, and a date far off does not make a million of them", () => {
  const day = (date: string) => task({ created_at: `${date}T01:00:00.000Z`, spend: metered(1) });
  assertEquals(computeStats([day("2026-02-27"), day("2026-03-02")]).days, [
    { day: "2026-02-27", tasks: 1, usd: 1 },
    { day: "2026-02-28", tasks: 0, usd: 0 },
    { day: "2026-03-01", tasks: 0, usd: 0 },
    { day: "2026-03-02", tasks: 1, usd: 1 },
  ]);
  assertEquals(computeStats([day("1970-01-01"), day("9999-12-31")]).days.length, MAX_DAYS);
});

Deno.test("only tasks that were started since then count, to the millisecond", () => {
  const at = "2026-01-05T10:00:00.000Z";
  assertEquals(computeStats([task({ created_at: at })], { since_ms: Date.parse(at) }).tasks, 1);
  assertEquals(computeStats([task({ created_at: at })], { since_ms: Date.parse(at) + 1 }).tasks, 0);
});

const TASK = fc.record({
  agent: fc.constantFrom("agent_a", "agent_b", "other"),
  repo: fc.constantFrom("https://example.com/o/r", "git@example.com:o/r", "/srv/repo", ""),
  day: fc.integer({ min: 1, max: 28 }),
  usd: fc.option(fc.integer({ min: 0, max: 40 }).map((units) => units / 8), { nil: undefined }),
  claimed_usd: fc.option(fc.nat(9), { nil: undefined }),
  done: fc.boolean(),
});

Deno.test("whatever tasks there are, the groups of each kind add up to the totals", () =>
  fc.assert(fc.property(fc.array(TASK), fc.constantFrom(...GROUPINGS), (made, by) => {
    const tasks = made.map(({ agent, repo, day, usd, claimed_usd, done }) =>
      task({
        agent,
        repo,
        created_at: `2026-01-${String(day).padStart(2, "0")}T00:00:00.000Z`,
        ...(done ? { outcome: "pushed" as const } : {}),
        ...(usd === undefined ? {} : { spend: metered(usd, usd === 1 ? 1 : 0) }),
        ...(claimed_usd === undefined ? {} : { claimed_usd }),
      })
    );
    const { groups = [], ...all } = computeStats(tasks, { by });
    const sum = (of: (group: typeof groups[number]) => number) => groups.reduce((total, group) => total + of(group), 0);
    assertEquals(sum(({ tasks }) => tasks), all.tasks);
    assertEquals(sum(({ spend }) => spend.usd), all.spend.usd);
    assertEquals(sum(({ spend }) => spend.unmetered_tasks), all.spend.unmetered_tasks);
    assertEquals(sum(({ agent_reported }) => agent_reported.usd), all.agent_reported.usd);
    assertEquals(sum(({ outcomes }) => outcomes.pushed), all.outcomes.pushed);
    assertEquals(all.days.reduce((total, { usd }) => total + usd, 0), all.spend.usd);
    assert(all.under_way + all.outcomes.pushed === all.tasks);
  })));
