/**
 * What a soak run must have come to: everything that was accepted has one end, every figure is accounted for, and what is
 * on the remotes is what was approved.
 */

import type { Decisions, Following, Order } from "./_clients.ts";
import { planOf, tagIn } from "./plan.ts";
import { blobId, type Branch, isCrash, type Item, type Trace } from "./traces.ts";
import { type Billed, MAX_ESTIMATED_USD, MAX_REQUEST_TOKENS, TOKEN_USD } from "./upstream.ts";

/** Requests of a task whose figures a kill may take with it: one that runs, and those whose rows are being written. */
const LOST_REQUESTS = 4;
/** A broker counts ages in whole seconds, and file systems stamp by the tick of their clock. */
const AGE_STEP_MS = 1_100;
/** Sums of a few thousand figures differ by their rounding. */
const ROUNDING_USD = 1e-6;

/** Everything that is known after a run. */
export interface World {
  orders: readonly Order[];
  decisions: ReadonlyMap<string, Decisions>;
  followings: readonly Following[];
  traces: readonly Trace[];
  items: readonly Item[];
  ledger: ReadonlyMap<string, number | null>;
  /** Of all remotes. */
  branches: readonly Branch[];
  bill: readonly Billed[];
  /** Times that a broker was killed, and tasks that may run at the same time. */
  kills: number;
  slots: number;
  /** The global ceiling's task limb. */
  max_starts: number;
  window_ms: number;
}

/** Where the money went. */
export interface Money {
  /** What the vendor charges. */
  billed_usd: number;
  /** What the traces say. */
  metered_usd: number;
  /** Charged for answers that never reported it. */
  unreported_usd: number;
  unreported_requests: number;
  /** Charged for answers that broke off, by what their bytes say, beside what they reported. */
  estimated_usd: number;
  /** Reported by answers whose figures were lost with a broker that was killed. */
  lost_usd: number;
  lost_requests: number;
  /** Starts of which the ledger says that their cost is unknown. */
  unknown_starts: number;
}

/** What became of it. */
export interface Verdict {
  violations: string[];
  money: Money;
  outcomes: Map<string, number>;
  /** Why tasks ended as they did, without what is different in each. */
  reasons: Map<string, number>;
}

/** Evaluates a run. */
export function evaluate(world: World): Verdict {
  const violations: string[] = [];
  const outcomes = new Map<string, number>();
  const reasons = new Map<string, number>();
  for (const { outcomes: [outcome = "none"], reason } of world.traces) {
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    const why = `${outcome}: ${reason.replace(/[0-9a-f]{32}|\d+/g, "N").replace(/\/\S+/g, "/...").slice(0, 140)}`;
    reasons.set(why, (reasons.get(why) ?? 0) + 1);
  }
  const by_id = new Map(world.traces.map((trace) => [trace.id, trace]));
  violations.push(
    ...world.traces.flatMap(traceProblems),
    ...orderProblems(world),
    ...itemProblems(world),
    ...branchProblems(world, by_id),
    ...decisionProblems(world, by_id),
    ...followingProblems(world, by_id),
    ...ceilingProblems(world),
  );
  const { problems, money } = account(world);
  return { violations: [...violations, ...problems], money, outcomes, reasons };
}

function isCrashed({ reason }: Trace): boolean {
  return isCrash(reason);
}

/** At no start were there more in the window than the ceiling has; a task counts from its start to a window after its end. */
function ceilingProblems({ traces, max_starts, window_ms }: World): string[] {
  return traces.flatMap(({ id, started_ms }) => {
    const since_ms = started_ms - window_ms + AGE_STEP_MS;
    const there = traces.filter((other) => other.started_ms <= started_ms && other.ended_ms > since_ms);
    return there.length <= max_starts ? [] : [`${id} was start ${there.length} in a window of ${max_starts}`];
  });
}

function traceProblems({ id, fault, outcomes, stages, rows, instruction }: Trace): string[] {
  return [
    ...fault === undefined ? [] : [`the trace of ${id} is damaged: ${fault}`],
    ...outcomes.length === 1 && stages.at(-1) === "done"
      ? []
      : [`${id} has ${outcomes.length} outcomes and stands in ${stages.at(-1)}`],
    ...rows.filter((type) => type === "created").length === 1 ? [] : [`${id} was created more than once`],
    ...tagIn(instruction) === undefined ? [`no client has asked for ${id}`] : [],
  ];
}

function orderProblems({ orders, traces, items }: World): string[] {
  const tasks = Map.groupBy(traces, ({ instruction }) => tagIn(instruction));
  const queued = Map.groupBy(items, ({ request }) => tagIn(request.instruction));
  const known = new Set(orders.map(({ tag }) => tag));
  const problems = [...tasks.keys(), ...queued.keys()].filter((tag) => tag === undefined || !known.has(tag))
    .map((tag) => `no client has asked for ${tag}`);
  for (const { tag, via, fate, id } of orders) {
    const [begun = [], waiting = []] = [tasks.get(tag), queued.get(tag)];
    if (begun.length > 1) problems.push(`${tag} was begun ${begun.length} times`);
    if (waiting.length > 1) problems.push(`${tag} was queued ${waiting.length} times`);
    if (fate === "refused" && begun.length + waiting.length > 0) problems.push(`${tag} was refused and is there`);
    if (fate !== "accepted") continue;
    const found = via === "submit" ? begun[0]?.id : waiting[0]?.id;
    if (found !== id) problems.push(`${tag} was accepted as ${id} and is ${found ?? "gone"}`);
  }
  return problems;
}

/** What an item has to be when its task has ended so. */
const ITEM_STATES: Readonly<Record<string, string>> = {
  pushed: "completed",
  no_diff: "completed",
  denied: "cancelled",
  cancelled: "cancelled",
  timed_out: "dead_letter",
  setup_failed: "dead_letter",
  agent_failed: "dead_letter",
  policy_blocked: "dead_letter",
  push_failed: "dead_letter",
};

function itemProblems({ items, traces }: World): string[] {
  const tasks = Map.groupBy(traces.filter(({ queue_id }) => queue_id !== undefined), ({ queue_id }) => queue_id!);
  const ids = new Set(items.map(({ id }) => id));
  const problems = [...tasks.keys()].filter((id) => !ids.has(id)).map((id) => `the item ${id} of a task is gone`);
  for (const { id, state, task_id } of items) {
    const [task, ...more] = tasks.get(id) ?? [];
    if (more.length > 0) problems.push(`the item ${id} was begun ${more.length + 1} times`);
    if (task === undefined) {
      if (state !== "cancelled") problems.push(`the item ${id} is ${state} and has no task`);
      continue;
    }
    // Cancelled while its task was being made, by a broker that was killed before it could end that.
    const cut_off = state === "cancelled" && isCrashed(task);
    const expected = ITEM_STATES[task.outcomes[0] ?? ""];
    if (state !== expected && !cut_off) {
      problems.push(`the item ${id} is ${state} and its task ${task.id} ${task.outcomes[0]}`);
    }
    if (task_id !== task.id) problems.push(`the item ${id} does not name its task ${task.id}`);
  }
  return problems;
}

function branchProblems({ branches, decisions }: World, by_id: ReadonlyMap<string, Trace>): string[] {
  const problems: string[] = [];
  const pushed = new Set<string>();
  for (const { name, commit, parents, tree, changes } of branches) {
    const id = /^agent\/([0-9a-f]{32})(?:-\d+)?$/.exec(name)?.[1] ?? "";
    const trace = by_id.get(id);
    if (trace === undefined) {
      problems.push(`${name} is no task's branch`);
      continue;
    }
    if (pushed.has(id)) problems.push(`${id} was pushed to more than one branch`);
    pushed.add(id);
    const says = (what: string) => problems.push(`${name}: ${what}`);
    if (trace.outcomes[0] !== "pushed") says(`is on the remote, and its task is ${trace.outcomes[0]}: ${trace.reason}`);
    else if (trace.pushed?.branch !== name || trace.pushed.commit !== commit) says("is not what its trace says");
    if (!decisions.get(id)?.approvals_sent.includes(trace.approved_diff ?? "")) says("no client has approved it");
    if (tree !== trace.tree) says(`has the tree ${tree}, and ${trace.tree} was approved`);
    if (parents !== trace.base_commit) says(`stands on ${parents}, not on ${trace.base_commit}`);
    const planned = [...planOf(tagIn(trace.instruction)!).files].map(([path, text]) => `${path} ${blobId(text)}`);
    const there = [...changes].map(([path, blob]) => `${path} ${blob}`);
    if (planned.toSorted().join("\n") !== there.toSorted().join("\n")) says(`changes ${there}, not ${planned}`);
  }
  for (const { id, outcomes } of by_id.values()) {
    if (outcomes[0] === "pushed" && !pushed.has(id)) problems.push(`${id} is pushed, and no remote has it`);
  }
  return problems;
}

function decisionProblems({ decisions }: World, by_id: ReadonlyMap<string, Trace>): string[] {
  const problems: string[] = [];
  for (const [id, { approvals_sent, approved, denied, denial_sent, ended, end_sent }] of decisions) {
    const trace = by_id.get(id);
    const outcome = trace?.outcomes[0];
    if (trace === undefined || outcome === undefined) {
      problems.push(`${id} was decided on and is gone`);
      continue;
    }
    const says = (what: string) => problems.push(`${id} ${what}, and is ${outcome}: ${trace.reason}`);
    if (approved && !["pushed", "push_failed"].includes(outcome)) says("was approved");
    if (outcome === "pushed" && approvals_sent.length === 0) says("was never approved");
    if (denied && outcome !== "denied") says("was denied");
    if (outcome === "denied" && !denial_sent && !trace.reason.includes("approval_timeout")) says("was never denied");
    // Asked to end, and the broker was killed before it had.
    if (ended && outcome !== "cancelled" && !isCrashed(trace)) says("was ended");
    if (outcome === "cancelled" && !end_sent && trace.queue_id === undefined) says("was never ended");
  }
  return problems;
}

function followingProblems({ followings }: World, by_id: ReadonlyMap<string, Trace>): string[] {
  return followings.flatMap(({ id, rows, stages, results, over }) => {
    const trace = by_id.get(id);
    if (trace === undefined || !over) return [`who followed ${id} saw no end`];
    const expected = trace.rows.flatMap((type, index) => type === "claimed" ? [] : [index + 1]);
    return [
      ...rows.join() === expected.join() ? [] : [`who followed ${id} saw the rows ${rows}, not ${expected}`],
      ...results.join() === trace.outcomes.join() ? [] : [`who followed ${id} saw ${results}, not ${trace.outcomes}`],
      ...stages.join() === trace.stages.slice(0, -1).join() ? [] : [`who followed ${id} saw ${stages}`],
    ];
  });
}

/** Holds the traces and the ledger against the vendor's bill, task by task. */
function account({ traces, bill, ledger, kills, slots }: World): { problems: string[]; money: Money } {
  const problems: string[] = [];
  const asked = Map.groupBy(bill, ({ tag }) => tag);
  const money: Money = {
    billed_usd: sum(bill, ({ usd }) => usd),
    metered_usd: 0,
    unreported_usd: sum(bill, ({ usd, reported_usd }) => usd - reported_usd),
    unreported_requests: bill.filter(({ usd, reported_usd }) => usd > reported_usd).length,
    estimated_usd: 0,
    lost_usd: 0,
    lost_requests: 0,
    unknown_starts: 0,
  };
  let unknown_ends = 0;
  for (const trace of traces) {
    const tag = tagIn(trace.instruction) ?? "";
    const requests = asked.get(tag) ?? [];
    asked.delete(tag);
    const spent = trace.spent ?? { usd: 0, requests: 0, unmetered_requests: 0 };
    const reported_usd = sum(requests, (request) => request.reported_usd);
    const unmetered = requests.filter((request) => request.unmetered).length;
    const missing = { requests: requests.length - spent.requests, usd: reported_usd - spent.usd };
    money.metered_usd += spent.usd;
    money.estimated_usd += Math.max(0, -missing.usd);
    const cuts = requests.filter(({ fate }) => fate.startsWith("cut_")).length;
    const is_charged_more = missing.usd < -ROUNDING_USD - cuts * MAX_ESTIMATED_USD;
    const says = (what: string) => problems.push(`${trace.id} (${tag}, ${trace.outcomes[0]}, ${trace.reason}) ${what}`);
    if (isCrashed(trace)) {
      money.lost_usd += Math.max(0, missing.usd);
      money.lost_requests += missing.requests;
      const most_usd = LOST_REQUESTS * MAX_REQUEST_TOKENS * TOKEN_USD;
      if (missing.requests < 0 || missing.requests > LOST_REQUESTS) says(`lost ${missing.requests} requests`);
      if (is_charged_more || missing.usd > most_usd) says(`lost $${missing.usd}`);
    } else {
      // One that was cut off while the vendor was being connected to counts, and costs nothing.
      const unseen = trace.outcomes[0] === "cancelled" ? 1 : 0;
      if (missing.requests > 0 || -missing.requests > unseen) {
        says(`has ${spent.requests} requests, the vendor ${requests.length}`);
      }
      if (is_charged_more || missing.usd > ROUNDING_USD) {
        says(`has $${spent.usd}, the vendor reported $${reported_usd}`);
      }
      if (unmetered !== spent.unmetered_requests) {
        says(`has ${spent.unmetered_requests} unmetered requests, and there were ${unmetered}`);
      }
    }
    const recorded = ledger.get(trace.id);
    if (recorded === undefined) says("is no start of the ledger");
    else if (recorded === null) {
      money.unknown_starts++;
      if (!isCrashed(trace)) unknown_ends++;
    } else if (Math.abs(recorded - spent.usd) > ROUNDING_USD) says(`has $${spent.usd}, the ledger $${recorded}`);
  }
  for (const tag of asked.keys()) problems.push(`the vendor was asked for ${tag}, and there is no such task`);
  const ids = new Set(traces.map(({ id }) => id));
  for (const id of ledger.keys()) if (!ids.has(id)) problems.push(`the ledger has a start ${id} of no task`);
  // A broker that is killed between a task's last row and its line in the ledger.
  if (unknown_ends > kills * slots) problems.push(`the ledger does not know what ${unknown_ends} ended tasks cost`);
  const apart = money.billed_usd + money.estimated_usd - money.metered_usd - money.unreported_usd - money.lost_usd;
  if (Math.abs(apart) > ROUNDING_USD * bill.length) {
    problems.push(`$${apart} of the vendor's bill is not accounted for`);
  }
  return { problems, money };
}

function sum<T>(list: readonly T[], figure: (each: T) => number): number {
  return list.reduce((total, each) => total + figure(each), 0);
}
