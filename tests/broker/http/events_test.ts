import { assert, assertEquals, assertRejects } from "@std/assert";
import { BrokerClient, type StreamedEvent } from "../../../broker/client/client.ts";
import { taskEvents } from "../../../broker/http/event_stream.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { tracePath } from "../../../broker/task/trace.ts";
import type { Task } from "../../../broker/task/task.ts";
import { VirtualClock } from "../../support/clock.ts";
import { APPROVED, SHA } from "../task/lives.ts";
import { ownBytes } from "../../support/memory.ts";
import { headerOf } from "../../support/raw_http.ts";
import { type TestBroker, verdictOf, withBroker } from "./_broker.ts";
import { spendOf } from "./small_engine.ts";
import { longTest, scaled, scaledTest } from "../../support/long.ts";

async function denied(task: Task): Promise<void> {
  await task.move({ from: "running", to: "done", outcome: "cancelled", reason: "r" });
}

/** Event names with their ids, as a subscriber gets them. */
function shape(events: readonly StreamedEvent[]): string[] {
  return events.map(({ event, id }) => id === undefined ? event : `${id} ${event}`);
}

Deno.test("every row with content is one event with its number, and the result is the last", () =>
  withBroker(async (broker) => {
    const task = await broker.taskAtGate();
    const pushed = { branch: "agent/1", commit: "c0ffee", pull_request: "https://example.com/pr/1" };
    await task.append({ type: "evidence", name: "image", value: { digest: "d" } });
    await task.append({ type: "spend", spend: spendOf(5) });
    await task.append({ type: "claimed", usd: 99 });
    await task.move(APPROVED);
    await task.append({ type: "push_attempt", remote: "https://example.com/o/r", branch: "agent/1", commit: "c0ffee" });
    await task.move({ from: "pushing", to: "awaiting_ci", pushed });
    await task.append({ type: "ci", state: "passed", detail: "3 checks" });
    await task.append({ type: "note", text: "reported" });
    await task.move({ from: "awaiting_ci", to: "done", outcome: "pushed", reason: "it is there", pushed });
    const events = await Array.fromAsync(broker.client.events(task.id));
    assertEquals(shape(events), [
      "1 stage",
      "2 stage",
      "3 stage",
      "4 stage",
      "5 stage",
      "6 evidence",
      "7 spend",
      "9 stage",
      "10 note",
      "11 stage",
      "12 ci",
      "13 note",
      "14 result",
    ]);
    const data = events.map(({ data }) => ({ ...data, ts: "" }));
    assertEquals(data[4], {
      ts: "",
      stage: "awaiting_approval",
      gate: { diff_sha256: SHA, second_look: ["ci_files", "lockfile"], timeout_ms: 60_000 },
    });
    assertEquals(data[6], { ...spendOf(5), ts: "", live: false });
    assertEquals(data[10], { ts: "", state: "passed", detail: "3 checks" });
    assertEquals(data.at(-1), { ts: "", outcome: "pushed", reason: "it is there", pushed });
  }));

Deno.test("Last-Event-ID resumes after any event; after the result the answer is 204", () =>
  withBroker(async (broker) => {
    const task = await broker.runningTask();
    for (let n = 0; n < 40; n++) await task.append({ type: "output", channel: "stdout", text: `${n}` });
    await denied(task);
    const all = await Array.fromAsync(broker.client.events(task.id));
    for (const [at, { id }] of all.entries()) {
      assertEquals(await Array.fromAsync(broker.client.events(task.id, { after: id! })), all.slice(at + 1));
    }
    const { seq } = task.record;
    const last = await broker.ask(`GET /tasks/${task.id}/events`, [`Last-Event-ID: ${seq}`]);
    assertEquals([last.status, last.body], [204, ""]);
    for (const id of ["x", "-1", "1.5", "9".repeat(40)]) {
      const answer = await broker.ask(`GET /tasks/${task.id}/events`, [`Last-Event-ID: ${id}`]);
      assertEquals(verdictOf(answer), [400, "invalid_request"], id);
    }
  }));

Deno.test("on the wire: an id, a name, one line of data that cannot act on a terminal, an empty line", () =>
  withBroker(async (broker) => {
    const task = await broker.runningTask();
    await task.append({ type: "output", channel: "stdout", text: "a\nb\u001b[2J\u202e" });
    using raw = await broker.connect();
    await raw.request(`GET /tasks/${task.id}/events`, ["Last-Event-ID: 3"]);
    const head = await raw.until("\r\n\r\n");
    assertEquals(headerOf({ status: 200, head, body: "" }, "content-type"), "text/event-stream");
    assertEquals(headerOf({ status: 200, head, body: "" }, "content-encoding"), undefined);
    await raw.until("retry: 1000\n\n");
    const event = await raw.until("\n\n");
    const { ts } = JSON.parse(/data: (.*)/.exec(event)![1]!);
    const data = `{"ts":"${ts}","channel":"stdout","text":"a\\nb\\u001b[2J\\u202e"}`;
    assert(event.endsWith(`id: 4\nevent: output\ndata: ${data}\n\n`), event);
  }));

Deno.test("live spend comes in between, the latest only, without an id", () =>
  withBroker(async (broker) => {
    const { engine, client } = broker;
    const task = await broker.runningTask();
    engine.live.set(task.id, spendOf(1));
    const events = client.events(task.id);
    const seen: StreamedEvent[] = [];
    for (let n = 0; n < 4; n++) seen.push((await events.next()).value!);
    assertEquals(shape(seen).toSorted(), ["1 stage", "2 stage", "3 stage", "spend"]);
    engine.spend("f".repeat(32), spendOf(50));
    engine.spend(task.id, spendOf(2));
    const next = (await events.next()).value!;
    assertEquals([next.event, next.data], ["spend", { ...spendOf(2), ts: next.data.ts, live: true }]);
    await events.return();
  }));

Deno.test("an idle stream pings every 15 s, and once for a reader that was away", async () => {
  const clock = new VirtualClock();
  await withBroker(async (broker) => {
    const task = await broker.runningTask();
    const ending = new AbortController();
    const options = { engine: broker.engine, clock, after_seq: task.record.seq, signal: ending.signal };
    const events = taskEvents(task.id, options);
    const text = async () => new TextDecoder().decode((await events.next()).value!);
    assertEquals(await text(), "retry: 1000\n\n");
    for (let n = 0; n < 3; n++) {
      const next = text();
      clock.advance(14_999);
      clock.advance(1);
      assertEquals(await next, ": ping\n\n");
    }
    for (let n = 0; n < 5; n++) {
      clock.advance(15_000);
      await Promise.resolve();
    }
    assertEquals(await text(), ": ping\n\n");
    const row = text();
    await task.append({ type: "note", text: "n" });
    assert((await row).includes("event: note"));
    ending.abort();
    assertEquals(await events.next(), { done: true, value: undefined });
    assertEquals(clock.sleepers, 0);
  });
});

Deno.test("a client that goes away leaves nothing behind; others are served on", () =>
  withBroker(async (broker) => {
    const { engine, client } = broker;
    const task = await broker.runningTask();
    const staying = client.events(task.id, { after: 3 });
    const first = staying.next();
    for (const port of [undefined, broker.port]) {
      using raw = await broker.connect(port);
      await raw.request(`GET /tasks/${task.id}/events`, port === undefined ? [] : [`Host: 127.0.0.1:${port}`]);
      await raw.until("id: 3");
    }
    while (engine.listeners.size > 1) await broker.client.health();
    await task.append({ type: "note", text: "still here" });
    assertEquals((await first).value?.event, "note");
    await staying.return();
    while (engine.listeners.size > 0) await broker.client.health();
  }, { addr: "127.0.0.1:0" }));

scaledTest("all subscribers see the same events in the same order", () =>
  withBroker(async (broker) => {
    const length = scaled({ short: 100, long: 1_000 });
    const task = await broker.runningTask();
    const subscribers = Array.from({ length }, async () => {
      const seen: string[] = [];
      for await (const { id, event } of broker.client.events(task.id)) seen.push(`${id} ${event}`);
      return seen.join();
    });
    while (broker.engine.listeners.size < length) await broker.client.health();
    for (let n = 0; n < 3; n++) await task.append({ type: "output", channel: "stdout", text: `${n}` });
    await denied(task);
    const seen = new Set(await Promise.all(subscribers));
    assertEquals([...seen], ["1 stage,2 stage,3 stage,4 output,5 output,6 output,7 result"]);
  }));

longTest(
  "a subscriber that never reads costs bounded memory, is closed, and delays no other",
  () =>
    withBroker(async (broker) => {
      const { engine } = broker;
      const task = await broker.runningTask();
      const stalled = await Promise.all(Array.from({ length: 20 }, async (_, n) => {
        const raw = await broker.connect(n % 2 === 0 ? undefined : broker.port);
        await raw.request(`GET /tasks/${task.id}/events`, n % 2 === 0 ? [] : [`Host: 127.0.0.1:${broker.port}`]);
        return raw;
      }));
      while (engine.listeners.size < 20) await broker.client.health();
      const before = ownBytes();
      let most = 0;
      // 48 MB, far more than the buffers on the way hold: 20 readers would cost a gigabyte if it were kept for them.
      const text = "x".repeat(16_000);
      for (let n = 0; n < 30; n++) {
        await Promise.all(Array.from({ length: 100 }, () => task.append({ type: "output", channel: "stdout", text })));
        most = Math.max(most, ownBytes() - before);
      }
      const { seq } = task.record;
      await denied(task);
      const rest = await Array.fromAsync(broker.client.events(task.id, { after: seq - 1 }));
      assertEquals(shape(rest), [`${seq} output`, `${seq + 1} result`]);
      while (engine.listeners.size > 0) await broker.client.health();
      // Garbage is among them: how much depends on how fast the machine is.
      assert(most < 400e6, `${most} more bytes`);
      for (const raw of stalled) raw[Symbol.dispose]();
    }, { addr: "127.0.0.1:0", timeouts: { stalled_write_ms: 500 } }),
);

Deno.test("a damaged trace is an error; damage during a stream ends it with that error", () =>
  withBroker(async (broker) => {
    const task = await broker.runningTask();
    for (let n = 0; n < 50; n++) await task.append({ type: "output", channel: "stdout", text: `${n}` });
    const path = tracePath(broker.engine.tasks.audit_root, task.id);
    const bytes = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, bytes.replace('"text":"45"', '"text":"xx"'));
    const seen: number[] = [];
    const error = await assertRejects(async () => {
      for await (const { id } of broker.client.events(task.id)) seen.push(id!);
    }, TaskdError);
    assertEquals(error.code, "corrupt");
    // Rows are read in pieces; none of one that is damaged is believed.
    assertEquals(seen, Array.from({ length: seen.length }, (_, n) => n + 1));
    assert(seen.length < 49);
    await broker.engine.tasks.release(task.id);
    assertEquals(verdictOf(await broker.ask(`GET /tasks/${task.id}/events`)), [500, "corrupt"]);
  }));

Deno.test("the client resumes a broken stream after its last event, without gap or repeat", () =>
  withBroker(async (broker) => {
    const task = await broker.runningTask();
    using proxy = new BreakingProxy(broker, 700);
    const client = new BrokerClient({ addr: proxy.addr });
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { id } of client.events(task.id)) if (id !== undefined) seen.push(id);
    })();
    for (let n = 0; n < 60; n++) await task.append({ type: "output", channel: "stdout", text: `line ${n}` });
    await denied(task);
    await reading;
    assertEquals(seen, Array.from({ length: 64 }, (_, n) => n + 1));
    assert(proxy.broken > 3, `${proxy.broken} streams were broken off`);
  }));

/** Passes connections on to the broker's socket and breaks each off after so many bytes of its answer. */
class BreakingProxy implements Disposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #broker: TestBroker;
  readonly #max_bytes: number;
  broken = 0;

  constructor(broker: TestBroker, max_bytes: number) {
    this.#broker = broker;
    this.#max_bytes = max_bytes;
    void this.#accept();
  }

  /** A name that the socket answers to. */
  get addr(): string {
    return `127.0.0.1:${this.#listener.addr.port}`;
  }

  async #accept(): Promise<void> {
    for await (const client of this.#listener) void this.#pass(client);
  }

  async #pass(client: Deno.TcpConn): Promise<void> {
    const { conn: server } = await this.#broker.connect();
    const up = client.readable.pipeTo(server.writable).catch(() => {});
    const buffer = new Uint8Array(64);
    let passed = 0;
    for (;;) {
      const count = await server.read(buffer).catch(() => null);
      if (count === null) break;
      passed += count;
      if (passed > this.#max_bytes + 500) {
        this.broken++;
        break;
      }
      await client.write(buffer.subarray(0, count)).catch(() => {});
    }
    for (const side of [client, server]) {
      try {
        side.close();
      } catch {
        // It had ended already.
      }
    }
    await up;
  }

  [Symbol.dispose](): void {
    this.#listener.close();
  }
}
