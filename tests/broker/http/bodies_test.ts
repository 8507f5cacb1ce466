import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { MAX_BODY_BYTES } from "../../../broker/api/wire.ts";
import { headerOf, type RawAnswer } from "../../support/raw_http.ts";
import { type TestBroker, verdictOf, withBroker } from "./_broker.ts";

const ORDER = { repo: "https://example.com/o/r.git", instruction: "Fix the test" };

function post(broker: TestBroker, body: string, more: string[] = []): Promise<RawAnswer> {
  return broker.ask("POST /tasks", more, { body });
}

async function detailOf(answer: Promise<RawAnswer>): Promise<string> {
  const { status, body } = await answer;
  assertEquals(status, 400);
  const { code, detail, hint = "" } = JSON.parse(body);
  assertEquals(code, "invalid_request");
  return `${detail} ${hint}`;
}

Deno.test("an unknown field is refused and named, with the one that was probably meant", () =>
  withBroker(async (broker) => {
    const detail = await detailOf(post(broker, JSON.stringify({ ...ORDER, sensitve: true })));
    assertStringIncludes(detail, '"sensitve"');
    assertStringIncludes(detail, '"sensitive"');
    for (const field of ["auto_approve", "id", "stage", "__proto__", "constructor", "retry_of"]) {
      const body = `{"repo":"r","instruction":"i",${JSON.stringify(field)}:{}}`;
      assertStringIncludes(await detailOf(post(broker, body)), field);
    }
    assertStringIncludes(
      await detailOf(post(broker, JSON.stringify({ ...ORDER, egress_extra: [{ host: "h", ports: [1], x: 1 }] }))),
      "egress_extra",
    );
    assertEquals(broker.engine.asked, []);
  }));

Deno.test("a key that stands twice is refused, however it is spelled", () =>
  withBroker(async (broker) => {
    for (
      const body of [
        '{"repo":"a","instruction":"i","repo":"b"}',
        '{"repo":"a","instruction":"i","\\u0072epo":"b"}',
        '{"repo":"a","instruction":"i","egress_extra":[{"host":"a","ports":[1],"host":"b"}]}',
      ]
    ) {
      assertStringIncludes(await detailOf(post(broker, body)), "twice");
    }
    assertEquals(broker.engine.asked, []);
  }));

Deno.test("missing and wrong fields are named", () =>
  withBroker(async (broker) => {
    const cases: [object, string][] = [
      [{ instruction: "i" }, '"repo" is missing'],
      [{ repo: "r" }, '"instruction" is missing'],
      [{ ...ORDER, repo: "" }, '"repo" is wrong'],
      [{ ...ORDER, repo: 7 }, '"repo" is wrong'],
      [{ ...ORDER, instruction: "x".repeat(100_001) }, '"instruction" is wrong'],
      [{ ...ORDER, draft: "yes" }, '"draft" is wrong'],
      [{ ...ORDER, egress_extra: [{ host: "h", ports: [65_536] }] }, '"egress_extra.0.ports.0" is wrong'],
      [{ ...ORDER, egress_extra: [{ host: "h", ports: [] }] }, '"egress_extra.0.ports" is wrong'],
      [{ ...ORDER, databases: Array.from({ length: 65 }, () => "d") }, '"databases" is wrong'],
      [{ ...ORDER, agent: null }, '"agent" is wrong'],
    ];
    for (const [body, words] of cases) assertStringIncludes(await detailOf(post(broker, JSON.stringify(body))), words);
  }));

Deno.test("what is no JSON object in UTF-8 is refused, and not quoted", () =>
  withBroker(async (broker) => {
    for (
      const body of [
        "",
        "null",
        "[]",
        '"x"',
        "{",
        '{"repo":"secret-in-a-body"',
        "1",
        "\ufeff{}",
        "{}{}",
        "[".repeat(500),
      ]
    ) {
      const answer = await post(broker, body);
      assertEquals(answer.status, 400, body);
      assert(!answer.body.includes("secret-in-a-body"));
    }
    using raw = await broker.connect();
    await raw.send("POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n");
    await raw.conn.write(new Uint8Array([0x22, 0xff, 0x22]));
    assertEquals(verdictOf((await raw.response())!), [400, "invalid_request"]);
  }));

Deno.test("a body's type must be application/json, and it must come plain", () =>
  withBroker(async (broker) => {
    const body = JSON.stringify(ORDER);
    for (
      const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""]
    ) {
      assertEquals(verdictOf(await post(broker, body, [`Content-Type: ${type}`])), [415, "invalid_request"], type);
    }
    assertEquals(verdictOf(await post(broker, body, ["Content-Encoding: gzip"])), [415, "invalid_request"]);
    for (const type of ["application/json", "Application/JSON; charset=utf-8", 'application/json;charset="UTF-8"']) {
      assertEquals((await post(broker, body, [`Content-Type: ${type}`])).status, 202, type);
    }
  }));

for (const chunked of [false, true]) {
  const how = chunked ? "in chunks" : "with its length";
  Deno.test(`1 MiB + 1 ${how} is 413, and the same connection then answers`, () =>
    withBroker(async (broker) => {
      const text = JSON.stringify({ ...ORDER, model: "" });
      const whole = text.replace('""', JSON.stringify("x".repeat(MAX_BODY_BYTES - text.length)));
      for (const port of [undefined, broker.port]) {
        using raw = await broker.connect(port);
        const host = port === undefined ? [] : [`Host: 127.0.0.1:${port}`];
        const send = async (body: string) => {
          if (!chunked) return await raw.request("POST /tasks", host, body);
          await raw.request("POST /tasks", [...host, "Content-Type: application/json", "Transfer-Encoding: chunked"]);
          for (let at = 0; at < body.length; at += 100_000) {
            const part = body.slice(at, at + 100_000);
            await raw.send(`${part.length.toString(16)}\r\n${part}\r\n`);
          }
          await raw.send("0\r\n\r\n");
        };
        await send(`${whole} `);
        assertEquals(verdictOf((await raw.response())!), [413, "too_large"]);
        // Within the bound it is read; its field is what is wrong with it then.
        await send(whole);
        assertEquals(verdictOf((await raw.response())!), [400, "invalid_request"]);
        await send(JSON.stringify(ORDER));
        assertEquals((await raw.response())!.status, 202);
      }
    }, { addr: "127.0.0.1:0" }));
}

Deno.test("a refused request's body is read away, so that the connection answers the next", () =>
  withBroker(async (broker) => {
    const { port } = broker;
    using raw = await broker.connect(port);
    const body = "x".repeat(300_000);
    for (
      const [line, more, status] of [
        ["POST /tasks", ["Host: evil.example"], 403],
        ["POST /nowhere", [], 404],
        ["PUT /tasks", [], 405],
        ["POST /tasks/ff/retry", [], 404],
      ] as const
    ) {
      await raw.request(line, more.length === 0 ? [`Host: 127.0.0.1:${port}`] : [...more], body);
      assertEquals((await raw.response())!.status, status, line);
    }
  }, { addr: "127.0.0.1:0" }));

Deno.test("100 MB without an end are not read: the answer comes, then the connection ends", () =>
  withBroker(async (broker) => {
    for (const port of [undefined, broker.port]) {
      using raw = await broker.connect(port);
      const host = port === undefined ? [] : [`Host: 127.0.0.1:${port}`];
      await raw.request("POST /tasks", [...host, "Content-Type: application/json", "Content-Length: 100000000"]);
      let sent = 0;
      const part = "[".repeat(1 << 16);
      const sending = (async () => {
        for (; sent < 100_000_000; sent += part.length) await raw.send(part);
      })().catch(() => {});
      assertEquals(verdictOf((await raw.response())!), [413, "too_large"]);
      await raw.ended();
      await sending;
      assert(sent < 50_000_000, `${sent} bytes were taken`);
    }
  }, { addr: "127.0.0.1:0" }));

Deno.test("a body that does not arrive in time is 408, and its connection ends", () =>
  withBroker(async (broker) => {
    using raw = await broker.connect();
    await raw.request("POST /tasks", ["Content-Type: application/json", "Content-Length: 100"]);
    await raw.send('{"repo":');
    const answer = await raw.response();
    assertEquals(verdictOf(answer!), [408, "timed_out"]);
    await raw.ended();
    assertEquals(broker.engine.asked, []);
    // The body has four fifths of it; the rest must do for saying so, also on a machine with much to do.
  }, { timeouts: { read_ms: 3_000 } }));

Deno.test("after the body an answer has its own deadline, which ends the connection", () =>
  withBroker(async (broker) => {
    const late = Promise.withResolvers<void>();
    broker.engine.held = late.promise;
    using half = await broker.connect();
    await half.request("POST /tasks", ["Content-Type: application/json", "Content-Length: 100"]);
    using whole = await broker.connect();
    await whole.request("POST /tasks", [], JSON.stringify({ repo: "example.com/o/r", instruction: "Fix it" }));
    const first = await Promise.race([half.ended().then(() => "half"), whole.ended().then(() => "whole")]);
    late.resolve();
    assertEquals([first, broker.engine.asked.length], ["whole", 1]);
  }, { timeouts: { read_ms: 10_000, write_ms: 300 } }));

Deno.test("half a body submits nothing", () =>
  withBroker(async (broker) => {
    {
      using raw = await broker.connect();
      await raw.request("POST /tasks", ["Content-Type: application/json", "Content-Length: 1000"]);
      await raw.send(JSON.stringify(ORDER));
    }
    assertEquals((await broker.ask("GET /healthz")).status, 200);
    assertEquals(broker.engine.asked, [["health"]]);
    assertEquals(broker.log, []);
  }));

Deno.test("a task survives its client, who was gone before the answer", () =>
  withBroker(async (broker) => {
    const held = Promise.withResolvers<void>();
    const created = Promise.withResolvers<string>();
    broker.engine.held = held.promise;
    broker.engine.tasks.onChange(({ record }) => created.resolve(record.id));
    {
      using raw = await broker.connect();
      await raw.request("POST /tasks", [], JSON.stringify(ORDER));
      // The request has been read by the time that another one is answered.
      while (broker.engine.asked.length === 0) await broker.ask("GET /queue");
    }
    held.resolve();
    assertEquals((await broker.client.task(await created.promise)).repo, ORDER.repo);
    assertEquals(broker.log, []);
  }));

Deno.test("a Retry-After stands where trying again can help, and nowhere else", () =>
  withBroker(async (broker) => {
    assertEquals(headerOf(await post(broker, "{}"), "retry-after"), undefined);
  }));
