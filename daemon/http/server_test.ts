import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { type Clock, systemClock, systemRandom } from "../../lib/clock.ts";
import { Dispatcher, type Handlers } from "../dispatch.ts";
import { Metrics } from "../metrics.ts";
import { MoreMetrics } from "../more_metrics.ts";
import { Publisher } from "../publisher.ts";
import { parseHttpAddress } from "../../lib/http/address.ts";
import { BearerToken } from "./auth.ts";
import type { HttpTimeouts } from "../../lib/http/connection_stream.ts";
import { GUARD_HEADERS } from "../../lib/http/browser_guard.ts";
import { strangeHosts, strangeOrigins } from "../../tests/attacks/inputs/control.ts";
import { headerOf, RawHttp } from "../../tests/support/raw_http.ts";
import { HttpServer } from "./server.ts";
import { longTest } from "../../tests/support/long.ts";

const TOKEN = "a-token-of-enough-length";
const JSON_TYPE = { "content-type": "application/json" };
const BEARER = { authorization: `Bearer ${TOKEN}` };

interface Harness extends AsyncDisposable {
  url: string;
  /** What a Host header has. */
  host: string;
  port: number;
  server: HttpServer;
  publisher: Publisher;
}

function start(
  timeouts: Partial<HttpTimeouts> = {},
  { write_deadline_ms, clock = systemClock, sessions = 3, onLease = () => {}, answer }: {
    write_deadline_ms?: number;
    clock?: Clock;
    sessions?: number;
    onLease?: () => void;
    answer?: Promise<object>;
  } = {},
): Harness {
  const publisher = new Publisher({
    clock,
    ...(write_deadline_ms === undefined ? {} : { write_deadline_ms }),
  });
  // Only what these tests call; the daemon's own tests run every operation over this listener.
  const handlers = {
    databases: () => Promise.resolve({ databases: [] }),
    lease: () => {
      onLease();
      return answer;
    },
  } as unknown as Handlers;
  const address = parseHttpAddress("127.0.0.1:0");
  const server = new HttpServer({
    address,
    token: BearerToken.forListener(address, { token: TOKEN, allow_non_loopback: false, random: systemRandom }),
    dispatcher: new Dispatcher(handlers, () => {}),
    publisher,
    metrics: new Metrics("test"),
    more_metrics: new MoreMetrics(),
    sessions: () => Promise.resolve([]),
    threads: { sample: () => Promise.resolve(() => Promise.resolve([])) },
    sessionCount: () => sessions,
    clock,
    random: systemRandom,
    log: () => {},
    timeouts,
  });
  const port = Number(server.address.split(":")[1]);
  return {
    url: `http://${server.address}`,
    host: server.address,
    port,
    server,
    publisher,
    [Symbol.asyncDispose]: async () => {
      await publisher.close(100);
      await server.close();
    },
  };
}

/** Reads until the peer closes, or `needle` has come. */
async function readUntil(conn: Deno.Conn, needle?: string): Promise<string> {
  const buffer = new Uint8Array(65536);
  let text = "";
  for (;;) {
    const count = await conn.read(buffer).catch(() => null);
    if (count === null) return text;
    text += new TextDecoder().decode(buffer.subarray(0, count));
    if (needle !== undefined && text.includes(needle)) return text;
  }
}

const send = (conn: Deno.Conn, text: string) => conn.write(new TextEncoder().encode(text));

Deno.test("GET /healthz needs no token and counts sessions", async () => {
  await using http = start();
  const response = await fetch(`${http.url}/healthz`);
  assertEquals(response.status, 200);
  assertEquals(await response.json(), { ok: true, sessions: 3 });
});

Deno.test("every other route answers 401 without the token, with a wrong one and with another scheme", async () => {
  await using http = start();
  for (
    const path of ["/metrics", "/metrics/more", "/events", "/rpc", "/debug/pprof/", "/debug/pprof/profile", "/nothing"]
  ) {
    for (const authorization of [undefined, "Bearer wrong-wrong-wrong-wrong", `Basic ${TOKEN}`, `Bearer ${TOKEN}x`]) {
      const response = await fetch(http.url + path, authorization === undefined ? {} : { headers: { authorization } });
      assertEquals(response.status, 401, `${path} with ${authorization}`);
      assert(!(await response.text()).includes(TOKEN));
    }
  }
});

Deno.test("GET /metrics lists 21 families", async () => {
  await using http = start();
  const text = await (await fetch(`${http.url}/metrics`, { headers: BEARER })).text();
  assertEquals(text.match(/^# TYPE /gm)?.length, 21);
  assertStringIncludes(text, 'bstore_build_info{version="test"} 1');
});

Deno.test("GET /metrics/more has none of the 21 families, and sessions in error", async () => {
  await using http = start();
  const [more, metrics] = await Promise.all(
    ["/metrics/more", "/metrics"].map(async (path) => await (await fetch(http.url + path, { headers: BEARER })).text()),
  );
  const names = [...more!.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name!);
  assert(names.includes("bstore_session_failed"));
  assertEquals(names.filter((name) => metrics!.includes(`# TYPE ${name} `)), []);
});

Deno.test("only a stream that asks for more gets events of the further types", async () => {
  await using http = start();
  const about = { db: "a", branch: "main" };
  const read = async (path: string) => {
    const { body } = await fetch(http.url + path, { headers: BEARER });
    return body!.pipeThrough(new TextDecoderStream()).getReader();
  };
  const [plain, more] = [await read("/events"), await read("/events?more=1")];
  for (const stream of [plain, more]) assertEquals((await stream.read()).value, ": ping\n\n");
  http.publisher.publish("lease_retaken", about, { holder: "daemon:x", epoch: 3, late_seconds: 9 });
  http.publisher.publish("session_closed", about, {});
  assertMatch((await plain.read()).value!, /-1\ndata: .*"type":"session_closed"/);
  assertMatch((await more.read()).value!, /-1\ndata: .*"type":"lease_retaken"/);
  for (const stream of [plain, more]) await stream.cancel();
});

Deno.test("POST /rpc runs an operation and echoes the id; subscribe is refused with 400 and a hint", async () => {
  await using http = start();
  const call = (body: string) =>
    fetch(`${http.url}/rpc`, { method: "POST", headers: { ...BEARER, ...JSON_TYPE }, body });
  assertEquals(await (await call('{"op":"databases","id":7}')).json(), { ok: true, id: 7, databases: [] });
  const unknown = await call('{"op":"nothing"}');
  assertEquals(unknown.status, 200);
  assertEquals((await unknown.json()).code, "unknown_op");
  const refused = await call('{"op":"subscribe"}');
  assertEquals(refused.status, 400);
  assertStringIncludes(await refused.text(), "GET /events");
});

/** Heads of requests for every route, and for none. */
const LINES = ["/healthz", "/metrics", "/events", "/rpc", "/debug/pprof/", "/nowhere"].map((path) =>
  `${path === "/rpc" ? "POST" : "GET"} ${path}`
);

/** The status of a request with a body, and what else its answer says. */
async function askRaw(http: Harness, line: string, fields: readonly string[]) {
  using raw = await RawHttp.connect(http.port, [`Authorization: Bearer ${TOKEN}`, "Connection: close"]);
  await raw.request(line, fields, line.startsWith("POST") ? '{"op":"databases"}' : undefined);
  return await raw.response({ bodyless: true });
}

Deno.test("a foreign Host is 403 on every route, with the token too", async () => {
  await using http = start();
  for (const host of strangeHosts(http.port)) {
    for (const line of LINES) {
      assertEquals((await askRaw(http, line, [`Host: ${host}`]))?.status, 403, `${line} for ${host}`);
    }
  }
  for (const host of ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"]) {
    const response = await askRaw(http, "POST /rpc", [`Host: ${host}:${http.port}`]);
    assertEquals(response?.status, 200, host);
  }
});

Deno.test("a page of another origin is 403 on every route, with the token too", async () => {
  await using http = start();
  const fields = [
    ...strangeOrigins(http.port).map((origin) => `Origin: ${origin}`),
    ...["cross-site", "same-site", "x"].map((site) => `Sec-Fetch-Site: ${site}`),
  ];
  for (const field of fields) {
    for (const line of [...LINES, "OPTIONS /rpc"]) {
      assertEquals((await askRaw(http, line, [`Host: ${http.host}`, field]))?.status, 403, `${line} with ${field}`);
    }
  }
  const own = [`Host: ${http.host}`, `Origin: http://${http.host}`, "Sec-Fetch-Site: same-origin"];
  assertEquals((await askRaw(http, "POST /rpc", own))?.status, 200);
});

Deno.test("a body that is not declared as plain JSON is 415, and no operation", async () => {
  let leases = 0;
  await using http = start({}, { onLease: () => leases++, answer: Promise.resolve({}) });
  const call = async (headers: HeadersInit) => {
    const init = { method: "POST", headers, body: new TextEncoder().encode('{"op":"lease","db":"app"}') };
    const response = await fetch(`${http.url}/rpc`, init);
    return [response.status, (await response.json()).code];
  };
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
    assertEquals(await call({ ...BEARER, "content-type": type }), [415, "invalid_request"], type);
  }
  assertEquals(await call(BEARER), [415, "invalid_request"]);
  assertEquals(await call({ ...BEARER, ...JSON_TYPE, "content-encoding": "gzip" }), [415, "invalid_request"]);
  assertEquals(leases, 0);
  await call({ ...BEARER, ...JSON_TYPE });
  assertEquals(leases, 1);
});

Deno.test("every answer has the headers that keep pages off it, refusals too", async () => {
  await using http = start();
  const cases = [
    ...LINES.map((line) => [line]),
    ["GET /metrics", "Host: evil.example"],
    ["DELETE /metrics"],
    [
      "CONNECT evil.example:1",
    ],
    ["TRACE /metrics"],
    ["POST /rpc", "Content-Type: text/plain"],
  ] as [string, ...string[]][];
  for (const [line, ...fields] of cases) {
    const answer = await askRaw(http, line, fields);
    if (line.startsWith("CONNECT")) assertEquals(answer?.status, 405);
    else for (const [name, value] of Object.entries(GUARD_HEADERS)) assertEquals(headerOf(answer!, name), value, line);
  }
});

Deno.test("HTTP/2 in the clear is refused with 400", async () => {
  await using http = start();
  using raw = await RawHttp.connect(http.port);
  await raw.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0");
  assertEquals((await raw.response())?.status, 400);
});

Deno.test("a body over 1 MiB is 413 and the same connection then answers", async () => {
  await using http = start();
  using conn = await Deno.connect({ port: http.port });
  const body = new Uint8Array((1 << 20) + 1).fill(0x20);
  const head = (length: number) =>
    `POST /rpc HTTP/1.1\r\nHost: ${http.host}\r\nContent-Type: application/json\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${length}\r\n\r\n`;
  await send(conn, head(body.length));
  const answer = readUntil(conn, "too_large");
  for (let done = 0; done < body.length;) done += await conn.write(body.subarray(done));
  assertMatch(await answer, /^HTTP\/1.1 413 /);
  const op = '{"op":"databases"}';
  await send(conn, head(op.length) + op);
  assertMatch(await readUntil(conn, "databases"), /^HTTP\/1.1 200 /);
});

Deno.test("a chunked body over 1 MiB is 413 and the same connection then answers", async () => {
  await using http = start();
  using conn = await Deno.connect({ port: http.port });
  await send(
    conn,
    `POST /rpc HTTP/1.1\r\nHost: ${http.host}\r\nContent-Type: application/json\r\nAuthorization: Bearer ${TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  );
  const answer = readUntil(conn, "too_large");
  const part = " ".repeat(65536);
  for (let i = 0; i < 17; i++) await send(conn, `10000\r\n${part}\r\n`);
  await send(conn, "0\r\n\r\n");
  assertMatch(await answer, /^HTTP\/1.1 413 /);
  await send(conn, `GET /healthz HTTP/1.1\r\nHost: ${http.host}\r\n\r\n`);
  assertMatch(await readUntil(conn, "sessions"), /^HTTP\/1.1 200 /);
});

Deno.test("a head that does not end in time closes the connection", async () => {
  await using http = start({ read_header_ms: 300 });
  using conn = await Deno.connect({ port: http.port });
  await send(conn, "GET /healthz HTTP/1.1\r\nHo");
  assertEquals(await readUntil(conn), "");
  using silent = await Deno.connect({ port: http.port });
  assertEquals(await readUntil(silent), "");
});

Deno.test("a body that does not end in time closes the connection", async () => {
  await using http = start({ read_ms: 300 });
  using conn = await Deno.connect({ port: http.port });
  await send(
    conn,
    `POST /rpc HTTP/1.1\r\nHost: ${http.host}\r\nContent-Type: application/json\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: 100\r\n\r\n{"op"`,
  );
  assertEquals(await readUntil(conn), "");
});

Deno.test("an answer that does not come in time closes the connection", async () => {
  const late = Promise.withResolvers<object>();
  await using http = start({ write_ms: 300 }, { answer: late.promise });
  using conn = await Deno.connect({ port: http.port });
  const op = '{"op":"lease","db":"app"}';
  await send(
    conn,
    `POST /rpc HTTP/1.1\r\nHost: ${http.host}\r\nContent-Type: application/json\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${op.length}\r\n\r\n${op}`,
  );
  assertEquals(await readUntil(conn), "");
  late.resolve({});
});

Deno.test("close() waits for an operation that never ends no longer than for answers to be taken", async () => {
  const clock = new VirtualClock();
  const asked = Promise.withResolvers<void>();
  const http = start({}, { clock, onLease: asked.resolve, answer: new Promise(() => {}) });
  using conn = await Deno.connect({ port: http.port });
  const op = '{"op":"lease","db":"app"}';
  await send(
    conn,
    `POST /rpc HTTP/1.1\r\nHost: ${http.host}\r\nContent-Type: application/json\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${op.length}\r\n\r\n${op}`,
  );
  await asked.promise;
  const closing = http.server.close();
  // First for answers to be taken, and then for what they would be the answers of.
  for (let waits = 0; waits < 2; waits++) {
    await clock.sleeper(2_000);
    clock.advance(2_000);
  }
  await closing;
  assertEquals(await readUntil(conn), "");
});

Deno.test("an idle connection is closed, one in use is not", async () => {
  const clock = new VirtualClock();
  await using http = start({ idle_ms: 60_000 }, { clock });
  using conn = await Deno.connect({ port: http.port });
  // Lets time pass, and the server look at it.
  const pass = async (ms: number) => {
    clock.advance(ms);
    await systemClock.sleep(1);
  };
  for (let i = 0; i < 3; i++) {
    await send(conn, `GET /healthz HTTP/1.1\r\nHost: ${http.host}\r\n\r\n`);
    assertMatch(await readUntil(conn, "sessions"), /^HTTP\/1.1 200 /);
    for (let parts = 0; parts < 4; parts++) await pass(10_000);
  }
  let closed = false;
  const end = readUntil(conn).finally(() => closed = true);
  while (!closed) await pass(10_000);
  assertEquals(await end, "");
});

Deno.test("an SSE subscriber receives the bytes of the socket's events with ids, and a ping comment", async () => {
  await using http = start();
  const response = await fetch(`${http.url}/events`, { headers: BEARER });
  assertEquals(response.headers.get("content-type"), "text/event-stream");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  assertEquals((await reader.read()).value, ": ping\n\n");
  http.publisher.publish("session_closed", { db: "a", branch: "main" }, {});
  const { value } = await reader.read();
  assertMatch(value!, /^id: [0-9a-f]{8}-1\ndata: \{"v":1,"ts":"[^"]+","type":"session_closed",.*\}\n\n$/);
  await reader.cancel();
});

Deno.test("a subscriber that stops reading is closed and its subscription ends", async () => {
  await using http = start({ stalled_write_ms: 500 }, { write_deadline_ms: 500 });
  using conn = await Deno.connect({ port: http.port });
  await send(conn, `GET /events HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`);
  while (http.publisher.subscribers === 0) await systemClock.sleep(10);
  const detail = { error: "x".repeat(60_000) };
  // Until every buffer on the way is full, the kernel's among them.
  while (http.publisher.subscribers > 0) {
    http.publisher.publish("session_closed", { db: "a", branch: "main" }, detail);
    await systemClock.sleep(5);
  }
  while (http.server.connections > 0) await systemClock.sleep(50);
});

Deno.test("a client that goes away ends its subscription", async () => {
  await using http = start();
  const stop = new AbortController();
  const response = await fetch(`${http.url}/events`, { headers: BEARER, signal: stop.signal });
  assertEquals(response.status, 200);
  while (http.publisher.subscribers === 0) await systemClock.sleep(10);
  stop.abort();
  while (http.publisher.subscribers > 0) {
    http.publisher.publish("session_closed", { db: "a", branch: "main" }, {});
    await systemClock.sleep(20);
  }
  await response.body?.cancel().catch(() => {});
});

longTest("GET /debug/pprof/profile and heap are files that go tool pprof reads", async () => {
  await using http = start();
  for (const path of ["profile?seconds=0.2", "heap?seconds=0.2"]) {
    const response = await fetch(`${http.url}/debug/pprof/${path}`, { headers: BEARER });
    assertEquals(response.status, 200);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const file = await Deno.makeTempFile({ suffix: ".pb.gz" });
    await Deno.writeFile(file, bytes);
    const pprof = await new Deno.Command("go", { args: ["tool", "pprof", "-top", file] }).output();
    await Deno.remove(file);
    assert(pprof.success, new TextDecoder().decode(pprof.stderr));
    assertMatch(new TextDecoder().decode(pprof.stdout), /Type: (cpu|inuse_space)/);
  }
  const index = await fetch(`${http.url}/debug/pprof/`, { headers: BEARER });
  assertStringIncludes(await index.text(), "profile?seconds=30");
});

Deno.test("a profile's window is cut off at the write budget", async () => {
  await using http = start({ write_ms: 5_300 });
  const response = await fetch(`${http.url}/debug/pprof/profile?seconds=3600`, { headers: BEARER });
  assertEquals(response.status, 200);
  await response.body?.cancel();
});
