import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import type { Lane } from "../../../broker/agents.ts";
import { createServer } from "node:https";
import { Upstream } from "../../../broker/gateway/upstream.ts";
import { BODIES, compatBook, harness } from "./harness.ts";
import { ANTHROPIC, GEMINI, json, OPENAI, pieces, REAL_KEY, sse } from "./vendor_server.ts";
import { AUTHORITY, CERTIFICATE, KEY } from "./tls_fixture.ts";

const TOKEN_HEADERS: [Lane, string, string, unknown][] = [
  ["vendor_a", "x-api-key", "/v1/messages?beta=true", BODIES.messages],
  ["vendor_a", "authorization", "/v1/messages", BODIES.messages],
  ["vendor_b", "authorization", "/v1/responses", { ...BODIES.responses, store: false }],
  ["vendor_c", "x-goog-api-key", "/v1beta/models/gemini-2.5-flash:generateContent", BODIES.gemini],
  ["compat", "authorization", "/v1/chat/completions", BODIES.chat],
];

Deno.test("the token is read from each program's header, and the real key goes out in the vendor's", async () => {
  await using gate = await harness(json({ ok: true }));
  for (const [lane, header, path, body] of TOKEN_HEADERS) {
    const lease = gate.lease(lane);
    const response = await fetch(`${gate.url}${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: {
        "content-type": "application/json",
        [header]: header === "authorization" ? `Bearer ${lease.token}` : lease.token,
      },
    });
    assertEquals([lane, response.status, await response.json()], [lane, 200, { ok: true }]);
    const seen = gate.vendor.seen.at(-1)!;
    assertEquals(seen.url, path);
    assertEquals(JSON.parse(seen.body), body);
    const key = { vendor_a: seen.headers["x-api-key"], vendor_c: seen.headers["x-goog-api-key"] }[lane as string] ??
      seen.headers.authorization;
    assertEquals(key?.replace("Bearer ", ""), REAL_KEY);
    assert(!JSON.stringify(seen).includes(lease.token), "the task's token stays here");
    assertEquals(seen.headers["accept-encoding"], "identity");
    await lease.end();
  }
});

Deno.test("a response that the vendor would keep by default goes out with store: false", async () => {
  await using gate = await harness(json(OPENAI.response("x").response));
  const asked = { model: "gpt-5.1", input: '{"store":true}' };
  const sent = async (lane: Lane, body: object, allow_tools: string[] = []) => {
    const response = await gate.post(gate.lease(lane, { allow_tools, budget_usd: 100 }), "/v1/responses", body);
    await response.text();
    return response.status === 200 ? gate.vendor.seen.at(-1)!.body : response.status;
  };
  for (const lane of ["vendor_b", "compat"] as const) {
    assertEquals(await sent(lane, asked), `{"store":false,${JSON.stringify(asked).slice(1)}`);
    for (const body of [{ store: false, ...asked }, { ...asked, store: false }]) {
      assertEquals(await sent(lane, body), JSON.stringify(body));
    }
    assertEquals(await sent(lane, { ...asked, store: null }), 400, "null is the default");
  }
  for (const body of [asked, { ...asked, store: null }, { ...asked, store: true }]) {
    assertEquals(await sent("vendor_b", body, ["store"]), JSON.stringify(body), "where the operator allows it");
  }
});

Deno.test("only listed headers go to the vendor: none that pays, routes, or belongs to the connection", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a");
  const dropped = {
    "x-forwarded-for": "1.2.3.4",
    "cookie": "a=b",
    "openai-organization": "org",
    "x-goog-user-project": "p",
    "x-http-method-override": "DELETE",
    "proxy-authorization": "Basic x",
    "accept-encoding": "gzip",
    "te": "trailers",
  };
  const response = await gate.post(lease, "/v1/messages", BODIES.messages, {
    headers: { ...dropped, "anthropic-version": "2023-06-01", "anthropic-beta": "a,b", "user-agent": "cli/1" },
  });
  await response.body?.cancel();
  const { headers } = gate.vendor.seen[0]!;
  for (const name of Object.keys(dropped)) {
    if (name !== "accept-encoding") assertEquals(headers[name], undefined, name);
  }
  assertEquals(headers["anthropic-version"], "2023-06-01");
  assertEquals(headers["anthropic-beta"], "a,b");
  assertEquals(headers["user-agent"], "cli/1");
  assertEquals(headers.authorization, undefined);
});

Deno.test("an answer keeps its status and headers, without cookies and the operator's account", async () => {
  await using gate = await harness((response) => {
    response.writeHead(429, {
      "content-type": "application/json",
      "retry-after": "7",
      "set-cookie": "a=b",
      "anthropic-organization-id": "org",
      "request-id": "req_1",
      "connection": "x-hop",
      "x-hop": "1",
    });
    response.end("{}");
  });
  const response = await gate.post(gate.lease("vendor_a"), "/v1/messages", BODIES.messages);
  assertEquals([response.status, await response.text()], [429, "{}"]);
  assertEquals(response.headers.get("retry-after"), "7");
  assertEquals(response.headers.get("request-id"), "req_1");
  for (const name of ["set-cookie", "anthropic-organization-id", "x-hop"]) assert(!response.headers.has(name), name);
  assertEquals(gate.settled[0]?.usd, 0, "a refused request costs nothing");
  assertEquals(gate.settled[0]?.unmetered, false);
});

const JSON_TYPE = "application/json";
const SSE_TYPE = "text/event-stream; charset=utf-8";

interface Metering {
  name: string;
  lane: Lane;
  path: string;
  body: unknown;
  type: string;
  answer: string;
  usd: number;
}

const chat_stream = [OPENAI.chunk("a"), OPENAI.chunk("b")];
const RESPONSES = { lane: "vendor_b", path: "/v1/responses", body: BODIES.responses, type: SSE_TYPE } as const;
const GEMINI_STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent";

const METERINGS: Metering[] = [
  {
    name: "Anthropic, whole and indented",
    lane: "vendor_a",
    path: "/v1/messages",
    body: BODIES.messages,
    type: JSON_TYPE,
    answer: JSON.stringify(ANTHROPIC.message, null, 4),
    usd: ANTHROPIC.message_usd,
  },
  {
    name: "Anthropic, streamed",
    lane: "vendor_a",
    path: "/v1/messages",
    body: { ...BODIES.messages, stream: true },
    type: SSE_TYPE,
    answer: sse(ANTHROPIC.stream),
    usd: ANTHROPIC.message_usd,
  },
  {
    name: "OpenAI chat, whole",
    lane: "vendor_b",
    path: "/v1/chat/completions",
    body: BODIES.chat,
    type: JSON_TYPE,
    answer: JSON.stringify(OPENAI.chat),
    usd: OPENAI.chat_usd,
  },
  {
    name: "OpenAI chat, streamed with usage",
    lane: "vendor_b",
    path: "/v1/chat/completions",
    body: { ...BODIES.chat, stream: true, stream_options: { include_usage: true } },
    type: SSE_TYPE,
    answer: sse([...chat_stream, OPENAI.last_chunk, "[DONE]"]),
    usd: OPENAI.chat_usd,
  },
  ...["response.completed", "response.incomplete", "response.failed"].map((type) => ({
    ...RESPONSES,
    name: `OpenAI ${type}`,
    answer: sse([{ type: "response.created", response: { usage: null } }, OPENAI.response(type)]),
    usd: OPENAI.chat_usd,
  })),
  {
    ...RESPONSES,
    name: "OpenAI responses, whole",
    type: JSON_TYPE,
    answer: JSON.stringify(OPENAI.response("x").response),
    usd: OPENAI.chat_usd,
  },
  {
    name: "Gemini, whole",
    lane: "vendor_c",
    path: "/v1beta/models/gemini-2.5-flash:generateContent",
    body: BODIES.gemini,
    type: JSON_TYPE,
    answer: JSON.stringify({
      usageMetadata: { ...GEMINI.chunks[1]!.usageMetadata, candidatesTokenCount: 80 },
    }),
    usd: GEMINI.usd,
  },
  {
    name: "Gemini, streamed as events",
    lane: "vendor_c",
    path: `${GEMINI_STREAM}?alt=sse`,
    body: BODIES.gemini,
    type: "text/event-stream",
    answer: sse(GEMINI.chunks, "\r\n"),
    usd: GEMINI.usd,
  },
  {
    name: "Gemini, streamed as one array",
    lane: "vendor_c",
    path: GEMINI_STREAM,
    body: BODIES.gemini,
    type: JSON_TYPE,
    answer: JSON.stringify(GEMINI.chunks, null, 2),
    usd: GEMINI.usd,
  },
];

for (const { name, lane, path, body, type, answer, usd } of METERINGS) {
  Deno.test(`${name}: the bytes arrive as they are and cost what they cost`, async () => {
    const bytes = new TextEncoder().encode(answer);
    const cuts = [0, 1, 7, Math.floor(bytes.length / 2), bytes.length - 1, bytes.length];
    const parts = cuts.slice(1).map((end, index) => bytes.subarray(cuts[index]!, end));
    await using gate = await harness(pieces(type, parts));
    const lease = gate.lease(lane);
    const response = await gate.post(lease, path, body);
    assertEquals(await response.text(), answer);
    assertEquals(response.headers.get("content-type"), type);
    const spend = await lease.end();
    assertAlmostEquals(spend.usd, usd, 1e-12);
    assertEquals([spend.requests, spend.unmetered_requests, spend.in_flight, spend.priced], [1, 0, 0, true]);
  });
}

// conformance: b2.compat.unmetered b8.undercount
Deno.test("a stream for which the client asked no usage is unmetered, never $0.00", async () => {
  await using gate = await harness(pieces("text/event-stream", [sse([...chat_stream, "[DONE]"])]));
  const lease = gate.lease("vendor_b");
  const body = { ...BODIES.chat, stream: true };
  await (await gate.post(lease, "/v1/chat/completions", body)).text();
  assertEquals(JSON.parse(gate.vendor.seen[0]!.body), body, "the broker does not ask for it");
  const spend = await lease.end();
  assertEquals([spend.unmetered_requests, spend.priced, spend.requests], [1, false, 1]);
  assertEquals(gate.settled[0]?.unmetered, true);
});

// conformance: b1.agent_d_compat b2.compat.base_path b2.compat.prices b2.compat.unlisted
Deno.test("a self-hosted endpoint: base_path for /v1, prices of the settings, others unmetered", async () => {
  await using gate = await harness(json(OPENAI.chat));
  await using own = await harness(json({}), {
    upstreams: { compat: { base_url: gate.vendor.url, base_path: "/api/v4/", api_key: "" } },
    prices: compatBook({ listed: { input: 10, output: 100 } }),
  });
  const lease = own.lease("compat", { budget_usd: 0.001 });
  await (await own.post(lease, "/v1/chat/completions", { ...BODIES.chat, model: "unlisted" })).text();
  assertEquals(gate.vendor.seen[0]?.url, "/api/v4/chat/completions");
  assertEquals(gate.vendor.seen[0]?.headers.authorization, undefined, "no key, no header");
  assertEquals([lease.spend().usd, lease.spend().unmetered_requests, lease.spend().input_tokens], [0, 1, 1000]);
  await (await own.post(lease, "/v1/chat/completions", { ...BODIES.chat, model: "listed" })).text();
  assertAlmostEquals(lease.spend().usd, (1000 * 10 + 200 * 100) / 1e6, 1e-12);
  const refused = await own.post(lease, "/v1/chat/completions", { ...BODIES.chat, model: "listed" });
  assertEquals([refused.status, (await refused.json()).code], [402, "budget_exhausted"]);
});

Deno.test("the figures are settled before the client sees the event it takes for the end", async () => {
  const text = sse(ANTHROPIC.stream);
  let open: { end(): void } | undefined;
  await using gate = await harness((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text);
    open = response;
  });
  const lease = gate.lease("vendor_a");
  const response = await gate.post(lease, "/v1/messages", { ...BODIES.messages, stream: true });
  let seen = "";
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  while (!seen.includes("message_stop")) seen += (await reader.read()).value ?? "";
  assertEquals(lease.spend().in_flight, 0, "its next request is not refused");
  assertAlmostEquals(lease.spend().usd, ANTHROPIC.message_usd, 1e-12);
  open?.end();
  assertEquals((await reader.read()).done, true);
  assertEquals(gate.settled.length, 1);
});

Deno.test("a subscription's bearer is renewed once after a 401, and its headers are sent", async () => {
  const asked: string[] = [];
  const source = {
    current: () => Promise.resolve({ secret: "old-bearer", headers: { "anthropic-beta": "oauth-x" } }),
    renew: (rejected: { secret: string }) => {
      asked.push(rejected.secret);
      return Promise.resolve({ secret: "new-bearer", headers: { "anthropic-beta": "oauth-x" } });
    },
  };
  let good = "Bearer new-bearer";
  await using vendor = await harness((response, _request, { headers }) => {
    json(ANTHROPIC.message, headers.authorization === good ? 200 : 401)(response, _request, {} as never);
  });
  await using gate = await harness(json({}), {
    upstreams: {
      vendor_a: {
        base_url: "http://127.0.0.1:9/never",
        subscription: { source, base_url: `${vendor.vendor.url}/backend/`, base_path: "/" },
      },
    },
  });
  const lease = gate.lease("vendor_a", { auth: "subscription", budget_usd: 0 });
  const init = { headers: { "anthropic-beta": "own" } };
  const response = await gate.post(lease, "/v1/messages", BODIES.messages, init);
  assertEquals([response.status, (await response.json()).id], [200, "msg_01"]);
  assertEquals(asked, ["old-bearer"]);
  assertEquals(vendor.vendor.seen[1]?.headers["anthropic-beta"], "own,oauth-x");
  assertEquals(vendor.vendor.seen[1]?.url, "/backend/messages", "at the subscription's own address");
  assertEquals(lease.spend().requests, 1, "the repetition is the gateway's, not the task's");
  assertAlmostEquals(lease.spend().usd, ANTHROPIC.message_usd, 1e-12);

  good = "nothing";
  const refused = await gate.post(lease, "/v1/messages", BODIES.messages, init);
  await refused.text();
  assertEquals([refused.status, asked.length, vendor.vendor.seen.length], [401, 2, 4]);
});

Deno.test("a vendor is reached over TLS, and only when its certificate holds", async () => {
  const server = createServer({ key: KEY, cert: CERTIFICATE }, (request, response) => {
    request.resume();
    request.on("end", () => response.end(JSON.stringify(ANTHROPIC.message)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base_url = `https://localhost:${(server.address() as { port: number }).port}`;
  {
    await using gate = await harness(json({}), {
      upstreams: {
        vendor_a: { base_url, api_key: REAL_KEY, ca: AUTHORITY },
        vendor_b: { base_url, api_key: REAL_KEY },
      },
    });
    const lease = gate.lease("vendor_a");
    for (let round = 0; round < 3; round++) {
      const response = await gate.post(lease, "/v1/messages", BODIES.messages);
      assertEquals([response.status, (await response.json()).id], [200, "msg_01"]);
    }
    const other = gate.lease("vendor_b");
    const refused = await gate.post(other, "/v1/responses", BODIES.responses);
    assertEquals([refused.status, (await refused.json()).code], [502, "upstream_failed"]);
    assertEquals(other.spend().unmetered_requests, 0, "the request was never shown to it");
  }
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
});

Deno.test("counting tokens and listing models cost nothing, are metered, and count as requests", async () => {
  await using gate = await harness(json({ input_tokens: 5000, usage: { input_tokens: 5000 } }));
  const lease = gate.lease("vendor_a");
  await (await gate.post(lease, "/v1/messages/count_tokens", BODIES.messages)).text();
  await (await gate.post(lease, "/v1/models", null, { method: "GET", body: null })).text();
  const { usd, requests, unmetered_requests, priced } = await lease.end();
  assertEquals({ usd, requests, unmetered_requests, priced }, {
    usd: 0,
    requests: 2,
    unmetered_requests: 0,
    priced: true,
  });
});

Deno.test("a redirect of the vendor is passed on, and the key follows none", async () => {
  await using elsewhere = await harness(json({}));
  await using gate = await harness((response) => {
    response.writeHead(307, { location: `${elsewhere.vendor.url}/v1/messages` });
    response.end();
  });
  const lease = gate.lease("vendor_a");
  const response = await gate.post(lease, "/v1/messages", BODIES.messages, { redirect: "manual" });
  await response.body?.cancel();
  assertEquals([response.status, elsewhere.vendor.seen.length, gate.vendor.seen.length], [307, 0, 1]);
});

Deno.test("a lane without an upstream, and an invalid address, are refused when they are set up", async () => {
  await using gate = await harness(json({}), {
    upstreams: { vendor_a: { base_url: "http://127.0.0.1:9", api_key: "k" } },
  });
  assertThrows(() => gate.lease("vendor_b"), TaskdError, "vendor_b (OpenAI) has no api_key");
  assertThrows(
    () => gate.lease("vendor_a", { auth: "subscription" }),
    TaskdError,
    "vendor_a (Anthropic) has no subscription",
  );
  for (const base_url of ["", "ftp://x", "https://u:p@host", "https://host/?key=1", "host"]) {
    assertThrows(() => new Upstream("compat", { base_url, api_key: "" }), TaskdError, "compat");
  }
});
