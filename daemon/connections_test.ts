import { assert, assertEquals, assertRejects } from "@std/assert";
import { connect, subscribe } from "../lib/client/client.ts";
import { writeAll } from "../lib/fs.ts";
import { longTest } from "../tests/support/long.ts";
import { TaskdError } from "../lib/errors.ts";
import type { OnProgress } from "../lib/store/results.ts";
import { VirtualClock } from "../tests/support/clock.ts";
import { RawClient } from "../tests/daemon/raw_client.ts";
import { testServer } from "../tests/daemon/socket_server.ts";
import { MAX_CONNECTIONS } from "./connections.ts";
import { SUBSCRIBER_BUFFER_EVENTS } from "./publisher.ts";

const databases = () => Promise.resolve({ databases: [{ db: "app", branches: 1 }] });

Deno.test("pipelined requests are answered in order, ids echoed, each once", async () => {
  await using server = await testServer({
    databases,
    lease: async ({ db }) => {
      // The first takes longest: order must not depend on it.
      for (let turn = db === "slow" ? 2000 : 0; turn > 0; turn--) await Promise.resolve();
      return { db, branch: "main", epoch: 1, live: false };
    },
  });
  using client = await RawClient.connect(server.path);
  const asked = Array.from({ length: 500 }, (_, id) => ({ op: "lease", db: id % 7 ? "fast" : "slow", id }));
  await client.send(asked.map((request) => JSON.stringify(request)).join("\n") + "\n");
  for (const { id, db } of asked) {
    assertEquals(await client.next(), { ok: true, id, db, branch: "main", epoch: 1, live: false });
  }
});

Deno.test("attack: what a page sends to a forwarded socket ends the connection, its body unread", async () => {
  let asked = 0;
  await using server = await testServer({
    databases: () => {
      asked++;
      return databases();
    },
  });
  for (const head of ["POST / HTTP/1.1", "GET /x HTTP/1.0", `OPTIONS ${"/".repeat(9_000)} HTTP/1.1`]) {
    using client = await RawClient.connect(server.path);
    await client.send(`${head}\r\nHost: localhost\r\n\r\n{"op":"databases"}\n`);
    const answer = await client.next();
    assertEquals([answer.code, await client.next()], ["invalid_request", undefined], head);
  }
  assertEquals(asked, 0);
});

// conformance: 1.transports
Deno.test("an invalid request is answered with its reason, and the connection stays usable", async () => {
  await using server = await testServer({ databases });
  using client = await RawClient.connect(server.path);
  const refused = async (line: string | Uint8Array, code: string, words: string) => {
    await client.send(line);
    await client.send("\n");
    const answer = await client.next();
    assertEquals([answer.ok, answer.code], [false, code]);
    assert(answer.error.includes(words), answer.error);
    return answer;
  };
  await refused("", "invalid_request", "not JSON");
  await refused('{"op":"databa', "invalid_request", "not JSON");
  await refused('\ufeff{"op":"databases"}', "invalid_request", "not JSON");
  await refused(new Uint8Array([0x22, 0xff, 0xfe, 0x22]), "invalid_request", "not UTF-8");
  for (const other of ["[]", "null", "1", '"databases"']) await refused(other, "invalid_request", "not a JSON object");
  await refused("{}", "invalid_request", '"op"');
  await refused('{"op":7}', "invalid_request", '"op"');
  await refused('{"op":"databases","id":{}}', "invalid_request", '"id"');
  await refused(`{"op":"databases","id":"${"x".repeat(257)}"}`, "invalid_request", '"id"');
  await refused("[".repeat(500_000), "invalid_request", "nested deeper");
  assertEquals((await refused('{"op":"toString","id":"a"}', "unknown_op", "toString")).id, "a");
  assertEquals((await refused('{"op":"databases","x":1,"id":0}', "invalid_request", '"x"')).id, 0);
  await refused('{"op":"databases","__proto__":1}', "invalid_request", "__proto__");
  const longest = "x".repeat(256);
  assertEquals((await client.ask(`{"op":"databases","id":"${longest}"}`)).id, longest);
  assertEquals(await client.ask('{"op":"databases"}\r'), { ok: true, databases: [{ db: "app", branches: 1 }] });
});

Deno.test("a line over 1 MiB is refused once and the next request is served", async () => {
  await using server = await testServer({ databases });
  using client = await RawClient.connect(server.path);
  const writing = client.send(`{"op":"${"x".repeat(3 << 20)}"}\n{"op":"databases"}\n`);
  assertEquals((await client.next()).code, "too_large");
  assertEquals((await client.next()).ok, true);
  await writing;
  // Exactly the limit is a request like any other.
  const padded = '{"op":"databases"}'.padEnd(1 << 20);
  assertEquals((await client.ask(padded)).ok, true);
  assertEquals((await client.ask(`${padded} `)).code, "too_large");
});

Deno.test("a request without its newline is not run, even when it is whole", async () => {
  let ran = 0;
  await using server = await testServer({ databases: () => (ran++, databases()) });
  using client = await RawClient.connect(server.path);
  await client.send('{"op":"databases"}');
  await client.conn.closeWrite();
  assertEquals((await client.next()).code, "invalid_request");
  assertEquals(await client.next(), undefined);
  assertEquals(ran, 0);
});

Deno.test("an error of the product keeps code and hint; a defect is logged and reveals nothing", async () => {
  await using server = await testServer({
    open: () => Promise.reject(new TaskdError("lease_held", "Cannot open app@main: held", { hint: "close it" })),
    flush: () => Promise.reject(new Error("secret detail")),
    close: () => {
      throw new TypeError("thrown at once");
    },
  });
  using client = await RawClient.connect(server.path);
  assertEquals(await client.ask('{"op":"open","db":"app","id":1}'), {
    ok: false,
    id: 1,
    code: "lease_held",
    error: "Cannot open app@main: held",
    hint: "close it",
  });
  const defect = await client.ask('{"op":"flush","db":"app"}');
  assertEquals(defect.code, "internal");
  assert(!JSON.stringify(defect).includes("secret"));
  assert(server.log.some((line) => line.includes("secret detail")));
  assertEquals((await client.ask('{"op":"close","db":"app"}')).code, "internal");
});

Deno.test("a client that does not read its answers is closed by the deadline; others are served", async () => {
  const big = "x".repeat(1 << 20);
  await using server = await testServer(
    {
      databases: () => Promise.resolve({ databases: [{ db: big, branches: 1 }] }),
      lease: ({ db }) => Promise.resolve({ db, branch: "main", epoch: 0, live: false }),
    },
    { write_deadline_ms: 300 },
  );
  using deaf = await RawClient.connect(server.path);
  await deaf.send('{"op":"databases"}\n'.repeat(8));
  using other = await RawClient.connect(server.path);
  assertEquals((await other.ask('{"op":"lease","db":"app"}')).ok, true);
  while (server.connections.size > 1) await other.ask('{"op":"lease","db":"app"}');
  assertEquals((await other.ask('{"op":"lease","db":"app"}')).ok, true);
});

// conformance: 4.socket.subscribe
Deno.test("a subscribed connection is read no further and streams every event after the ack", async () => {
  let ran = 0;
  await using server = await testServer({ databases: () => (ran++, databases()) });
  using client = await RawClient.connect(server.path);
  await client.send('{"op":"subscribe","id":"s"}\n{"op":"databases"}\n');
  assertEquals(await client.next(), { ok: true, id: "s" });
  await client.send('{"op":"databases"}\n');
  for (let epoch = 1; epoch <= 3; epoch++) {
    server.publisher.publish("session_opened", { db: "app", branch: "main" }, { holder: "h", epoch });
  }
  for (let epoch = 1; epoch <= 3; epoch++) assertEquals((await client.next()).detail.epoch, epoch);
  assertEquals(ran, 0);
});

Deno.test("a subscriber that half-closes its side still gets events", async () => {
  await using server = await testServer({});
  using client = await RawClient.connect(server.path);
  await client.send('{"op":"subscribe"}\n');
  await client.conn.closeWrite();
  assertEquals(await client.next(), { ok: true });
  server.publisher.publish("fenced", { db: "app", branch: "main" }, { cause: "staged" });
  assertEquals((await client.next()).type, "fenced");
});

Deno.test("a subscriber that never reads is dropped and closed; one that reads sees everything", async () => {
  // Long enough for the buffer to fill first, however busy the machine is.
  await using server = await testServer({}, { write_deadline_ms: 5_000 });
  using deaf = await RawClient.connect(server.path);
  await deaf.send('{"op":"subscribe"}\n');
  const seen: number[] = [];
  const subscribed = Promise.withResolvers<void>();
  const leave = new AbortController();
  const reading = (async () => {
    for await (const event of subscribe(server.path, { signal: leave.signal, onSubscribed: subscribed.resolve })) {
      if (event.type === "session_opened") seen.push(event.detail.epoch);
      else seen.push(-1);
    }
  })();
  await subscribed.promise;
  while (server.publisher.subscribers < 2) await Promise.resolve();
  // Enough to fill the kernel's buffer for the connection and then the subscriber's own.
  const holder = "h".repeat(60_000);
  let epoch = 0;
  while (server.publisher.subscribers === 2) {
    server.publisher.publish("session_opened", { db: "app", branch: "main" }, { holder, epoch: ++epoch });
    while (seen.length < epoch) await new Promise((resolve) => setTimeout(resolve, 0));
  }
  assert(epoch > SUBSCRIBER_BUFFER_EVENTS);
  server.publisher.publish("session_opened", { db: "app", branch: "main" }, { holder, epoch: ++epoch });
  while (seen.length < epoch) await new Promise((resolve) => setTimeout(resolve, 0));
  assertEquals(seen, Array.from({ length: epoch }, (_, index) => index + 1));
  while (server.connections.size > 1) await new Promise((resolve) => setTimeout(resolve, 0));
  leave.abort();
  await reading;
});

Deno.test("a subscriber that is gone before its ack leaves no subscription", async () => {
  await using server = await testServer({ databases });
  using client = await RawClient.connect(server.path);
  await client.ask('{"op":"databases"}');
  // Written and hung up in one turn: the daemon finds the request and no one to answer.
  const writing = client.send('{"op":"subscribe"}\n');
  client[Symbol.dispose]();
  await writing.catch(() => {});
  while (server.connections.size > 0) await new Promise((resolve) => setTimeout(resolve, 0));
  assertEquals(server.publisher.subscribers, 0);
});

Deno.test("a thousand subscribers see the same events in the same order", async () => {
  await using server = await testServer({});
  const clients = await Promise.all(Array.from({ length: 1000 }, () => RawClient.connect(server.path)));
  await Promise.all(clients.map((client) => client.ask('{"op":"subscribe"}')));
  for (let epoch = 1; epoch <= 20; epoch++) {
    server.publisher.publish("session_opened", { db: "app", branch: "main" }, { holder: "h", epoch });
  }
  const expected = Array.from({ length: 20 }, (_, index) => index + 1);
  for (const client of clients) {
    const seen: number[] = [];
    while (seen.length < 20) seen.push((await client.next()).detail.epoch);
    assertEquals(seen, expected);
    client[Symbol.dispose]();
  }
});

Deno.test("connections over the limit are refused; a subscriber that left makes room", async () => {
  assertEquals(MAX_CONNECTIONS, 1024);
  for (const sent_since of ["", "ignored\n", "x".repeat(200_000)]) {
    await using server = await testServer({ databases }, { max_connections: 2, clock: new VirtualClock() });
    using first = await RawClient.connect(server.path);
    assertEquals((await first.ask('{"op":"databases"}')).ok, true);
    const subscriber = await RawClient.connect(server.path);
    assertEquals((await subscriber.ask('{"op":"subscribe"}')).ok, true);
    using refused = await RawClient.connect(server.path);
    assertEquals((await refused.next()).code, "overloaded");
    assertEquals(await refused.next(), undefined);
    await subscriber.conn.write(new TextEncoder().encode(sent_since));
    subscriber[Symbol.dispose]();
    // Its end reaches the daemon on its own time; until then there is no room.
    for (let tries = 0;; tries++) {
      assert(tries < 10_000, sent_since.slice(0, 10));
      using next = await RawClient.connect(server.path);
      await next.send('{"op":"databases"}\n').catch(() => {});
      const answer = await next.next().catch(() => undefined);
      if (answer?.ok) break;
    }
  }
});

Deno.test("when all connections are taken, the one that asked for nothing the longest makes room", async () => {
  const clock = new VirtualClock();
  const [began, running] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using server = await testServer({
    databases,
    branches: () => {
      began.resolve();
      return running.promise.then(() => ({ branches: [] }));
    },
  }, { max_connections: 4, clock });
  using at_work = await RawClient.connect(server.path);
  await at_work.send('{"op":"branches"}\n');
  await began.promise;
  using subscriber = await RawClient.connect(server.path);
  assertEquals((await subscriber.ask('{"op":"subscribe"}')).ok, true);
  using half = await RawClient.connect(server.path);
  await half.send('{"op":"bran');
  while (server.connections.size < 3) await new Promise((resolve) => setTimeout(resolve, 1));
  clock.advance(1);
  using idle = await RawClient.connect(server.path);
  assertEquals((await idle.ask('{"op":"databases"}')).ok, true);
  using early = await RawClient.connect(server.path);
  assertEquals((await early.next()).code, "overloaded");
  clock.advance(1_000);
  // A byte now and then is no request.
  await half.send("c");
  for (const ended of [half, idle]) {
    const next = await RawClient.connect(server.path);
    assertEquals((await next.ask('{"op":"databases"}')).ok, true);
    assertEquals(await ended.next(), undefined);
    // Its place is free again.
    if (ended === half) clock.advance(1);
    else next[Symbol.dispose]();
  }
  running.resolve();
  assertEquals((await at_work.next()).ok, true);
  server.publisher.publish("fenced", { db: "app", branch: "main" }, { cause: "staged" });
  assertEquals((await subscriber.next()).type, "fenced");
});

Deno.test("the client reports why it was refused, also when the connection ended before its call", async () => {
  await using server = await testServer({ databases }, { max_connections: 1, clock: new VirtualClock() });
  using first = await RawClient.connect(server.path);
  assertEquals((await first.ask('{"op":"databases"}')).ok, true);
  // Who comes after has been refused: so have those before.
  const refused = async () => {
    using next = await RawClient.connect(server.path);
    while (await next.next() !== undefined);
  };
  using client = await connect(server.path);
  await refused();
  const error = await assertRejects(() => client.call("databases", {}), TaskdError);
  assertEquals([error.code, error.message], ["overloaded", "Cannot serve more than 1 connections"]);
  assertEquals((await assertRejects(() => client.call("databases", {}), TaskdError)).code, "daemon_unreachable");
  assertEquals((await assertRejects(() => subscribe(server.path).next(), TaskdError)).code, "overloaded");
});

Deno.test("the client keeps codes and order, and a broken connection fails what waits", async () => {
  const gate = Promise.withResolvers<never>();
  const reached = Promise.withResolvers<void>();
  await using server = await testServer({
    databases,
    lease: () => Promise.reject(new TaskdError("not_found", "Cannot find app", { hint: "create it" })),
    flush: () => (reached.resolve(), gate.promise),
  });
  using client = await connect(server.path);
  const [listed, failed] = await Promise.allSettled([
    client.call("databases", {}),
    client.call("lease", { db: "app" }),
  ]);
  assertEquals(listed, { status: "fulfilled", value: { databases: [{ db: "app", branches: 1 }] } });
  assert(failed.status === "rejected" && failed.reason instanceof TaskdError);
  assertEquals([failed.reason.code, failed.reason.hint], ["not_found", "create it"]);
  const waiting = client.call("flush", { db: "app" });
  await reached.promise;
  server.connections.close();
  assertEquals((await assertRejects(() => waiting, TaskdError)).code, "daemon_unreachable");
  assertEquals((await assertRejects(() => client.call("databases", {}), TaskdError)).code, "daemon_unreachable");
  gate.reject(new Error("over"));
});

longTest("an answer over the client's bound is too_large", async () => {
  const path = `${await Deno.makeTempDir()}/s.sock`;
  using listener = Deno.listen({ transport: "unix", path });
  const serving = listener.accept().then(async (conn) => {
    using _conn = conn;
    const chunk = new Uint8Array(1 << 20).fill(0x20);
    for (;;) await writeAll(conn, chunk);
  });
  serving.catch(() => {});
  using client = await connect(path);
  assertEquals((await assertRejects(() => client.call("databases", {}), TaskdError)).code, "too_large");
  await serving.catch(() => {});
  await Deno.remove(path.slice(0, -7), { recursive: true });
});

Deno.test("without a daemon the client's error has the command that starts one", async () => {
  const directory = await Deno.makeTempDir();
  const error = await assertRejects(() => connect(`${directory}/none.sock`), TaskdError);
  assertEquals([error.code, error.hint], ["daemon_unreachable", "Start it with: taskd serve"]);
  await Deno.remove(directory);
});

Deno.test("a request for progress gets how far the work is, and signs of life where that is not known", async () => {
  const clock = new VirtualClock();
  const done = Promise.withResolvers<{ databases: [] }>();
  let report: OnProgress | undefined;
  await using server = await testServer({
    databases: (_args, long) => {
      report = long?.onProgress;
      return done.promise;
    },
  }, { clock });
  using client = await RawClient.connect(server.path);
  await client.send('{"op":"databases","progress":true,"id":"a"}\n');
  await clock.sleeper(250);
  await elapse(clock, 4_999);
  report!(5, undefined);
  report!(7, 9);
  await elapse(clock, 251);
  assertEquals(await client.next(), { progress: { done_bytes: 7, total_bytes: 9 }, id: "a" });
  await elapse(clock, 5_250);
  assertEquals(await client.next(), { progress: {}, id: "a" });
  done.resolve({ databases: [] });
  assertEquals(await client.next(), { ok: true, id: "a", databases: [] });
  assertEquals((await client.ask('{"op":"databases","progress":1}')).code, "invalid_request");
});

Deno.test("work ends early when the client that asked for progress leaves, and goes on for another", async () => {
  const seen: string[] = [];
  const ended = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  await using server = await testServer({
    lease: async ({ db }, long) => {
      if (db === "left") await new Promise<void>((resolve) => long!.signal!.addEventListener("abort", () => resolve()));
      else await release.promise;
      seen.push(`${db} ${long?.signal?.aborted ?? "cannot end early"}`);
      if (seen.length === 2) ended.resolve();
      return { db, branch: "main", epoch: 1, live: false };
    },
  });
  const plain = await RawClient.connect(server.path);
  await plain.send('{"op":"lease","db":"plain"}\n');
  const client = await RawClient.connect(server.path);
  await client.send('{"op":"lease","db":"left","progress":true}\n');
  plain.conn.close();
  client.conn.close();
  while (seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  release.resolve();
  await ended.promise;
  assertEquals(seen, ["left true", "plain cannot end early"]);
});

Deno.test("requests that follow one with progress are answered in order, however they are sent", async () => {
  await using server = await testServer({ databases });
  using client = await RawClient.connect(server.path);
  const line = (id: number) =>
    `{"op":"databases","id":${id},"progress":${id % 2 === 0},"pad":"${"x".repeat(9_000)}"}\n`;
  const sending = client.send(Array.from({ length: 40 }, (_, id) => line(id).replace(/,"pad":"x+"/, "")).join(""));
  for (let id = 0; id < 40; id++) assertEquals((await client.next()).id, id);
  await sending;
  for (let id = 0; id < 10; id++) {
    // A line of more than one buffer, in pieces.
    const [head, tail] = [line(id).slice(0, 5_000), line(id).slice(5_000)];
    await client.send(head);
    await client.send(tail);
    const { code, id: echoed } = await client.next();
    assertEquals([code, echoed], ["invalid_request", id]);
  }
});

Deno.test("a client reports a daemon that owes an answer and is silent, not one idle or at work", async () => {
  const clock = new VirtualClock();
  const directory = await Deno.makeTempDir();
  const path = `${directory}/s.sock`;
  using listener = Deno.listen({ transport: "unix", path });
  try {
    const client = await connect(path, { clock, silence_ms: 1_000 });
    using peer = await listener.accept();
    await elapse(clock, 60_000);
    const progress: unknown[] = [];
    const call = client.call("databases", {}, (...numbers) => void progress.push(numbers));
    for (let turn = 0; turn < 3; turn++) {
      await elapse(clock, 900);
      await writeAll(peer, new TextEncoder().encode('{"progress":{"done_bytes":1}}\n'));
      while (progress.length <= turn) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assertEquals(progress[2], [1, undefined]);
    const failed = assertRejects(() => call, TaskdError, "has been silent for 1 seconds");
    await elapse(clock, 1_500);
    assertEquals((await failed).code, "daemon_unreachable");
    await assertRejects(() => client.call("databases", {}), TaskdError);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

/** Lets time pass in steps, so that each sleeper begins the next of its sleeps. */
async function elapse(clock: VirtualClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 250) {
    await clock.advance(Math.min(250, left));
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}
