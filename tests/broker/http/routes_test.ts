import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { NotAcknowledged } from "../../../broker/task/not_acknowledged.ts";
import type { Decider } from "../../../broker/task/stages.ts";
import { BrokerClient } from "../../../broker/client/client.ts";
import { ROUTES } from "../../../broker/http/routes.ts";
import { type ErrorCode, TaskdError } from "../../../lib/errors.ts";
import { APPROVED, SHA } from "../task/lives.ts";
import { beginSession } from "../../support/page_session.ts";
import { headerOf } from "../../support/raw_http.ts";
import { verdictOf, withBroker } from "./_broker.ts";
import { spendOf } from "./small_engine.ts";
import { sha256Hex } from "../../../lib/sha256.ts";

const ORDER = { repo: "https://example.com/o/r.git", instruction: "Fix the test" };

async function codeOf(call: Promise<unknown>): Promise<ErrorCode> {
  return (await assertRejects(() => call, TaskdError)).code;
}

// conformance: b1.submit
Deno.test("a task is submitted with 202, its id, its links, and is on the disk by then", () =>
  withBroker(async ({ client, engine, http }) => {
    const request = {
      ...ORDER,
      agent: "agent_d",
      model: "m",
      base: "main",
      egress_extra: [{ host: "a.example", ports: [443] }],
      sensitive: true,
      draft: true,
      platform: "linux/amd64",
      databases: ["shop"],
    };
    const { id, stage, links } = await client.submit(request);
    assertEquals(stage, "admission");
    assertEquals(links, {
      self: `/tasks/${id}`,
      events: `/tasks/${id}/events`,
      diff: `/tasks/${id}/diff`,
      brief: `/tasks/${id}/brief`,
      log: `/tasks/${id}/log`,
    });
    assertEquals(engine.asked, [["submit", request]]);
    assertEquals(engine.tasks.read(id).repo, ORDER.repo);
    assert(http.socket.endsWith("taskd.sock"));
  }));

Deno.test("the answer to a submission names the task in Location", () =>
  withBroker(async (broker) => {
    const answer = await broker.ask("POST /tasks", [], { body: JSON.stringify(ORDER) });
    assertEquals(answer.status, 202);
    assertEquals(headerOf(answer, "location"), JSON.parse(answer.body).links.self);
  }));

Deno.test("every task is read by any unique prefix of its id; others are errors", () =>
  withBroker(async ({ client }) => {
    const { id } = await client.submit(ORDER);
    for (const prefix of [id, id.slice(0, 6), id.slice(0, 6).toUpperCase()]) {
      assertEquals((await client.task(prefix)).id, id);
    }
    const other = ["0", "1"].find((digit) => !id.startsWith(digit))!;
    assertEquals(await codeOf(client.task(other.repeat(3))), "not_found");
    assertEquals(await codeOf(client.task("nonsense")), "usage");
    assertEquals(await codeOf(client.task("")), "usage");
    assertEquals(await codeOf(client.task("..")), "not_found");
    assertEquals(await codeOf(client.kill("../../tasks")), "usage");
    for (let n = 0; n < 17; n++) await client.submit(ORDER);
    const digits = (await client.tasks()).tasks.map((task) => task.id[0]!);
    const twice = digits.find((digit, at) => digits.indexOf(digit) !== at)!;
    assertEquals(await codeOf(client.task(twice)), "usage");
  }));

Deno.test("a record has live spend, the trace's state and refused egress", () =>
  withBroker(async ({ client, engine }) => {
    const { id } = await client.submit(ORDER);
    engine.live.set(id, spendOf(3));
    const view = await client.task(id);
    assertEquals(view.live, spendOf(3));
    assertEquals(view.trace, { intact: true, rows: 1 });
    assertEquals(view.refused_egress[0]?.target, "evil.example:443");
    assertEquals((await client.tasks()).tasks[0]?.live, spendOf(3));
  }));

Deno.test("lists come newest first, in pages, by stage", () =>
  withBroker(async ({ client, engine, log }) => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await client.submit(ORDER)).id);
    const all = (await client.tasks()).tasks.map(({ id }) => id);
    assertEquals(all.toSorted(), ids.toSorted());
    const first = await client.tasks({ limit: 3 });
    assertEquals(first.tasks.map(({ id }) => id), all.slice(0, 3));
    assertEquals(first.next, all[2]);
    const second = await client.tasks({ limit: 3, before: first.next! });
    assertEquals(second.tasks.map(({ id }) => id), all.slice(3));
    assertEquals(second.next, undefined);
    await engine.tasks.live(ids[0]!)!.move({ from: "admission", to: "staging" });
    assertEquals((await client.tasks({ stage: "staging" })).tasks.map(({ id }) => id), [ids[0]!]);
    assertEquals(log, []);
  }));

/** Parameters that take any text. */
const ANY_TEXT = ["before", "database", "table", "search", "cursor"];

Deno.test("a parameter is refused for what its schema in the table refuses, with what it must be", () =>
  withBroker(async (broker) => {
    const { id } = await broker.runningTask();
    const asked = ROUTES.flatMap(({ path, query = {} }) =>
      Object.keys(query).filter((name) => !ANY_TEXT.includes(name)).map((name) => [path.replace("<id>", id), name])
    );
    assertEquals(asked.map(([, name]) => name), [
      "limit",
      "stage",
      "kind",
      "limit",
      "value_bytes",
      "follow",
      "since",
      "by",
    ]);
    for (const [path, name] of asked) {
      for (const value of ["", "nowhere", "constructor", "-1", "1e3", "9".repeat(20)]) {
        const answer = await broker.ask(`GET ${path}?${name}=${value}`);
        assertEquals(verdictOf(answer), [400, "invalid_request"], `${path} ${name}=${value}`);
        assertStringIncludes(answer.body, `Cannot take the address: ${name} must be `);
      }
    }
  }));

Deno.test("a list refuses what it does not know", () =>
  withBroker(async (broker) => {
    for (
      const query of ["limit=0", "limit=1001", "limit=x", "limit=-1", "stage=nowhere", "stages=done", "limit=1&limit=2"]
    ) {
      assertEquals(verdictOf(await broker.ask(`GET /tasks?${query}`)), [400, "invalid_request"], query);
    }
    assertStringIncludes((await broker.ask("GET /tasks?stages=done")).body, 'Did you mean \\"stage\\"?');
    assertEquals(verdictOf(await broker.ask("GET /healthz?x=1")), [400, "invalid_request"]);
    assertEquals(verdictOf(await broker.ask("GET /tasks?before=zz")), [400, "usage"]);
  }));

Deno.test("a diff is served byte by byte with its digest, and as 304 to a client that has it", () =>
  withBroker(async (broker) => {
    const { client, engine } = broker;
    const { id } = await client.submit(ORDER);
    assertEquals(await codeOf(client.diff(id)), "not_found");
    const bytes = new Uint8Array([0xff, 0, 0x1b, 0x0a, 0x2b, 0xc3]);
    engine.diffs.set(id, bytes);
    const sha256 = sha256Hex(bytes);
    assertEquals(await client.diff(id), { bytes, shown_sha256: sha256 });
    const answer = await broker.ask(`GET /tasks/${id}/diff`);
    assertEquals(headerOf(answer, "content-type"), "text/x-diff");
    assertEquals(headerOf(answer, "etag"), `"${sha256}"`);
    const again = await broker.ask(`GET /tasks/${id}/diff`, [`If-None-Match: "${sha256}"`]);
    assertEquals([again.status, again.body], [304, ""]);
  }));

Deno.test("the brief is what the broker established", () =>
  withBroker(async ({ client }) => {
    const { id } = await client.submit(ORDER);
    const brief = await client.brief(id);
    assertEquals([brief.task_id, brief.repo, brief.diff], [id, ORDER.repo, null]);
    assert(brief.missing_evidence.length > 0);
  }));

Deno.test("the log is the sanitised output in order, and a followed one ends with the task", () =>
  withBroker(async (broker) => {
    const { client } = broker;
    const task = await broker.runningTask();
    await task.append({ type: "output", channel: "setup", text: "one\ntwo\n" });
    await task.append({ type: "note", text: "not output" });
    await task.append({ type: "output", channel: "stdout", text: "\u001b[31mred" });
    await task.append({ type: "output", channel: "stderr", text: "long", cut_chars: 7 });
    const expected = "one\ntwo\n\\x1b[31mred\nlong\n[7 more characters were cut]\n";
    assertEquals((await Array.fromAsync(client.log(task.id))).join(""), expected);
    const seen: string[] = [];
    const following = (async () => {
      for await (const text of client.log(task.id, { follow: true })) {
        seen.push(text);
        if (seen.join("") !== expected) continue;
        await task.append({ type: "output", channel: "stdout", text: "more" });
        await task.move({ from: "running", to: "done", outcome: "cancelled", reason: "r" });
      }
    })();
    await following;
    assertEquals(seen.join(""), `${expected}more\n`);
  }));

Deno.test("approving takes the diff that was read and every category, and names a missing one", () =>
  withBroker(async (broker) => {
    const { client } = broker;
    const task = await broker.taskAtGate();
    const [pending] = await client.pending();
    assertEquals([pending?.id, pending?.gate.diff_sha256], [task.id, SHA]);
    const error = await assertRejects(
      () => client.approve(task.id, { diff_sha256: SHA, acknowledge: ["lockfile"] }),
      NotAcknowledged,
    );
    assertEquals([error.code, error.missing], ["not_acknowledged", ["ci_files"]]);
    const stale = { diff_sha256: "0".repeat(64), acknowledge: ["ci_files", "lockfile"] };
    assertEquals(await codeOf(client.approve(task.id, stale)), "stale_diff");
    const answers = await Promise.all(["brief", "diff"].map((part) => {
      broker.engine.diffs.set(task.id, new Uint8Array());
      return broker.ask(`GET /tasks/${task.id}/${part}`);
    }));
    assertEquals(answers.map((answer) => headerOf(answer, "x-diff-sha256")), [SHA, SHA]);
    const seen = [{ part: "files" as const, from: 1, to: 2, of: 2 }];
    await client.approve(task.id, { diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"], seen });
    assertEquals(task.record.stage, APPROVED.to);
    const { at, ...approval } = task.record.approval!;
    assertEquals([approval.seen, approval.by?.via, at], [seen, "socket", task.record.stage_since]);
    // Twice, or after a decision, is too late.
    assertEquals(await codeOf(client.approve(task.id, { ...stale, diff_sha256: SHA })), "wrong_state");
    assertEquals(await codeOf(client.deny(task.id, "no")), "wrong_state");
    assertEquals(await client.pending(), []);
  }));

Deno.test("an approval answers 409 for a stale diff or wrong state, 422 with what is missing, 204", () =>
  withBroker(async (broker) => {
    const task = await broker.taskAtGate();
    const approve = (body: object) =>
      broker.ask(`POST /admin/tasks/${task.id}/approve`, [], { body: JSON.stringify(body) });
    assertEquals(verdictOf(await approve({ diff_sha256: "0".repeat(64) })), [409, "stale_diff"]);
    const incomplete = await approve({ diff_sha256: SHA });
    assertEquals(verdictOf(incomplete), [422, "not_acknowledged"]);
    assertEquals(JSON.parse(incomplete.body).missing, ["ci_files", "lockfile"]);
    const whole = { diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] };
    assertEquals((await approve(whole)).status, 204);
    assertEquals(verdictOf(await approve(whole)), [409, "wrong_state"]);
    for (const body of [{}, { diff_sha256: "abc" }, { diff_sha256: SHA.toUpperCase() }, { diff_sha256: 1 }]) {
      assertEquals(verdictOf(await approve(body)), [400, "invalid_request"]);
    }
    assertEquals(
      verdictOf(await broker.ask(`POST /admin/tasks/${"0".repeat(32)}/approve`, [], { body: "{}" })),
      [404, "not_found"],
    );
  }));

Deno.test("whatever a person decides is recorded with who could come in, and where", () =>
  withBroker(async (broker) => {
    const { client, http, port, ui_port } = broker;
    const token = await beginSession(await client.uiUrl());
    const owner = `the owner of the socket (uid ${Deno.uid()})`;
    const command = ["User-Agent: taskd"];
    const page = [`Host: 127.0.0.1:${ui_port}`, `Authorization: Bearer ${token}`];
    const table: [Decider, string[], { port?: number }][] = [
      [{ via: "command line", who: owner }, command, {}],
      [{ via: "socket", who: owner }, [], {}],
      [{ via: "HTTP", who: "127.0.0.1" }, [`Host: ${http.addr}`, ...command], { port }],
      [{ via: "page", who: "the holder of its token, at 127.0.0.1" }, [...page, ...command], { port: ui_port }],
    ];
    for (const [by, more, options] of table) {
      const [approved, denied] = [await broker.taskAtGate(), await broker.taskAtGate()];
      const body = JSON.stringify({ diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] });
      const approving = await broker.ask(`POST /admin/tasks/${approved.id}/approve`, more, { ...options, body });
      const denying = await broker.ask(`POST /admin/tasks/${denied.id}/deny`, more, options);
      assertEquals([approving.status, denying.status], [204, 204], by.via);
      assertEquals([approved.record.approval?.by, approved.record.ended_by], [by, undefined]);
      assertEquals([denied.record.ended_by, denied.record.approval], [by, undefined]);
      assertEquals((await client.task(denied.id)).ended_by, by);
      const killed = await broker.runningTask();
      await approved.move({ from: "pushing", to: "push_failed", reason: "the host is away" });
      const killing = await broker.ask(`POST /admin/tasks/${killed.id}/kill`, more, options);
      const pushing = await broker.ask(`POST /admin/tasks/${approved.id}/push`, more, options);
      assertEquals([killing.status, pushing.status], [204, 204], by.via);
      const { push_asked } = await client.task(approved.id);
      assertEquals([killed.record.ended_by, push_asked?.by, push_asked?.at], [by, by, approved.record.stage_since]);
    }
  }, { addr: "127.0.0.1:0" }));

Deno.test("denying and ending take a reason, or no body at all", () =>
  withBroker(async (broker) => {
    const { client, engine } = broker;
    const [denied, killed] = [await broker.taskAtGate(), await broker.runningTask()];
    await client.deny(denied.id.slice(0, 8), "not today");
    assertEquals([denied.record.outcome, denied.record.reason], ["denied", "not today"]);
    assertEquals((await broker.ask(`POST /admin/tasks/${killed.id}/kill`)).status, 204);
    assertEquals(killed.record.outcome, "cancelled");
    assertEquals(engine.asked.at(-1), ["kill", killed.id, ""]);
    assertEquals(await codeOf(client.kill(killed.id)), "wrong_state");
  }));

Deno.test("a host is granted to a running task by an operator, within bounds", () =>
  withBroker(async (broker) => {
    const { client, engine } = broker;
    const { id } = await broker.runningTask();
    const grant = { host: "api.example.com", port: 443, for_ms: 60_000 };
    await client.grantEgress(id.slice(0, 8), { ...grant, uses: 3 });
    const [name, of, request, by] = engine.asked.at(-1) as unknown[];
    assertEquals([name, of, request], ["grantEgress", id, { ...grant, uses: 3 }]);
    assertEquals((by as Decider).via, "socket");
    for (
      const wrong of [{ port: 0 }, { port: 65_536 }, { for_ms: 0 }, { for_ms: 86_400_001 }, { uses: 0 }, { host: "" }]
    ) {
      assertEquals(await codeOf(client.grantEgress(id, { ...grant, ...wrong })), "invalid_request");
    }
    assertEquals(await codeOf(client.grantEgress((await broker.taskAtGate()).id, grant)), "wrong_state");
  }));

Deno.test("another round is for a change that waits to land", () =>
  withBroker(async (broker) => {
    const { client, engine } = broker;
    const task = await broker.taskAtGate();
    assertEquals(await codeOf(client.push(task.id)), "wrong_state");
    engine.base_notes.push("main has moved on");
    assertEquals(await client.bases(task.id.slice(0, 8)), { notes: ["main has moved on"] });
    await client.approve(task.id, { diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] });
    await task.move({ from: "pushing", to: "push_failed", reason: "the host is away" });
    assertEquals((await client.stats()).push_failed, 1);
    assertEquals((await broker.ask(`POST /admin/tasks/${task.id}/push`)).status, 204);
    assertEquals([engine.asked.at(-1), task.record.stage], [["push", task.id], "pushing"]);
    assertEquals(await codeOf(client.push(task.id)), "wrong_state");
  }));

Deno.test("a task is submitted again as a new one", () =>
  withBroker(async ({ client, engine }) => {
    const { id } = await client.submit(ORDER);
    const again = await client.retry(id.slice(0, 10));
    assertEquals(engine.tasks.read(again.id).retry_of, id);
  }));

Deno.test("the queue takes, lists and cancels items", () =>
  withBroker(async ({ client }) => {
    const first = await client.enqueue(ORDER);
    const second = await client.enqueue(ORDER);
    assertEquals(first.state, "queued");
    assertEquals((await client.queue()).map(({ id }) => id), [first.id, second.id]);
    assertEquals(await codeOf(client.cancelQueued("0")), "usage");
    await client.cancelQueued(first.id.slice(0, 4));
    assertEquals((await client.queue()).map(({ id }) => id), [second.id]);
    assertEquals(await codeOf(client.cancelQueued(first.id)), "not_found");
  }));

// conformance: b4.admin_ceiling
Deno.test("the admin routes prune and answer policy, ceiling, stats, health, metrics, address", () =>
  withBroker(async (broker) => {
    const { client, engine, http } = broker;
    const before = "2026-01-01T00:00:00Z";
    const { pruned, mirrors, dry_run } = await client.prune({ before, dry_run: true });
    assertEquals([pruned, mirrors[0]!.bytes, dry_run], [["aa".repeat(16)], 1, true]);
    assertEquals(engine.asked.at(-1), ["prune", { before_ms: Date.parse(before), dry_run: true }]);
    assertEquals(await codeOf(client.prune({ before: "yesterday", dry_run: true })), "invalid_request");
    assertEquals((await client.policy()).hash, "0".repeat(64));
    assertEquals((await client.ceiling()).headroom_usd, 4);
    await broker.taskAtGate();
    const killed = await broker.runningTask();
    await client.kill(killed.id);
    const { tasks, under_way, outcomes, damaged, global_ceiling } = await client.stats();
    assertEquals([tasks, under_way, outcomes.cancelled, damaged, global_ceiling.headroom_usd], [2, 1, 1, 0, 4]);
    assertEquals((await client.stats({ by: "agent", since: "2026-01-01T00:00:00Z" })).groups?.[0]?.name, "agent_a");
    for (const query of ["by=mood", "since=yesterday", "since=1"]) {
      assertEquals(verdictOf(await broker.ask(`GET /admin/stats?${query}`)), [400, "invalid_request"], query);
    }
    assertEquals((await client.health()).ok, true);
    assertEquals(await client.metrics(), "taskd_tasks 1\n");
    const url = await client.uiUrl();
    assert(url.startsWith(http.ui_url));
    assertMatch(url, /#code=[0-9a-f]{64}$/);
  }));

// conformance: b4.post_tasks b7.capacity
Deno.test("errors of the engine keep code, words and hint, and have their status", () =>
  withBroker(async (broker) => {
    const cases: [ErrorCode, number, string | undefined][] = [
      ["at_capacity", 503, "5"],
      ["ceiling_reached", 402, undefined],
      ["no_space", 503, "60"],
      ["unavailable", 503, "5"],
      ["stopping", 503, "5"],
      ["overloaded", 503, "1"],
      ["invalid_request", 400, undefined],
      ["expired", 409, undefined],
      ["auth_failed", 409, undefined],
      ["timed_out", 503, "5"],
      ["too_large", 413, undefined],
      ["corrupt", 500, undefined],
      ["sandbox_failed", 500, undefined],
    ];
    for (const [code, status, retry_after] of cases) {
      const thrown = () => new TaskdError(code, `Cannot do it: ${code}\u001b[2J`, { hint: "Do that" });
      broker.engine.refusal = thrown();
      const answer = await broker.ask("POST /tasks", [], { body: JSON.stringify(ORDER) });
      assertEquals(verdictOf(answer), [status, code]);
      assertEquals(headerOf(answer, "content-type"), "application/problem+json");
      assertEquals(headerOf(answer, "retry-after"), retry_after, code);
      const { type, title, detail, hint } = JSON.parse(answer.body);
      assertEquals([type, detail, hint], ["about:blank", `Cannot do it: ${code}\\x1b[2J`, "Do that"]);
      assert(title.length > 0);
      broker.engine.refusal = thrown();
      const error = await assertRejects(() => broker.client.submit(ORDER), TaskdError);
      assertEquals([error.code, error.hint], [code, "Do that"]);
    }
  }));

Deno.test("a defect is 500 without its words; the log has them", () =>
  withBroker(async ({ client, engine, log }) => {
    engine.refusal = new TypeError("the secret is 42");
    const error = await assertRejects(() => client.submit(ORDER), TaskdError);
    assertEquals(error.code, "internal");
    assert(!error.message.includes("42"));
    assertStringIncludes(log.join(), "the secret is 42");
  }));

Deno.test("every route answers another method with 405 and Allow, and an unknown path with 404", () =>
  withBroker(async (broker) => {
    const id = (await broker.client.submit(ORDER)).id;
    const paths = new Set(ROUTES.map(({ path }) => path));
    for (const path of paths) {
      const allowed = ROUTES.filter((route) => route.path === path).map(({ method }) => method);
      for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "GET", "POST"]) {
        if (allowed.includes(method as "GET")) continue;
        const answer = await broker.ask(`${method} ${path.replace("<id>", id)}`);
        assertEquals([answer.status, headerOf(answer, "allow")], [405, allowed.join(", ")], `${method} ${path}`);
        assertEquals(headerOf(answer, "access-control-allow-origin"), undefined);
      }
    }
    for (const path of ["/", "/task", "/tasks/", `/tasks/${id}/`, `/tasks/${id}/x`, "/admin", "/admin/x", "/ui/"]) {
      assertEquals(verdictOf(await broker.ask(`GET ${path}`)), [404, "not_found"], path);
    }
  }));

Deno.test("every answer is kept by no cache, sniffed by no browser and framed by no page", () =>
  withBroker(async (broker) => {
    for (const line of ["GET /healthz", "GET /tasks", "GET /nowhere", "DELETE /tasks", "GET /metrics"]) {
      const answer = await broker.ask(line);
      assertStringIncludes(headerOf(answer, "cache-control") ?? "", "no-store", line);
      assertEquals(headerOf(answer, "x-content-type-options"), "nosniff");
      assertStringIncludes(headerOf(answer, "content-security-policy") ?? "", "frame-ancestors 'none'");
      assertEquals(headerOf(answer, "cross-origin-resource-policy"), "same-origin");
    }
  }));

Deno.test("without a broker, the client says how to start one", async () => {
  const root = await Deno.makeTempDir();
  try {
    const error = await assertRejects(() => new BrokerClient({ socket: `${root}/none.sock` }).health(), TaskdError);
    assertEquals(error.code, "broker_unreachable");
    assertStringIncludes(error.hint ?? "", "taskd start");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("changed rows are read page by page, and a column may have any name", () =>
  withBroker(async (broker) => {
    const { client, engine } = broker;
    const { id } = await client.submit(ORDER);
    const values = JSON.parse('{"constructor": 1, "__proto__": "x", "prototype": null}');
    engine.rows = ({ cursor }) => ({
      rows: [{ change: "changed", key: { id: 1 }, before: values, after: values, same: values }],
      ...(cursor === undefined ? { next: "r1" } : {}),
    });
    const query = { database: "shop", table: "a b", kind: "changed", search: "x", limit: 7, value_bytes: 9 } as const;
    const page = await client.databaseDiff(id, query);
    assertEquals(JSON.stringify(page.rows[0]!.after), JSON.stringify(values));
    assertEquals(page.next, "r1");
    assertEquals((await client.databaseDiff(id, { ...query, cursor: "r1" })).next, undefined);
    assertEquals(engine.asked.at(-1), ["databaseDiff", id, { ...query, cursor: "r1" }]);
    for (const wrong of ["table=t", "database=d&table=t&kind=all", "database=d&table=t&limit=1001"]) {
      assertEquals((await broker.ask(`GET /tasks/${id}/database-diff?${wrong}`)).status, 400, wrong);
    }
  }));
