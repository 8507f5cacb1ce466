import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ApiTokens, CHECK_MS, MAX_API_TOKENS } from "../../../broker/http/api_tokens.ts";
import { checkAdmin } from "../../../broker/http/listener_policy.ts";
import type { ApiRole } from "../../../broker/api/wire.ts";
import { systemRandom } from "../../../lib/clock.ts";
import { hasCode, TaskdError } from "../../../lib/errors.ts";
import {
  FORWARDING_FIELDS,
  REMOTE_PEERS,
  strangeHosts,
  strangeOrigins,
  wrongBearers,
} from "../../attacks/inputs/control.ts";
import { VirtualClock } from "../../support/clock.ts";
import { headerOf } from "../../support/raw_http.ts";
import { SHA } from "../task/lives.ts";
import { TestBroker, verdictOf, withBroker } from "./_broker.ts";

const API = { api_addr: "127.0.0.1:0" };
const ALL = { ...API, addr: "127.0.0.1:0", metrics_addr: "127.0.0.1:0" };
const DAY_MS = 86_400_000;
const ORDER = { repo: "https://example.com/o/r.git", instruction: "Fix the test" };

async function tokenOf(broker: TestBroker, role: ApiRole, name = "ci"): Promise<string> {
  return (await broker.client.createApiToken({ role, name, ttl_ms: DAY_MS })).token;
}

function asking(broker: TestBroker, token: string | undefined) {
  const { api_port: port } = broker;
  return (line: string, body?: object, more: string[] = []) => {
    const authorization = token === undefined ? [] : [`Authorization: Bearer ${token}`];
    return broker.ask(line, [`Host: 127.0.0.1:${port}`, ...authorization, ...more], {
      port,
      ...(body && { body: JSON.stringify(body) }),
    });
  };
}

Deno.test("api_addr answers nothing without a token, and wrong, expired and revoked ones alike", () => {
  const clock = new VirtualClock();
  return withBroker(async (broker) => {
    const { api_port: port, client } = broker;
    const expired = (await client.createApiToken({ role: "approve", ttl_ms: 1_000 })).token;
    clock.advance(1_001);
    const revoked = await tokenOf(broker, "approve");
    await client.revokeApiToken("ci");
    const token = await tokenOf(broker, "read", "reader");
    const refused = [];
    for (const authorization of [...wrongBearers(token), `Bearer ${expired}`, `Bearer ${revoked}`, "Bearer "]) {
      const more = [
        `Host: 127.0.0.1:${port}`,
        ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
      ];
      for (const line of ["GET /tasks", "GET /healthz", "GET /openapi.json", "GET /nowhere", "DELETE /tasks"]) {
        refused.push(await broker.ask(line, more, { port }));
      }
    }
    for (const answer of refused) {
      assertEquals(verdictOf(answer), [401, "denied"]);
      assertEquals(headerOf(answer, "www-authenticate"), 'Bearer realm="taskd"');
      assertEquals(answer.body, refused[0]!.body);
    }
    assertEquals((await asking(broker, token)("GET /tasks")).status, 200);
  }, { ...API, clock });
});

Deno.test("a token is made, listed and revoked over the socket alone, and counts at once", () =>
  withBroker(async (broker) => {
    const { client } = broker;
    const made = await client.createApiToken({ role: "approve", ttl_ms: 30 * DAY_MS, name: "ci" });
    assertMatch(made.token, /^taskd_[0-9a-f]{64}$/);
    assertEquals(made.api_addr, broker.http.api_addr);
    const ask = asking(broker, made.token);
    assertEquals((await ask("GET /admin/pending")).status, 200);
    for (const line of ["GET /admin/tokens", "POST /admin/tokens", "POST /admin/tokens/ci/revoke", "GET /admin/ui"]) {
      assertEquals(verdictOf(await ask(line, line.startsWith("POST") ? { role: "read", ttl_ms: 1_000 } : undefined)), [
        403,
        "denied",
      ]);
    }
    const [listed] = (await client.apiTokens()).tokens;
    assertEquals([listed?.name, listed?.role, listed?.expired], ["ci", "approve", false]);
    assertEquals(JSON.stringify(listed).includes(made.token), false);
    await client.revokeApiToken("ci");
    assertEquals((await ask("GET /tasks")).status, 401);
    assertEquals((await client.apiTokens()).tokens, []);
    const missing = await assertRejects(() => client.revokeApiToken("ci"), TaskdError);
    assertEquals(missing.code, "not_found");
  }, ALL));

Deno.test("of a token the file has a digest; it is 0600, sealed, and outlives the broker", async () => {
  const root = await Deno.makeTempDir();
  try {
    const path = `${root}/api-tokens.json`;
    const first = await TestBroker.start(root, API);
    const kept = await tokenOf(first, "submit", "kept");
    await tokenOf(first, "submit", "gone");
    await first.client.revokeApiToken("gone");
    await first.http.close();
    await first.engine.tasks.close();
    assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
    const text = await Deno.readTextFile(path);
    assertEquals([text.includes(kept), /"sum":"[0-9a-f]{8}"\}\n$/.test(text)], [false, true]);

    const second = await TestBroker.start(root, API);
    assertEquals((await asking(second, kept)("GET /tasks")).status, 200);
    assertEquals((await second.client.apiTokens()).tokens.map(({ name }) => name), ["kept"]);
    await second.http.close();
    await second.engine.tasks.close();

    await Deno.writeTextFile(path, text.replace('"role":"submit"', '"role":"approve"'));
    const options = { path, clock: new VirtualClock(), random: systemRandom };
    const damaged = await assertRejects(() => ApiTokens.open(options), TaskdError);
    assertEquals(damaged.code, "invalid_config");
    await Deno.writeTextFile(path, text);
    await Deno.chmod(path, 0o644);
    assertEquals((await assertRejects(() => ApiTokens.open(options), TaskdError)).code, "denied");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("tokens have names of their own and are bounded; expired ones make room", () => {
  const clock = new VirtualClock();
  return withBroker(async ({ client }) => {
    const create = (name: string, ttl_ms = DAY_MS) => client.createApiToken({ role: "read", ttl_ms, name });
    await create("old", 1_000);
    await create("first");
    assertEquals(await codeOf(create("first")), "already_exists");
    for (const name of ["", "-x", "a b", "a/b", "..", "x".repeat(41), "\u001b[2J"]) {
      assertEquals(await codeOf(create(name)), "invalid_request", JSON.stringify(name));
    }
    for (const ttl_ms of [0, 999, 367 * DAY_MS]) {
      assertEquals(await codeOf(create("other", ttl_ms)), "invalid_request", String(ttl_ms));
    }
    for (let n = 2; n < MAX_API_TOKENS; n++) await create(`t${n}`);
    assertEquals(await codeOf(create("last")), "wrong_state");
    clock.advance(1_001);
    assertEquals((await client.apiTokens()).tokens[0]?.expired, true);
    await create("old");
    assertEquals((await client.apiTokens()).tokens.length, MAX_API_TOKENS);
  }, { ...API, clock });
});

async function codeOf(done: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => done, TaskdError)).code;
}

Deno.test("two tokens that are made at once are both kept", () =>
  withBroker(async (broker) => {
    const names = Array.from({ length: 8 }, (_, n) => `t${n}`);
    await Promise.all(names.map((name) => tokenOf(broker, "read", name)));
    const { tokens } = JSON.parse(await Deno.readTextFile(`${broker.root}/api-tokens.json`));
    assertEquals(tokens.map(({ name }: { name: string }) => name).sort(), names);
  }, API));

Deno.test("a stream ends with its token: at once when that is revoked, and when its time is over", async () => {
  for (const ends of ["revoked", "expired"] as const) {
    const clock = new VirtualClock();
    await withBroker(async (broker) => {
      const { id } = await broker.runningTask();
      const { token } = await broker.client.createApiToken({ role: "read", ttl_ms: 1_000, name: "ci" });
      using raw = await broker.connect(broker.api_port);
      await raw.request(`GET /tasks/${id}/events`, [
        `Host: 127.0.0.1:${broker.api_port}`,
        `Authorization: Bearer ${token}`,
      ]);
      await raw.until("event: stage\n");
      if (ends === "revoked") await broker.client.revokeApiToken("ci");
      else clock.advance(CHECK_MS);
      // The last chunk: its reader knows that the stream is over, and not cut off.
      await raw.until("\r\n0\r\n\r\n");
    }, { ...API, clock });
  }
});

Deno.test("what is done with a token is recorded under its name, for submissions and decisions", () =>
  withBroker(async (broker) => {
    const made = await broker.client.createApiToken({ role: "approve", ttl_ms: DAY_MS, name: "ci" });
    const ask = asking(broker, made.token);
    const by = { via: "HTTP", who: `the API token ci (${made.fingerprint}), at 127.0.0.1` } as const;
    const { id } = JSON.parse((await ask("POST /tasks", ORDER)).body);
    const submitted = await broker.client.task(id);
    assertEquals([submitted.submitted_by, submitted.over_network], [by, true]);
    const retried = JSON.parse((await ask(`POST /tasks/${id}/retry`)).body);
    assertEquals((await broker.client.task(retried.id)).submitted_by, by);
    const task = await broker.taskAtGate();
    const body = { diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] };
    assertEquals((await ask(`POST /admin/tasks/${task.id}/approve`, body)).status, 204);
    assertEquals(task.record.approval?.by, by);
    const own = await broker.client.submit(ORDER);
    assertEquals((await broker.client.task(own.id)).submitted_by, undefined);
  }, API));

Deno.test("databases and further hosts are refused over broker.addr, and taken with a token", () =>
  withBroker(async (broker) => {
    const more = [`Host: 127.0.0.1:${broker.port}`];
    const over_addr = (line: string, body?: object) =>
      broker.ask(line, more, { port: broker.port, ...(body && { body: JSON.stringify(body) }) });
    const ask = asking(broker, await tokenOf(broker, "submit"));
    const wider = [{ databases: ["shop"] }, { egress_extra: [{ host: "api.example.com", ports: [443] }] }];
    for (const extra of wider) {
      for (const path of ["/tasks", "/queue"]) {
        const answer = await over_addr(`POST ${path}`, { ...ORDER, ...extra });
        assertEquals(verdictOf(answer), [403, "denied"]);
        assertStringIncludes(JSON.parse(answer.body).hint, "broker.api_addr");
        assertEquals((await ask(`POST ${path}`, { ...ORDER, ...extra })).status, 202);
      }
    }
    const { id } = await broker.client.submit({ ...ORDER, databases: ["shop"] });
    assertEquals(verdictOf(await over_addr(`POST /tasks/${id}/retry`)), [403, "denied"]);
    for (const none of [{}, { databases: [], egress_extra: [] }]) {
      assertEquals((await over_addr("POST /tasks", { ...ORDER, ...none })).status, 202);
    }
  }, ALL));

Deno.test("pages and rebound names get nothing from api_addr and metrics_addr, a token with them", () =>
  withBroker(async (broker) => {
    const authorization = `Authorization: Bearer ${await tokenOf(broker, "approve")}`;
    for (const port of [broker.api_port, broker.metrics_port]) {
      for (const host of strangeHosts(port)) {
        const answer = await broker.ask("GET /metrics", [`Host: ${host}`, authorization], { port });
        assertEquals(answer.status, 403, host);
      }
      for (const origin of strangeOrigins(port)) {
        const more = [`Host: 127.0.0.1:${port}`, authorization, `Origin: ${origin}`];
        assertEquals(verdictOf(await broker.ask("GET /metrics", more, { port })), [403, "denied"], origin);
      }
    }
  }, ALL));

Deno.test("metrics_addr has metrics and health alone, and asks for its token where there is one", async () => {
  const metrics_token = "0123456789abcdef";
  for (const asks of [false, true]) {
    await withBroker(async (broker) => {
      const { metrics_port: port } = broker;
      const host = `Host: 127.0.0.1:${port}`;
      const own = [host, `Authorization: Bearer ${metrics_token}`];
      const status = async (line: string, more: string[]) => (await broker.ask(line, more, { port })).status;
      assertEquals(await status("GET /healthz", [host]), 200);
      assertEquals(await status("GET /metrics", own), 200);
      for (const line of ["GET /tasks", "POST /tasks", "GET /openapi.json", "GET /admin/stats", "GET /admin/tokens"]) {
        assertEquals(await status(line, own), 403, line);
        assertEquals(await status(line, [host]), asks ? 401 : 403, line);
      }
      const wrong = asks ? wrongBearers(metrics_token) : [];
      for (const bearer of wrong) {
        const more = [host, ...(bearer === undefined ? [] : [`Authorization: ${bearer}`])];
        assertEquals(await status("GET /metrics", more), 401, bearer);
      }
      if (!asks) assertEquals(await status("GET /metrics", [host]), 200);
    }, { metrics_addr: "127.0.0.1:0", ...(asks && { metrics_token }) });
  }
});

// conformance: b5.admin b4.admin_unreachable
Deno.test("/admin/* over api_addr is for peers over loopback, a server with TLS among them", () => {
  const request = (headers: HeadersInit = {}) => new Request("http://127.0.0.1:1/admin/pending", { headers });
  const from = (hostname: string) => ({ transport: "tcp", hostname, port: 1 }) as const;
  checkAdmin(request(), { kind: "api" }, from("127.0.0.1"));
  for (const name of FORWARDING_FIELDS) checkAdmin(request({ [name]: "10.0.0.1" }), { kind: "api" }, from("::1"));
  for (const hostname of REMOTE_PEERS) {
    try {
      checkAdmin(request(), { kind: "api" }, from(hostname));
    } catch (error) {
      assert(hasCode(error, "denied"));
      continue;
    }
    throw new Error(`${hostname} was let in`);
  }
});
