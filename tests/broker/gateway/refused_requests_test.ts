import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { LANES } from "../../../broker/agents.ts";
import { MAX_GATEWAY_SHARE } from "../../../broker/gateway/gateway.ts";
import { ROUTES } from "../../../broker/gateway/routes.ts";
import { REFUSED_ROUTES, smuggledRequests, wrongTokens } from "../../attacks/inputs/gateway.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { VirtualClock } from "../../support/clock.ts";
import { BODIES, eventually, harness, RawClient, rawPost } from "./harness.ts";
import { ANTHROPIC, gated, json } from "./vendor_server.ts";

Deno.test("what is not on the lane's list is 403, however the path is written, and does not go out", async () => {
  await using gate = await harness(json({}));
  const leases = Object.fromEntries(LANES.map((lane) => [lane, gate.lease(lane)]));
  for (const [lane, method, path] of REFUSED_ROUTES) {
    using client = await RawClient.connect(gate.url);
    const token = leases[lane]!.token;
    await client.send(
      `${method} ${path} HTTP/1.1\r\nhost: g\r\nx-api-key: ${token}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`,
    );
    const answer = await client.until(undefined);
    // A parser may refuse the line before the gateway does.
    assert(/^HTTP\/1\.1 40[03] /.test(answer), `${method} ${path}: ${answer.slice(0, 40)}`);
    assert(!answer.includes("abc") && !answer.includes(token), "neither the key of the query nor the token comes back");
  }
  assertEquals(gate.vendor.seen, []);
});

Deno.test("every route of the list can be used, with the key at the vendor's place", async () => {
  await using gate = await harness(json({}));
  const bodies = { messages: BODIES.messages, chat: BODIES.chat, responses: BODIES.responses } as Record<
    string,
    object
  >;
  for (const lane of LANES) {
    const lease = gate.lease(lane, { budget_usd: 100 });
    for (const { name, method, path } of ROUTES[lane]) {
      const target = path.source.replace(/^\^|\$$/g, "").replaceAll("\\/", "/").replace("(?:beta)?", "beta")
        .replace(/\(\?<model>.*127\}\)/, "gemini-2.5-flash");
      const body = bodies[name] ?? (lane === "vendor_a" ? BODIES.messages : BODIES.gemini);
      const init = method === "GET" ? { method, body: null } : { method };
      const response = await gate.post(lease, target, body, init);
      assertEquals([lane, target, response.status, await response.text()], [lane, target, 200, "{}"]);
    }
  }
});

Deno.test("a token that is missing, unknown, ended, or not the only one is 401", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a");
  const other = gate.lease("vendor_a", { task_id: "task-2" });
  const ended = gate.lease("vendor_a");
  await ended.end();
  const attempts = wrongTokens(lease.token, { other: other.token, ended: ended.token });
  for (const headers of attempts) {
    const response = await fetch(`${gate.url}/v1/messages`, {
      method: "POST",
      body: JSON.stringify(BODIES.messages),
      headers: { "content-type": "application/json", ...headers },
    });
    const text = await response.text();
    assertEquals([response.status, JSON.parse(text).code], [401, "unauthorized"], JSON.stringify(headers));
    assert(!text.includes(lease.token.slice(0, 20)));
  }
  const in_url = await fetch(`${gate.url}/v1/messages?key=${lease.token}`, { method: "POST", body: "{}" });
  assertEquals(in_url.status, 401, "a token in the URL is no token");
  await in_url.body?.cancel();
  assertEquals([gate.vendor.seen.length, lease.spend().requests, other.spend().requests], [0, 0, 0]);
});

Deno.test("another task's token spends for that task, and leads into its lane only", async () => {
  await using gate = await harness(json(ANTHROPIC.message));
  const mine = gate.lease("vendor_a");
  const theirs = gate.lease("vendor_b", { task_id: "task-2" });
  const response = await gate.post(theirs, "/v1/messages", BODIES.messages);
  assertEquals([response.status, (await response.json()).code], [403, "route_refused"]);
  assertEquals([mine.spend().requests, theirs.spend().requests], [0, 0]);
});

Deno.test("a WebSocket, or any other upgrade, is 426: programs fall back to plain requests", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_b");
  for (const protocol of ["websocket", "h2c"]) {
    using client = await RawClient.connect(gate.url);
    await client.send(
      `GET /v1/responses HTTP/1.1\r\nhost: g\r\nauthorization: Bearer ${lease.token}\r\nconnection: Upgrade\r\n` +
        `upgrade: ${protocol}\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n`,
    );
    const answer = await client.until(undefined);
    assertStringIncludes(answer, "HTTP/1.1 426");
    assertStringIncludes(answer, '"code":"upgrade_refused"');
  }
});

Deno.test("a client that does not close a refused upgrade is cut off, and takes no other task's place", async () => {
  const clock = new VirtualClock();
  await using gate = await harness(json({}), { clock });
  const lease = gate.lease("vendor_b");
  using client = await RawClient.connect(gate.url);
  await client.send("GET /v1/responses HTTP/1.1\r\nhost: g\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n");
  assertStringIncludes(await client.until(undefined), "HTTP/1.1 426");
  await client.isReset(() => clock.advance(1_000));
  assertEquals(lease.spend().requests, 0);
});

/** The heads of requests that stay unanswered. */
function holding(token: string): string {
  return `GET /v1/models HTTP/1.1\r\nhost: g\r\nauthorization: Bearer ${token}\r\n\r\n`;
}

Deno.test("tasks that share an address have a share of connections each, beside what others open", async () => {
  const hold = Promise.withResolvers<void>();
  let asked = 0;
  await using gate = await harness(async (response, request, seen) => {
    asked++;
    await hold.promise;
    await json({})(response, request, seen);
  });
  using held = new DisposableStack();
  const connect = async (text = "") => {
    const client = held.use(await RawClient.connect(gate.url));
    if (text !== "") await client.send(text);
    return client;
  };
  const [mine, theirs] = ["task-1", "task-2"].map((task_id) => {
    return gate.lease("vendor_b", { task_id, max_inflight: 1_000 });
  });
  for (let count = 0; count < MAX_GATEWAY_SHARE; count++) await connect(holding(mine!.token));
  while (asked < MAX_GATEWAY_SHARE) await nextTurn();
  assertStringIncludes(await (await connect(holding(mine!.token))).until("\r\n\r\n"), "503 ");
  // Another user of this machine asks for nothing, or waits with what it asks for.
  for (let count = 0; count < MAX_GATEWAY_SHARE; count++) {
    await connect(count % 2 === 0 ? "" : "POST /v1/responses HTTP/1.1\r\nhost: g\r\ncontent-length: 9\r\n\r\n");
  }
  const other = await connect(holding(theirs!.token));
  while (asked < MAX_GATEWAY_SHARE + 1) await nextTurn();
  hold.resolve();
  assertStringIncludes(await other.until("\r\n\r\n"), "HTTP/1.1 200");
});

Deno.test("two lengths, a length beside chunks, and a request inside a body do not reach the vendor", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a");
  for (const text of smuggledRequests(lease.token)) {
    using client = await RawClient.connect(gate.url);
    await client.send(text);
    assertStringIncludes(await client.until("\r\n\r\n"), "HTTP/1.1 400");
  }
  using client = await RawClient.connect(gate.url);
  await client.send(`GET /v1/models HTTP/1.1\r\nhost: g\r\nx-api-key: ${lease.token}\r\ncontent-length: 2\r\n\r\n{}`);
  assertStringIncludes(await client.until("}\n"), "has no body");
  assertEquals(gate.vendor.seen, []);
});

Deno.test("a client that sends its head or its body too slowly is thrown off", async () => {
  await using gate = await harness(json({}), { timeouts: { read_header_ms: 200, read_ms: 400 } });
  const lease = gate.lease("vendor_a");
  for (const text of ["POST /v1/mess", rawPost("/v1/messages", lease.token, "{}").slice(0, -1)]) {
    using client = await RawClient.connect(gate.url);
    await client.send(text);
    await client.until(undefined);
  }
  await eventually("nothing is in flight", () => lease.spend().in_flight === 0);
  assertEquals(lease.spend().requests, 0);
});

// conformance: b2.effect.task_max_requests b7.max_requests
Deno.test("the request cap is 429 without Retry-After; 0 means 1000", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a", { max_requests: 2 });
  for (const status of [200, 200, 429, 429]) {
    const response = await gate.post(lease, "/v1/messages", BODIES.messages);
    await response.text();
    assertEquals([response.status, response.headers.get("retry-after")], [status, null]);
    if (status === 429) assertEquals(response.headers.get("x-should-retry"), "false");
  }
  const open = gate.lease("vendor_a", { max_requests: 0, max_inflight: 0, budget_usd: 100 });
  for (let done = 0; done < 1000; done += 20) {
    const batch = Array.from({ length: 20 }, () => gate.post(open, "/v1/messages", BODIES.messages));
    for (const response of await Promise.all(batch)) {
      assertEquals([response.status, await response.text()], [200, "{}"]);
    }
  }
  const over = await gate.post(open, "/v1/messages", BODIES.messages);
  assertEquals([over.status, (await over.json()).code, open.spend().requests], [429, "request_cap", 1000]);
});

Deno.test("a request whose credential fails before it goes out does not count", async () => {
  const failing = () => Promise.reject(new Error("no refresh"));
  const base_url = "http://127.0.0.1:9";
  await using gate = await harness(json({}), {
    upstreams: {
      vendor_a: { base_url, api_key: "two\nlines" },
      vendor_b: { base_url, subscription: { source: { current: failing, renew: failing } } },
    },
  });
  for (
    const [lease, path, body, status] of [
      [gate.lease("vendor_a", { max_requests: 1 }), "/v1/messages", BODIES.messages, 500],
      [gate.lease("vendor_b", { auth: "subscription", max_requests: 1 }), "/v1/responses", BODIES.responses, 502],
    ] as const
  ) {
    for (let again = 0; again < 2; again++) assertEquals((await gate.post(lease, path, body)).status, status);
    assertEquals([lease.spend().requests, lease.spend().in_flight, lease.spend().priced], [0, 0, true]);
  }
});

// conformance: b2.effect.task_max_inflight
Deno.test("a parallel burst admits up to the in-flight cap; the others are 429 with Retry-After: 1", async () => {
  const gates: ReturnType<typeof gated>[] = [];
  await using gate = await harness((response, request, seen) => {
    const next = gated("application/json", " ");
    gates.push(next);
    return next.answer(response, request, seen);
  });
  const lease = gate.lease("vendor_a", { max_inflight: 3 });
  const burst = Array.from({ length: 40 }, () => gate.post(lease, "/v1/messages", BODIES.messages));
  await gate.vendor.arrived(3);
  const answers = await Promise.all(burst);
  const refused = answers.filter((response) => response.status === 429);
  assertEquals([refused.length, gate.vendor.seen.length, lease.spend().in_flight], [37, 3, 3]);
  for (const response of refused) {
    assertEquals([response.headers.get("retry-after"), (await response.json()).code], ["1", "in_flight_cap"]);
  }
  for (const open of gates) {
    open.write(JSON.stringify(ANTHROPIC.message));
    open.end();
  }
  for (const response of answers) if (response.status === 200) await response.text();
  assertEquals([lease.spend().in_flight, lease.spend().requests], [0, 3]);
});

// conformance: b2.effect.task_budget_usd
Deno.test("the budget is checked when a request begins: 402 once spent, and a running one goes on", async () => {
  const running = gated("text/event-stream", "");
  let answer = running.answer;
  await using gate = await harness((...args) => answer(...args));
  const lease = gate.lease("vendor_a", { budget_usd: 0.02, max_inflight: 2 });
  const streaming = await gate.post(lease, "/v1/messages", { ...BODIES.messages, stream: true });
  const reader = streaming.body!.pipeThrough(new TextDecoderStream()).getReader();
  answer = json(ANTHROPIC.message);
  // One costs 0.02655: the budget is crossed while the stream runs.
  await (await gate.post(lease, "/v1/messages", BODIES.messages)).text();
  const refused = await gate.post(lease, "/v1/messages", BODIES.messages);
  const problem = await refused.json();
  assertEquals([refused.status, problem.code], [402, "budget_exhausted"]);
  assertStringIncludes(problem.detail, "$0.03 of $0.02");
  for (const event of ANTHROPIC.stream) running.write(`data: ${JSON.stringify(event)}\n\n`);
  running.end();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  assertStringIncludes(text, "message_stop");
  assertEquals(lease.spend().usd.toFixed(5), (2 * ANTHROPIC.message_usd).toFixed(5));
  assertEquals(gate.vendor.seen.length, 2);
});

Deno.test("requests whose bodies come slowly go out only while the budget has room", async () => {
  await using gate = await harness(json(ANTHROPIC.message));
  const lease = gate.lease("vendor_a", { budget_usd: 0.05, max_inflight: 0 });
  const text = rawPost("/v1/messages", lease.token, JSON.stringify(BODIES.messages), "connection: close\r\n");
  const clients = await Promise.all(Array.from({ length: 6 }, () => RawClient.connect(gate.url)));
  for (const client of clients) await client.send(text.slice(0, -5));
  await eventually("all of them have a place", () => lease.spend().in_flight === clients.length);
  const statuses: string[] = [];
  for (const client of clients) {
    await client.send(text.slice(-5));
    statuses.push((await client.until(undefined)).slice(9, 12));
    client[Symbol.dispose]();
  }
  // One costs 0.02655: the second one spends the budget.
  assertEquals(statuses, ["200", "200", "402", "402", "402", "402"]);
  assertEquals([gate.vendor.seen.length, (await lease.end()).requests], [2, 2]);
});

// conformance: b2.effect.max_request_cost_usd
Deno.test("a reservation keeps parallel requests inside the budget, and is freed when they end", async () => {
  const running = gated("application/json", " ");
  await using gate = await harness(running.answer);
  const lease = gate.lease("vendor_a", { budget_usd: 1, max_request_cost_usd: 0.6, max_inflight: 0 });
  const first = await gate.post(lease, "/v1/messages", BODIES.messages);
  const second = await gate.post(lease, "/v1/messages", BODIES.messages);
  assertEquals([second.status, second.headers.get("retry-after")], [429, "1"]);
  assertStringIncludes((await second.json()).detail, "$0.60 reserved");
  running.write(JSON.stringify(ANTHROPIC.message));
  running.end();
  await first.text();
  gate.vendor.answer = json(ANTHROPIC.message);
  for (let done = 0; done < 3; done++) await (await gate.post(lease, "/v1/messages", BODIES.messages)).text();
  assertEquals(lease.spend().requests, 4);

  const never = gate.lease("vendor_a", { budget_usd: 1, max_request_cost_usd: 1.5 });
  const refused = await gate.post(never, "/v1/messages", BODIES.messages);
  assertEquals([refused.status, (await refused.json()).code], [402, "budget_exhausted"]);
  const nothing = gate.lease("vendor_a", { budget_usd: 0 });
  const broke = await gate.post(nothing, "/v1/messages", BODIES.messages);
  assertEquals([broke.status, (await broke.json()).code], [402, "budget_exhausted"]);
});

// conformance: b2.effect.task_budget_usd
Deno.test("a subscription has no budget, and its list-price figure is still counted", async () => {
  const source = {
    current: () => Promise.resolve({ secret: "bearer" }),
    renew: () => Promise.resolve({ secret: "bearer" }),
  };
  await using vendor = await harness(json(ANTHROPIC.message));
  await using gate = await harness(json({}), {
    upstreams: { vendor_a: { base_url: vendor.vendor.url, subscription: { source } } },
  });
  const lease = gate.lease("vendor_a", { auth: "subscription", budget_usd: 0.01, max_request_cost_usd: 5 });
  for (let done = 0; done < 3; done++) {
    const response = await gate.post(lease, "/v1/messages", BODIES.messages);
    await response.text();
    assertEquals(response.status, 200);
  }
  assertEquals(lease.spend().usd.toFixed(5), (3 * ANTHROPIC.message_usd).toFixed(5));
});
