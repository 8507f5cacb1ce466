import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { OPS } from "../../lib/protocol/operations.ts";
import { MAX_LINE_BYTES } from "../../lib/protocol/lines.ts";
import { RawHttp } from "../support/raw_http.ts";
import { Place } from "./daemon_process.ts";
import { HttpDaemon, TOKEN } from "./_http.ts";
import { RawClient } from "./raw_client.ts";

const JSON_TYPE = "Content-Type: application/json";

/** Values that are of the moment, not of the question. */
const OF_THE_MOMENT = new Set(["durable_age_seconds", "source"]);

/** An answer without what may differ between two moments. */
function stable(answer: unknown): unknown {
  return JSON.parse(JSON.stringify(answer, (key, value) => OF_THE_MOMENT.has(key) ? null : value));
}

/** What parsers read in more than one way. */
const LOOSE_JSON = [
  '{"op":"create","db":"one","db":"two"}',
  '{"op":"databases","op":"create","db":"two"}',
  '{"op":"create","db":"one","\\u0064b":"two"}',
  '{"op":"create","db":"one","ttl_ms":1e999}',
  '{"op":"checkpoint","db":"app","name":"v1","note":"\\ud83d"}',
];

// conformance: 4.socket.branches 4.socket.status 4.socket.checkout_at 1.transports 4.http.rpc
Deno.test("every operation that reads answers the same over /rpc as over the socket", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { flush_every_ms: 0 });
  for (
    const request of [
      { op: "create", db: "app" },
      { op: "checkpoint", db: "app", name: "one", note: "first" },
      { op: "fork", db: "app", new_branch: "dev", ttl_ms: 3_600_000 },
      { op: "checkout", db: "app", branch: "dev" },
      { op: "open", db: "app" },
    ]
  ) {
    assertEquals((await http.rpc(request)).ok, true, request.op);
  }
  const reads = [
    { op: "status" },
    { op: "status", db: "app" },
    { op: "status", db: "app", branch: "main" },
    { op: "status", db: "app", branch: "dev" },
    { op: "branches" },
    { op: "branches", db: "app" },
    { op: "databases" },
    { op: "lease", db: "app" },
    { op: "lease", db: "app", branch: "dev" },
    { op: "verify", db: "app" },
    { op: "verify", db: "app", checkpoint: "one" },
    { op: "diff", a: "app@main", b: "app@dev" },
    { op: "checkout-at", db: "app", checkpoint: "one" },
    { op: "checkout", db: "app" },
    { op: "flush", db: "app" },
    { op: "gc", dry_run: true },
  ];
  using socket = await RawClient.connect(place.socket);
  for (const request of reads) {
    const text = JSON.stringify({ id: 7, ...request });
    const [over_http, over_socket] = [await http.rpc({ id: 7, ...request }), await socket.ask(text)];
    assertEquals([over_http.ok, over_http.id], [true, 7], text);
    assertEquals(stable(over_http), stable(over_socket), text);
  }
});

Deno.test("every operation fails over /rpc with the very answer of the socket, and with status 200", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using socket = await RawClient.connect(place.socket);
  await http.rpc({ op: "create", db: "app" });
  const requests = [
    ...Object.entries(OPS).flatMap(([op, { fields }]) =>
      Object.values(fields).some(({ required }) => required) ? [{ op }] : []
    ),
    ...Object.keys(OPS).map((op) => ({ op, id: "x", nonsense: 1 })),
    { op: "nothing" },
    { op: "open", db: "none" },
    { op: "open", db: "Not A Name" },
    { op: "close", db: "app" },
    { op: "create", db: "app" },
    { op: "checkout-at", db: "app", checkpoint: "none" },
    { op: "destroy", db: "app", branch: "none" },
    { op: "export", db: "app", path: `${place.store}/inside.db` },
    {},
    { op: 7 },
    { id: "kept", op: "__proto__" },
  ];
  const NO_JSON = ["", "{", "[]", "null", '"open"', "1e999", ...LOOSE_JSON];
  for (
    const text of [...requests.map((request) => JSON.stringify(request)), ...NO_JSON]
  ) {
    const response = await http.fetch("/rpc", { method: "POST", body: text });
    const [status, answer] = [response.status, await response.json()];
    // Of the two only the socket can subscribe; a malformed subscribe is refused by both.
    if (text === '{"op":"subscribe"}') continue;
    assertEquals([status, answer.ok], [200, false], text);
    assertEquals(answer, await socket.ask(text), text);
  }
});

// conformance: 4.http.rpc 7.subscribe_over_rpc
Deno.test("subscribe over /rpc is refused, names GET /events, and makes no subscription", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const response = await http.fetch("/rpc", { method: "POST", body: '{"op":"subscribe","id":3}' });
  assertEquals(response.status, 400);
  const answer = await response.json();
  assertEquals([answer.ok, answer.id, answer.code], [false, 3, "invalid_request"]);
  assertStringIncludes(answer.hint, "GET /events");
});

// conformance: 4.http.rpc 7.body_too_large 8.rpc_body
Deno.test("a body of exactly 1 MiB is taken; one more byte is 413 and the connection stays usable", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using raw = await http.connect();
  const padded = (bytes: number) => '{"op":"databases"}'.padEnd(bytes, " ");
  const post = async (bytes: number) => {
    await raw.request("POST /rpc", [JSON_TYPE, `Content-Length: ${bytes}`]);
    await raw.send(padded(bytes));
    return await raw.response();
  };
  const postChunked = async (bytes: number) => {
    await raw.request("POST /rpc", [JSON_TYPE, "Transfer-Encoding: chunked"]);
    const body = padded(bytes);
    for (let at = 0; at < bytes; at += 1 << 16) {
      const part = body.slice(at, at + (1 << 16));
      await raw.send(`${part.length.toString(16)}\r\n${part}\r\n`);
    }
    await raw.send("0\r\n\r\n");
    return await raw.response();
  };
  assertEquals(MAX_LINE_BYTES, 1_048_576);
  for (const send of [post, postChunked]) {
    for (const bytes of [MAX_LINE_BYTES, MAX_LINE_BYTES + 1, MAX_LINE_BYTES, 5 << 20, 100]) {
      const response = await send(bytes);
      const fits = bytes <= MAX_LINE_BYTES;
      assertEquals(response?.status, fits ? 200 : 413, `${send.name} ${bytes}`);
      assertEquals(JSON.parse(response!.body).code, fits ? undefined : "too_large");
    }
  }
  await raw.request("GET /healthz");
  assertEquals((await raw.response())?.status, 200);
});

Deno.test("an endless body is answered with 413 and its connection ends; the daemon keeps none of it", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  for (const framing of ENDLESS) {
    using raw = await http.connect();
    await raw.request("POST /rpc", [JSON_TYPE, framing]);
    await pour(raw, framing, 413);
  }
  assertEquals((await http.rpc({ op: "databases" })).ok, true);
});

Deno.test("an endless body without the token ends its connection as well", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  for (const framing of ENDLESS) {
    using raw = await RawHttp.connect(http.port);
    await raw.request("POST /rpc", [JSON_TYPE, framing]);
    await pour(raw, framing, 401);
  }
});

/** How bodies are sent that need not end. */
const ENDLESS = ["Transfer-Encoding: chunked", `Content-Length: ${2 ** 40}`];

/** Sends a body until the connection ends, which it has to do soon, after an answer of `status`. */
async function pour(raw: RawHttp<Deno.TcpConn>, framing: string, status: number): Promise<void> {
  const chunk = "x".repeat(1 << 16);
  let sent = 0;
  const sending = (async () => {
    try {
      for (;;) {
        await raw.send(framing.startsWith("T") ? `10000\r\n${chunk}\r\n` : chunk);
        sent += chunk.length;
      }
    } catch {
      // The connection ended.
    }
  })();
  const answer = await raw.response();
  // An answer may be lost to the reset that ends the connection.
  assertEquals(answer?.status ?? status, status);
  await raw.ended();
  await sending;
  assert(sent < 64 << 20, `${sent} bytes`);
}

Deno.test("a body that is too large without the token is 401, and the connection stays usable", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using raw = await http.connect();
  const body = " ".repeat(2 << 20);
  await raw.send(`POST /rpc HTTP/1.1\r\nHost: localhost:${http.port}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  assertEquals((await raw.response())?.status, 401);
  await raw.request("GET /metrics");
  assertEquals((await raw.response())?.status, 200);
});

Deno.test("requests that one connection pipelines are answered in order", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using raw = await http.connect();
  const bodies = Array.from(
    { length: 50 },
    (_, id) => JSON.stringify({ op: id % 3 === 0 ? "nothing" : "databases", id }),
  );
  const head = (body: string) =>
    `POST /rpc HTTP/1.1\r\nHost: localhost:${http.port}\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  await raw.send(bodies.map((body) => head(body) + body).join(""));
  const answers = [];
  for (let i = 0; i < bodies.length; i++) answers.push(JSON.parse((await raw.response())!.body).id);
  assertEquals(answers, bodies.map((_, id) => id));
});

Deno.test("a client that goes away in the middle of an operation leaves it to finish", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  {
    using raw = await http.connect();
    const body = '{"op":"create","db":"app"}';
    await raw.request("POST /rpc", [JSON_TYPE, `Content-Length: ${body.length}`]);
    await raw.send(body);
  }
  for (;;) {
    const { databases } = await http.rpc({ op: "databases" });
    if (databases.length === 1) break;
    // It may have gone before its request was read: then nothing was begun.
    if ((await http.rpc({ op: "create", db: "app" })).ok) break;
  }
  assertMatch(JSON.stringify(await http.rpc({ op: "verify", db: "app" })), /"intact":true/);
  assert(http.daemon.log.every((line) => !line.includes("defect")));
});
