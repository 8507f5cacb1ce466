import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BrokerClient } from "../../../broker/client/client.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { withBroker } from "./_broker.ts";
import { VirtualClock } from "../../support/clock.ts";
import { longTest } from "../../support/long.ts";

const ORDER = { repo: "https://example.com/o/r.git", instruction: "Fix the test" };

/** Something else than a broker on a port. */
async function withStranger(
  answer: (request: Request) => Response | Promise<Response>,
  test: (client: BrokerClient) => Promise<void>,
): Promise<void> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, answer);
  try {
    await test(new BrokerClient({ addr: `127.0.0.1:${server.addr.port}` }));
  } finally {
    await server.shutdown();
  }
}

async function failure(call: Promise<unknown>): Promise<TaskdError> {
  return await assertRejects(() => call, TaskdError);
}

// conformance: b5.addr
Deno.test("the client asks over TCP as over the socket", () =>
  withBroker(async (broker) => {
    const client = new BrokerClient({ addr: broker.http.addr! });
    const { id } = await client.submit(ORDER);
    assertEquals((await client.task(id)).id, id);
    assertEquals(await client.pending(), []);
    assertEquals((await failure(client.uiUrl())).code, "denied");
  }, { addr: "127.0.0.1:0" }));

Deno.test("over the socket the client needs the socket and nothing else", () =>
  withBroker(async (broker) => {
    const { socket } = broker.http;
    const module = new URL("../../../broker/client/client.ts", import.meta.url).href;
    const code = `import { BrokerClient } from ${JSON.stringify(module)};
      const client = new BrokerClient({ socket: ${JSON.stringify(socket)} });
      const { id } = await client.submit(${JSON.stringify(ORDER)});
      for await (const { event } of client.events(id)) { console.log(event); break; }`;
    const script = `${broker.root}/ask.ts`;
    await Deno.writeTextFile(script, code);
    const { code: status, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        `--config=${new URL("../../../deno.json", import.meta.url).pathname}`,
        `--allow-read=${socket}`,
        `--allow-write=${socket}`,
        `--allow-net=unix:${socket}`,
        "--allow-sys=uid",
        script,
      ],
    }).output();
    assertEquals([status, new TextDecoder().decode(stdout)], [0, "stage\n"], new TextDecoder().decode(stderr));
  }));

Deno.test("an answer of another form is not believed, and says that another version may be running", () =>
  withStranger((request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/healthz") return Response.json({ ok: "yes" });
    if (pathname === "/admin/policy") return Response.json({ fields: 1 });
    if (pathname === "/tasks") return new Response("<html>", { headers: { "content-type": "text/html" } });
    return new Response("gateway", { status: 502 });
  }, async (client) => {
    const calls = [() => client.health(), () => client.policy(), () => client.tasks(), () => client.queue()];
    for (const call of calls) {
      const error = await failure(call());
      assertEquals(error.code, "broker_unreachable");
      assertStringIncludes(error.hint ?? "", "taskd start");
    }
  }));

Deno.test("unknown fields and events are left out, and an unknown code is internal", () =>
  withStranger((request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/queue") return Response.json({ items: [], later: true });
    if (pathname.endsWith("/events")) {
      return new Response(
        'id: 1\nevent: novelty\ndata: {"ts":"2026-01-01T00:00:00.000Z"}\n\n: comment\n\nid: 2\nevent: result\n' +
          'data: {"ts":"2026-01-01T00:00:00.000Z","outcome":"denied","reason":"no","mood":"bad"}\n\n',
      );
    }
    return Response.json({ detail: "Cannot do it", code: "of_the_future" }, { status: 418 });
  }, async (client) => {
    assertEquals(await client.queue(), []);
    assertEquals(await Array.fromAsync(client.events("aa")), [
      { event: "result", data: { ts: "2026-01-01T00:00:00.000Z", outcome: "denied", reason: "no" }, id: 2 },
    ]);
    const error = await failure(client.health());
    assertEquals([error.code, error.message], ["internal", "Cannot do it"]);
  }));

longTest("an answer without an end is not held: it fails at its bound", () => {
  const line = new Uint8Array(1 << 20).fill(0x78);
  return withStranger(
    (request) =>
      new Response(
        new ReadableStream({
          pull: (controller) => {
            if (request.signal.aborted) controller.close();
            else controller.enqueue(line);
          },
        }),
      ),
    async (client) => {
      assertEquals((await failure(client.health())).code, "broker_unreachable");
      assertEquals((await failure(Array.fromAsync(client.events("aa")))).code, "broker_unreachable");
    },
  );
});

Deno.test("a stream of events that always ends without a result fails with broker_unreachable", () =>
  withStranger(() => new Response(": nothing\n\n"), async (client) => {
    assertEquals((await failure(Array.fromAsync(client.events("aa")))).code, "broker_unreachable");
  }));

Deno.test("a signal ends a call, a stream and a log that wait, with interrupted", () =>
  withBroker(async (broker) => {
    const task = await broker.runningTask();
    const held = Promise.withResolvers<void>();
    broker.engine.held = held.promise;
    const stop = new AbortController();
    const client = new BrokerClient({ socket: broker.http.socket }, { signal: stop.signal });
    const events = client.events(task.id, { after: 2 });
    assertEquals((await events.next()).value?.id, 3);
    const waiting = [
      failure(client.submit(ORDER)),
      failure(events.next()),
      failure(client.log(task.id, { follow: true }).next()),
    ];
    while (broker.engine.asked.length === 0) await broker.client.queue();
    stop.abort();
    for (const { code } of await Promise.all(waiting)) assertEquals(code, "interrupted");
    assertEquals((await failure(client.health())).code, "interrupted");
    held.resolve();
    // The task was submitted all the same.
    while (broker.engine.tasks.size < 2) await broker.client.health();
    assertEquals(broker.log, []);
  }));

Deno.test("a request to a broker that does not answer fails after the deadline", () => {
  const clock = new VirtualClock();
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<Response>();
  return withStranger(() => {
    asked.resolve();
    return answer.promise;
  }, async ({ place }) => {
    const waiting = failure(new BrokerClient(place, { clock, head_deadline_ms: 5_000 }).health());
    await asked.promise;
    clock.advance(5_000);
    assertEquals((await waiting).code, "unavailable");
    answer.resolve(new Response());
    assert(clock.sleepers === 0);
  });
});
