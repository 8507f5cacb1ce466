import { assert, assertEquals } from "@std/assert";
import { WRITE_DEADLINE_MS } from "../../daemon/publisher.ts";
import { HTTP_TIMEOUTS } from "../../lib/http/connection_stream.ts";
import { MAX_HTTP_CONNECTIONS } from "../../lib/http/server.ts";
import type { RawHttp } from "../support/raw_http.ts";
import { Place } from "./daemon_process.ts";
import { HttpDaemon } from "./_http.ts";
import { longTest } from "../support/long.ts";
import { openSockets, residentBytes } from "../support/process_figures.ts";

// conformance: 8.http_timeouts 8.subscriber 6.write_deadline
Deno.test("deadlines: 5 s a head, 30 s a request, 90 s an answer, 2 min idle, 45 s a write", () => {
  assertEquals(HTTP_TIMEOUTS, {
    read_header_ms: 5_000,
    read_ms: 30_000,
    write_ms: 90_000,
    idle_ms: 120_000,
    stalled_write_ms: 45_000,
  });
  assertEquals(WRITE_DEADLINE_MS, 45_000);
});

/** Waits until a process has no more sockets open than before. */
async function socketsBackTo(pid: number, before: number): Promise<void> {
  while (openSockets(pid) > before) await pause(20);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

// conformance: 8.http_timeouts
Deno.test("slow heads, slow bodies and silent connections are closed; others are served meanwhile", async () => {
  await using place = new Place();
  const timeouts = { read_header_ms: 400, read_ms: 700, idle_ms: 600 };
  await using http = await HttpDaemon.start(place, { http: { timeouts } });
  const { pid } = http.daemon;
  const before = openSockets(pid);
  const trickling = async (start: (raw: Awaited<ReturnType<HttpDaemon["connect"]>>) => Promise<void>) => {
    using raw = await http.connect();
    await start(raw);
    let over = false;
    const ended = raw.ended().then(() => over = true);
    // A byte now and then does not buy more time.
    while (!over) {
      await raw.send("x").catch(() => {});
      await pause(100);
    }
    await ended;
  };
  const slow = [
    () => trickling((raw) => raw.send("GET /healthz HTTP/1.1\r\nX-Slow: ")),
    () => trickling((raw) => raw.request("POST /rpc", ["Content-Length: 100000"])),
    () => trickling((raw) => raw.request("POST /rpc", ["Transfer-Encoding: chunked"])),
    async () => {
      using raw = await http.connect();
      await raw.ended();
    },
    async () => {
      using raw = await http.connect();
      await raw.request("GET /healthz");
      await raw.response();
      await raw.ended();
    },
  ];
  const others = (async () => {
    // The deadlines are theirs, too: on a machine with much to do one of them may be late.
    const ask = () => http.rpc({ op: "databases" }).catch(() => undefined);
    for (let served = 0; served < 20;) if ((await ask())?.ok === true) served++;
  })();
  await Promise.all([others, ...Array.from({ length: 20 }, () => slow.map((one) => one())).flat()]);
  await socketsBackTo(pid, before);
});

// conformance: 4.http.events
Deno.test("a stream of events outlives the write deadline and the idle deadline", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { http: { timeouts: { write_ms: 300, idle_ms: 900 } } });
  const events = await http.events();
  using idle = await http.connect();
  await idle.request("GET /healthz");
  await idle.response();
  // It began after the stream and its deadline is the longer one.
  await idle.ended();
  // Over the socket, which has other deadlines.
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("open", { db: "app" });
  await events.of("session_opened");
  await events.cancel();
});

// conformance: 8.http_timeouts
longTest("readers that stall on /metrics are closed, and their memory comes back", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { http: { timeouts: { stalled_write_ms: 500 } } });
  const { pid } = http.daemon;
  for (let i = 0; i < 20; i++) await http.metrics();
  const before = { files: openSockets(pid), bytes: residentBytes(pid) };
  const stall = async () => {
    using raw = await http.connect();
    // Far more answers than all the buffers on the way hold, and no client reads one.
    try {
      for (let i = 0; i < 4_000; i++) await raw.request("GET /metrics");
    } catch {
      // It was closed while it still sent.
    }
    await socketsBackTo(pid, before.files);
  };
  await Promise.all(Array.from({ length: 8 }, stall));
  await http.metrics();
  assert(residentBytes(pid) - before.bytes < 200e6, `${residentBytes(pid) - before.bytes} more bytes`);
});

Deno.test("over the limit of connections the one that has been idle the longest makes room", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { http: { timeouts: { read_header_ms: 60_000 } } });
  using held = new DisposableStack();
  const ask = async (raw: RawHttp) => {
    await raw.request("GET /healthz").catch(() => {});
    return (await raw.response())?.status;
  };
  // A stream is never idle.
  const events = await http.events();
  const first = held.use(await http.connect());
  assertEquals(await ask(first), 200);
  for (let count = 2; count < MAX_HTTP_CONNECTIONS; count++) held.use(await http.connect());
  assertEquals(await ask(held.use(await http.connect())), 200);
  await first.ended();
  await http.rpc({ op: "create", db: "app" });
  await http.rpc({ op: "open", db: "app" });
  await events.of("session_opened");
  await events.cancel();
});

Deno.test("a request whose head is larger than any need be, or is no HTTP, does not reach the daemon", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  for (
    const text of [
      `GET /healthz HTTP/1.1\r\nX: ${"x".repeat(2 << 20)}\r\n\r\n`,
      `GET /healthz HTTP/1.1\r\n${"X: y\r\n".repeat(10_000)}\r\n`,
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
      "SSH-2.0-OpenSSH_9.2\r\n",
      "GET /healthz HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n0\r\n\r\n",
      "\0".repeat(1000),
    ]
  ) {
    using raw = await http.connect();
    await raw.send(text).catch(() => {});
    await raw.conn.closeWrite().catch(() => {});
    await raw.ended();
  }
  assertEquals((await http.rpc({ op: "databases" })).ok, true);
  assertEquals(http.daemon.log.filter((line) => line.includes("defect")), []);
});
