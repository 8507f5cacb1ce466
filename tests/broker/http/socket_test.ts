import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { withDeadline } from "../../../lib/deadline.ts";
import { nextTurn, systemClock } from "../../../lib/clock.ts";
import { serveHttp } from "../../../broker/http/serve.ts";
import { VirtualClock } from "../../support/clock.ts";
import type { RawHttp } from "../../support/raw_http.ts";
import { TestBroker, verdictOf, withBroker } from "./_broker.ts";

async function withRoot(test: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await test(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

async function stop(broker: TestBroker): Promise<void> {
  await broker.http.close();
  await broker.engine.tasks.close();
}

function modeOf(path: string): number {
  return Deno.lstatSync(path).mode! & 0o777;
}

// conformance: b8.modes b5.admin b2.effect.broker.socket
Deno.test("the socket is 0600 in a folder that is 0700, and gone at the end", () =>
  withRoot(async (root) => {
    const broker = await TestBroker.start(root, {});
    assertEquals([modeOf(`${root}/run`), modeOf(`${root}/run/taskd.sock`)], [0o700, 0o600]);
    await stop(broker);
    assertEquals([...Deno.readDirSync(`${root}/run`)], []);
  }));

Deno.test("a folder that others can enter is refused and left as it is", () =>
  withRoot(async (root) => {
    for (const mode of [0o755, 0o770, 0o701, 0o1777]) {
      Deno.mkdirSync(`${root}/run`);
      Deno.chmodSync(`${root}/run`, mode);
      const error = await assertRejects(() => TestBroker.start(root, {}), TaskdError);
      assertEquals(error.code, "denied");
      assertStringIncludes(error.message, "can be entered by others");
      assertEquals(Deno.statSync(`${root}/run`).mode! & 0o1777, mode);
      Deno.removeSync(`${root}/run`);
    }
    Deno.mkdirSync(`${root}/real`, { mode: 0o700 });
    Deno.symlinkSync(`${root}/real`, `${root}/run`);
    assertEquals((await assertRejects(() => TestBroker.start(root, {}), TaskdError)).code, "denied");
  }));

Deno.test({
  name: "a folder of another user is refused: its owner can put another socket there" +
    (Deno.uid() === 0 ? "" : ": ignored, only root can make one"),
  ignore: Deno.uid() !== 0,
  fn: () =>
    withRoot(async (root) => {
      Deno.mkdirSync(`${root}/run`, { mode: 0o700 });
      Deno.chownSync(`${root}/run`, 65_534, 65_534);
      const error = await assertRejects(() => TestBroker.start(root, {}), TaskdError);
      assertStringIncludes(error.message, "belongs to another user");
    }),
});

Deno.test("a live broker's socket is refused with broker_running, and it goes on", () =>
  withBroker(async (broker) => {
    const tokens = `${broker.root}/api-tokens.json`;
    const options = { engine: broker.engine, socket: broker.http.socket, tokens, log: () => {} };
    const error = await assertRejects(() => serveHttp(options), TaskdError);
    assertEquals(error.code, "broker_running");
    assertStringIncludes(error.hint ?? "", "BROKER_SOCKET");
    assertEquals((await broker.client.health()).ok, true);
  }));

Deno.test("a socket that a killed broker has left is replaced", () =>
  withRoot(async (root) => {
    const path = `${root}/run/taskd.sock`;
    Deno.mkdirSync(`${root}/run`, { mode: 0o700 });
    const bind = `Deno.listen({transport:"unix",path:${JSON.stringify(path)}});Deno.kill(Deno.pid,"SIGKILL")`;
    await new Deno.Command(Deno.execPath(), { args: ["eval", bind] }).output();
    assert(Deno.lstatSync(path).isSocket);
    const broker = await TestBroker.start(root, {});
    assertEquals((await broker.client.health()).ok, true);
    assertEquals(modeOf(path), 0o600);
    await stop(broker);
  }));

Deno.test("a file in the socket's place, and an invalid path, are refused", () =>
  withRoot(async (root) => {
    Deno.mkdirSync(`${root}/run`, { mode: 0o700 });
    Deno.writeTextFileSync(`${root}/run/taskd.sock`, "precious");
    assertEquals((await assertRejects(() => TestBroker.start(root, {}), TaskdError)).code, "already_exists");
    assertEquals(Deno.readTextFileSync(`${root}/run/taskd.sock`), "precious");
    await withBroker(async ({ engine }) => {
      for (const socket of ["relative.sock", `${root}/real/${"x".repeat(120)}`]) {
        const error = await assertRejects(
          () => serveHttp({ engine, socket, tokens: `${root}/t.json`, log: () => {} }),
          TaskdError,
        );
        assertEquals(error.code, "usage");
      }
    });
  }));

/** Resolves when `raw` was ended by the other side; fails when that takes absurdly long. */
function endedInTime(raw: RawHttp): Promise<void> {
  return withDeadline(raw.ended(), systemClock, 20_000);
}

Deno.test("slow heads, slow bodies and silent connections are closed on the socket and TCP", () =>
  withBroker(async (broker) => {
    const trickle = async (raw: RawHttp, start: string) => {
      await raw.send(start);
      let over = false;
      const ended = endedInTime(raw).finally(() => over = true);
      // A byte now and then does not buy more time.
      while (!over) {
        await raw.send("x").catch(() => {});
        await systemClock.sleep(50);
      }
      await ended;
    };
    const attacks = [
      (raw: RawHttp) => trickle(raw, "GET /healthz HTTP/1.1\r\nX-Slow: "),
      (raw: RawHttp) => trickle(raw, "POST /tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"),
      (raw: RawHttp) => endedInTime(raw),
      async (raw: RawHttp) => {
        await raw.request("GET /healthz", [`Host: 127.0.0.1:${broker.port}`]);
        await raw.response();
        await endedInTime(raw);
      },
    ];
    await Promise.all([undefined, broker.port].flatMap((port) =>
      attacks.map(async (attack) => {
        using raw = await broker.connect(port);
        await attack(raw);
      })
    ));
    // The deadlines are the client's, too: on a machine with much to do it may be late.
    while ((await broker.client.health().catch(() => undefined))?.ok !== true);
  }, { addr: "127.0.0.1:0", timeouts: { read_header_ms: 400, read_ms: 700, idle_ms: 600 } }));

Deno.test("a stream of events outlives the deadlines of a plain answer", () =>
  withBroker(async (broker) => {
    const task = await broker.runningTask();
    const events = broker.client.events(task.id, { after: 3 });
    const next = events.next();
    {
      using idle = await broker.connect();
      await idle.request("GET /healthz");
      await idle.response();
      // It began with the stream and its deadline is the longer one.
      await endedInTime(idle);
    }
    await task.append({ type: "note", text: "still here" });
    assertEquals((await next).value?.id, 4);
    await events.return();
  }, { timeouts: { write_ms: 300, idle_ms: 900 } }));

Deno.test("what is no HTTP, or a head larger than any need be, does not reach the broker", () =>
  withBroker(async (broker) => {
    for (
      const text of [
        `GET /healthz HTTP/1.1\r\nX: ${"x".repeat(2 << 20)}\r\n\r\n`,
        `GET /healthz HTTP/1.1\r\n${"X: y\r\n".repeat(10_000)}\r\n`,
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "POST /tasks HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n0\r\n\r\n",
        "\0".repeat(1_000),
        '{"op":"shutdown"}\n',
      ]
    ) {
      using raw = await broker.connect();
      await raw.send(text).catch(() => {});
      await (raw.conn as Deno.UnixConn).closeWrite().catch(() => {});
      await endedInTime(raw);
    }
    assertEquals(broker.engine.asked, []);
    assertEquals(broker.log, []);
    assertEquals((await broker.client.health()).ok, true);
  }));

Deno.test("the end closes streams at once, answers what is under way, and takes no new connection", () =>
  withRoot(async (root) => {
    const broker = await TestBroker.start(root, { addr: "127.0.0.1:0" });
    const { engine, port } = broker;
    const task = await broker.runningTask();
    using stream = await broker.connect(port);
    await stream.request(`GET /tasks/${task.id}/events`, [`Host: 127.0.0.1:${port}`]);
    await stream.until("id: 3");
    const held = Promise.withResolvers<void>();
    engine.held = held.promise;
    const submitted = broker.client.submit({ repo: "r", instruction: "i" });
    while (engine.asked.length === 0) await broker.client.queue();
    const closing = broker.http.close();
    await endedInTime(stream);
    held.resolve();
    assertEquals((await submitted).stage, "admission");
    await closing;
    assertEquals((await assertRejects(() => broker.client.health(), TaskdError)).code, "broker_unreachable");
    assertEquals(engine.listeners.size, 0);
    await broker.engine.tasks.close();
  }));

Deno.test("the end waits a minute for a call that does not end, and no longer", () =>
  withRoot(async (root) => {
    const clock = new VirtualClock();
    const broker = await TestBroker.start(root, { clock });
    const { engine } = broker;
    engine.held = new Promise(() => {});
    const submitted = assertRejects(() => broker.client.submit({ repo: "r", instruction: "i" }), TaskdError);
    while (engine.asked.length === 0) await broker.client.queue();
    let closed = false;
    const closing = broker.http.close().then(() => closed = true);
    await clock.sleeper(2_000);
    clock.advance(2_000);
    await submitted;
    await clock.sleeper(60_000);
    clock.advance(59_999);
    await nextTurn();
    assertEquals(closed, false);
    clock.advance(1);
    await closing;
    await engine.tasks.close();
  }));

Deno.test("a subscriber of a broker that is replaced goes on with the next one", () =>
  withRoot(async (root) => {
    const first = await TestBroker.start(root, {});
    const task = await first.runningTask();
    const events = first.client.events(task.id);
    for (let n = 0; n < 3; n++) assertEquals((await events.next()).value?.id, n + 1);
    const next = events.next();
    await first.http.close();
    const { engine } = first;
    const tokens = `${first.root}/api-tokens.json`;
    const http = await serveHttp({ engine, socket: first.http.socket, tokens, log: () => {} });
    await task.append({ type: "note", text: "of the next" });
    assertEquals((await next).value?.id, 4);
    await events.return();
    await http.close();
    await engine.tasks.close();
  }));

Deno.test("a pipelined second request is checked like the first", () =>
  withBroker(async (broker) => {
    const { port } = broker;
    using raw = await broker.connect(port);
    const one = `GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
    await raw.send(`${one}GET /tasks HTTP/1.1\r\nHost: evil.example\r\n\r\n`);
    assertEquals((await raw.response())?.status, 200);
    assertEquals(verdictOf((await raw.response())!), [403, "denied"]);
  }, { addr: "127.0.0.1:0" }));
