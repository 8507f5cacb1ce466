import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { InvalidConfig } from "../../../broker/settings/invalid_config.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { BrokerBench } from "../engine/bench.ts";
import { ProcessRuntime } from "../engine/process_runtime.ts";
import { Vendors } from "./_vendor.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

/** Stand-ins for the agents' programs: as many requests as the instruction says, then a change with the answers in it. */
const CLAUDE = `#!/bin/bash
for n in $(seq 1 "\${!#}"); do
  code=$(curl -sS -o answer -w '%{http_code}' -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" \\
    -H 'anthropic-version: 2023-06-01' -H 'anthropic-beta: claude-code-20250219' -H 'content-type: application/json' \\
    -d '{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"hi"}]}' \\
    "$ANTHROPIC_BASE_URL/v1/messages")
  cat answer >> answers.txt
  cat answer
  [ "$code" = 200 ] || exit 9
done
env > env.txt
`;
const CODEX = `#!/bin/bash
base=$(sed -n 's/^base_url = "\\(.*\\)"/\\1/p' "$HOME/.codex/config.toml")
for n in $(seq 1 "\${!#}"); do
  code=$(curl -sS -o answer -w '%{http_code}' -H "authorization: Bearer $TASKD_TOKEN" \\
    -H 'content-type: application/json' -d '{"model":"gpt-5","input":"hi"}' "$base/responses")
  cat answer >> answers.txt
  cat answer
  [ "$code" = 200 ] || exit 9
done
env > env.txt
`;

interface Subscribed {
  bench: BrokerBench;
  vendors: Vendors;
  runtime: ProcessRuntime;
  /** Path of a lane's credential file. */
  path(lane: "vendor_a" | "vendor_b"): string;
  /** Writes both credential files. */
  sign(more?: Record<string, unknown>): void;
  /** What the broker's folder and log hold, except the credentials themselves; and what was run and asked. */
  seen(): Promise<string>;
}

async function withSubscriptions(config: string, test: (subscribed: Subscribed) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await writeProgram(`${folder}/claude`, CLAUDE);
    await writeProgram(`${folder}/codex`, CODEX);
    const runtime = new ProcessRuntime(folder);
    await using vendors = new Vendors();
    await using bench = await BrokerBench.prepare({ overrides: { runtime } });
    bench.configure(
      `vendor_a_auth: subscription\nvendor_b_auth: subscription\nupstreams:\n  vendor_a: ${vendors.url}\n  vendor_b: ${vendors.url}\n${config}`,
    );
    const path = (lane: "vendor_a" | "vendor_b") => `${bench.home}/.taskd/${lane}-oauth.json`;
    const sign = (more: Record<string, unknown> = {}) => {
      Deno.writeTextFileSync(path("vendor_a"), vendors.a.file(`${vendors.url}/a/token`, more), { mode: 0o600 });
      const b = vendors.b.file(`${vendors.url}/b/token`, { account_id: "acct-1", ...more });
      Deno.writeTextFileSync(path("vendor_b"), b, { mode: 0o600 });
    };
    const seen = async () => {
      const files = await Promise.all(
        (["vendor_a", "vendor_b"] as const).map((lane) => Deno.readTextFile(path(lane)).catch(() => "")),
      );
      let text = await bench.written();
      for (const file of files) if (file !== "") text = text.replaceAll(file, "");
      return `${text}\n${JSON.stringify(runtime.specs)}`;
    };
    sign();
    await bench.serve();
    await test({ bench, vendors, runtime, path, sign, seen });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Whether a text has any token of an account. */
function leaks(text: string, { a, b }: Vendors): string[] {
  return [...a.tokens, ...b.tokens].filter((token) => text.includes(token));
}

// conformance: b2.effect.vendor_a_auth b2.effect.vendor_b_auth b5.subscription
longTest(
  "a subscription sends the credential file's bearer with its headers to both vendors",
  () =>
    withSubscriptions("", async ({ bench, vendors, seen }) => {
      for (const agent of ["agent_a", "agent_b"]) {
        const { id } = await bench.submit({ agent, instruction: "2" });
        const record = await bench.reaches(id, "awaiting_approval");
        assertEquals(record.stage, "awaiting_approval", record.reason);
        assertEquals([record.spend?.requests, record.spend?.input_tokens], [2, 2_000]);
        assertEquals((await bench.engine.brief(id)).budget_usd, 0, "no budget is enforced");
      }
      assertEquals(vendors.requests.map(({ path, status }) => [path, status]), [
        ["/v1/messages", 200],
        ["/v1/messages", 200],
        ["/v1/responses", 200],
        ["/v1/responses", 200],
      ]);
      const [first] = vendors.requests;
      assertEquals(first!.headers.get("anthropic-beta"), "claude-code-20250219,oauth-2025-04-20");
      assertEquals(leaks(await seen(), vendors), []);
      assertStringIncludes(await seen(), "you sent Bearer", "the answers were kept");
    }),
);

Deno.test("an expired credential is renewed before the task, and its file stays 0600", () =>
  withSubscriptions("", async ({ bench, vendors, path, sign, seen }) => {
    sign({ expires_at: new Date(Date.now() - 1_000).toISOString() });
    const { id } = await bench.submit({ agent: "agent_a", instruction: "3" });
    const record = await bench.reaches(id, "awaiting_approval");
    assertEquals(record.stage, "awaiting_approval", record.reason);
    assertEquals([vendors.a.renewals, vendors.b.renewals, vendors.answered(401)], [1, 0, 0]);
    const file = JSON.parse(await Deno.readTextFile(path("vendor_a")));
    assertEquals([file.access_token, file.refresh_token, file.plan], ["oauth-a-access-1", "oauth-a-refresh-1", "max"]);
    assert(Date.parse(file.expires_at) > Date.now());
    assertEquals(Deno.statSync(path("vendor_a")).mode! & 0o777, 0o600);
    const left = [...Deno.readDirSync(`${bench.home}/.taskd`)].filter(({ name }) => name.includes("oauth"));
    assertEquals(left.map(({ name }) => name).sort(), ["vendor_a-oauth.json", "vendor_b-oauth.json"]);
    assertEquals(leaks(await seen(), vendors), []);
  }));

longTest(
  "a bearer that the vendor refuses is renewed once, and the agent sees nothing of it",
  () =>
    withSubscriptions("", async ({ bench, vendors, path, seen }) => {
      for (const account of [vendors.a, vendors.b]) account.access = "revoked elsewhere";
      for (const agent of ["agent_a", "agent_b"]) {
        const { id } = await bench.submit({ agent, instruction: "2" });
        const record = await bench.reaches(id, "awaiting_approval");
        assertEquals([record.stage, record.spend?.requests], ["awaiting_approval", 2], record.reason);
      }
      assertEquals([vendors.a.renewals, vendors.b.renewals], [1, 1]);
      assertEquals([vendors.answered(401), vendors.answered(200)], [2, 4]);
      for (const lane of ["vendor_a", "vendor_b"] as const) {
        assertEquals(
          JSON.parse(await Deno.readTextFile(path(lane))).account_id,
          lane === "vendor_b" ? "acct-1" : undefined,
        );
      }
      assertEquals(leaks(await seen(), vendors), []);
    }),
);

Deno.test("a subscription that cannot be renewed refuses the task with file, reason and remedy", () =>
  withSubscriptions("", async ({ bench, vendors, path, sign, seen }) => {
    sign({ expires_at: new Date(Date.now() - 1_000).toISOString() });
    vendors.a.refuses = true;
    const before = await Deno.readTextFile(path("vendor_a"));
    const error = await assertRejects(() => bench.submit({ agent: "agent_a", instruction: "1" }), TaskdError);
    assertEquals(error.code, "unavailable");
    assertEquals(error.message, `Cannot renew the subscription of ${path("vendor_a")}: the vendor answered 400`);
    assertStringIncludes(error.hint!, "Sign in again with claude");
    assertEquals([bench.engine.tasks.size, await Deno.readTextFile(path("vendor_a"))], [0, before]);
    // Signing in again needs no restart.
    vendors.a.refuses = false;
    sign();
    assertEquals((await bench.submit({ agent: "agent_a", instruction: "1" })).agent, "agent_a");
    assertEquals(leaks(await seen(), vendors), []);
  }));

Deno.test("a subscription that ends during a task fails it, and the log names the file", () =>
  withSubscriptions("", async ({ bench, vendors, path, seen }) => {
    vendors.b.access = "revoked elsewhere";
    vendors.b.refuses = true;
    const { id } = await bench.submit({ agent: "agent_b", instruction: "1" });
    const done = await bench.reaches(id);
    assertEquals([done.outcome, done.reason], ["agent_failed", "the agent ended with code 9"]);
    const trace = await Deno.readTextFile(`${bench.home}/.taskd/audit/${id}.jsonl`);
    assertStringIncludes(trace, "sign in again on the host");
    const reported = bench.lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "subscription");
    assertEquals(reported.length, 1);
    assertStringIncludes(reported[0].message, `${path("vendor_b")}: the vendor answered 400 (Sign in again with codex`);
    assertEquals(leaks(await seen(), vendors), []);
  }));

// conformance: b2.effect.task_budget_usd b2.effect.task_max_requests
longTest(
  "with a subscription no budget ends a task, and task_max_requests does",
  () =>
    withSubscriptions("task_budget_usd: 0.000001\ntask_max_requests: 3\n", async ({ bench, vendors }) => {
      const fits = await bench.submit({ agent: "agent_a", instruction: "2" });
      const record = await bench.reaches(fits.id, "awaiting_approval");
      assertEquals(record.stage, "awaiting_approval", record.reason);
      assert(record.spend!.usd > 0.000001, "it is metered all the same");
      const { id } = await bench.submit({ agent: "agent_a", instruction: "5" });
      const done = await bench.reaches(id);
      assertEquals(done.outcome, "agent_failed");
      assertStringIncludes(done.reason!, "it made 3 of 3 requests; raise task_max_requests");
      assertEquals(vendors.answered(200), 2 + 3);
      const order = { agent: "agent_a", instruction: "1", budget_usd: 0.000001 };
      const error = await assertRejects(() => bench.submit(order), TaskdError);
      assertStringIncludes(error.message, "a subscription has no budget in dollars");
    }),
);

// conformance: b2.ceiling.scope
longTest(
  "the global ceiling counts subscriptions of both vendors, the aggregate one does not",
  () =>
    withSubscriptions("aggregate_budget_usd: 0.000001\nglobal_budget_usd: 0.01\n", async ({ bench }) => {
      const spent: number[] = [];
      for (const agent of ["agent_a", "agent_b"]) {
        const { id } = await bench.submit({ agent, instruction: "2" });
        const { spend } = await bench.reaches(id, "awaiting_approval");
        spent.push(spend!.usd);
      }
      const total = spent[0]! + spent[1]!;
      assert(Math.abs(bench.engine.ceiling().spent_usd! - total) < 1e-9);
      if (total < 0.01) {
        const { id } = await bench.submit({ agent: "agent_a", instruction: "4" });
        await bench.reaches(id, "awaiting_approval");
      }
      const error = await assertRejects(() => bench.submit({ agent: "agent_b", instruction: "1" }), TaskdError);
      assertEquals(error.code, "ceiling_reached");
      assertStringIncludes(error.message, "global_budget_usd");
    }),
);

// conformance: b1.agent_c_key_only
Deno.test("agent_c has no subscription: not by setting, not by variable, not by a file", async () => {
  await using bench = await BrokerBench.prepare({ env: { TASKD_VENDOR_C_AUTH: "subscription" } });
  bench.configure("vendor_c_auth: subscription\n");
  const refused = await assertRejects(() => bench.serve(), InvalidConfig);
  assertStringIncludes(refused.hint!, "agent_c has no subscription mode");
  bench.configure("");
  const file = `${bench.home}/.taskd/vendor_c-oauth.json`;
  await Deno.writeTextFile(file, JSON.stringify({ access_token: "oauth-c" }), { mode: 0o600 });
  const folder = await Deno.makeTempDir();
  const programs = new ProcessRuntime(folder);
  await using other = await BrokerBench.prepare({ overrides: { runtime: programs } });
  await Deno.copyFile(file, `${other.home}/.taskd/vendor_c-oauth.json`);
  await other.serve();
  const error = await assertRejects(() => other.submit({ agent: "agent_c" }), TaskdError);
  assertEquals(error.code, "auth_failed");
  assertStringIncludes(error.message, "VENDORC_API_KEY");
  await Deno.remove(folder);
});
