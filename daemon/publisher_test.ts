import { assert, assertEquals } from "@std/assert";
import fc from "../tests/packages/fast_check.ts";
import type { Clock } from "../lib/clock.ts";
import { type EventSink, Publisher, SUBSCRIBER_BUFFER_EVENTS, WRITE_DEADLINE_MS } from "./publisher.ts";

/** Time that moves only when a test moves it. */
class VirtualClock implements Clock {
  #now_ms = 0;
  #sleepers: { at_ms: number; wake: () => void }[] = [];
  now = () => this.#now_ms;
  monotonic = () => this.#now_ms;
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const sleeper = { at_ms: this.#now_ms + ms, wake: resolve };
    this.#sleepers.push(sleeper);
    signal?.addEventListener("abort", () => {
      this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
      reject(signal.reason);
    }, { once: true });
    return promise;
  }
  async advance(ms: number): Promise<void> {
    this.#now_ms += ms;
    for (const sleeper of this.#sleepers.filter((one) => one.at_ms <= this.#now_ms)) sleeper.wake();
    await settled();
  }
  get sleepers(): number {
    return this.#sleepers.length;
  }
}

/** A reader that takes an event only when a test asks for it. */
class StagedSink implements EventSink {
  readonly seen: { type: string; db: string; branch: string; detail: { txid?: number } }[] = [];
  closed = 0;
  #pending: { line: Uint8Array; done: PromiseWithResolvers<void> } | undefined;
  write(line: Uint8Array): Promise<void> {
    assert(this.closed === 0, "written to after its end");
    assert(this.#pending === undefined, "two writes at once");
    this.#pending = { line, done: Promise.withResolvers() };
    return this.#pending.done.promise;
  }
  close(): void {
    this.closed++;
    this.#pending?.done.reject(new Error("closed"));
    this.#pending = undefined;
  }
  async take(): Promise<boolean> {
    await settled();
    const pending = this.#pending;
    if (pending === undefined) return false;
    this.#pending = undefined;
    this.seen.push(JSON.parse(new TextDecoder().decode(pending.line)));
    pending.done.resolve();
    return true;
  }
  async takeAll(): Promise<void> {
    while (await this.take());
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function publishTxid(publisher: Publisher, txid: number): void {
  publisher.publish("flushed", { db: "app", branch: "main" }, { kind: "auto", txid, duration_seconds: 0 });
}

function txids(sink: StagedSink): (number | string)[] {
  return sink.seen.map((event) => event.detail.txid ?? event.type);
}

// conformance: 8.subscriber 6.buffer 6.write_deadline
Deno.test("the contract's numbers: a buffer of 64 events, a deadline of 45 s", () => {
  assertEquals([SUBSCRIBER_BUFFER_EVENTS, WRITE_DEADLINE_MS], [64, 45_000]);
});

// conformance: 6.envelope.v 9.event_v
Deno.test("an event carries the versioned envelope", async () => {
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const sink = new StagedSink();
  publisher.subscribe(sink).start();
  publisher.publish("session_opened", { db: "app", branch: "dev" }, { holder: "daemon-1", epoch: 3 });
  await sink.takeAll();
  assertEquals(sink.seen as unknown[], [{
    v: 1,
    ts: "1970-01-01T00:00:00.000Z",
    type: "session_opened",
    db: "app",
    branch: "dev",
    detail: { holder: "daemon-1", epoch: 3 },
  }]);
  await publisher.close(1);
});

Deno.test("events published between registration and start are delivered", async () => {
  const publisher = new Publisher({ clock: new VirtualClock() });
  const sink = new StagedSink();
  const subscription = publisher.subscribe(sink);
  publishTxid(publisher, 1);
  subscription.start();
  publishTxid(publisher, 2);
  await sink.takeAll();
  assertEquals(txids(sink), [1, 2]);
  await publisher.close(1);
});

// conformance: 6.buffer 6.type.dropped_slow_consumer
Deno.test("a subscriber that falls 64 events behind gets them, one drop event, and the end", async () => {
  const publisher = new Publisher({ clock: new VirtualClock() });
  const sink = new StagedSink();
  publisher.subscribe(sink).start();
  await settled();
  for (let txid = 1; txid <= 200; txid++) {
    publishTxid(publisher, txid);
    if (txid === 1) await settled();
  }
  assertEquals(publisher.subscribers, 0);
  await sink.takeAll();
  assertEquals(txids(sink), [...Array.from({ length: 65 }, (_, index) => index + 1), "dropped_slow_consumer"]);
  const last = sink.seen.at(-1)!;
  assertEquals([last.db, last.branch, last.detail], ["", "", {}]);
  assertEquals(sink.closed, 1);
});

// conformance: 6.write_deadline
Deno.test("a write that stalls for 45 s ends the stream, and every write has its own 45 s", async () => {
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const sink = new StagedSink();
  publisher.subscribe(sink).start();
  publishTxid(publisher, 1);
  publishTxid(publisher, 2);
  await settled();
  await clock.advance(44_999);
  assert(await sink.take());
  await settled();
  await clock.advance(44_999);
  assertEquals(sink.closed, 0);
  await clock.advance(1);
  assertEquals([sink.closed, publisher.subscribers], [1, 0]);
  assertEquals(clock.sleepers, 0);
});

Deno.test("close() delivers buffered events in order, also to streams not started, then ends them", async () => {
  const publisher = new Publisher({ clock: new VirtualClock() });
  const sinks = Array.from({ length: 3 }, () => new StagedSink());
  const [first, second] = sinks.map((sink) => publisher.subscribe(sink));
  first!.start();
  second!.start();
  for (let txid = 1; txid <= 10; txid++) publishTxid(publisher, txid);
  await sinks[0]!.take();
  const closing = publisher.close(1000);
  publishTxid(publisher, 11);
  const all = Array.from({ length: 10 }, (_, index) => index + 1);
  for (const sink of sinks) {
    assertEquals(sink.closed, 0);
    await sink.takeAll();
    assertEquals([txids(sink), sink.closed], [all, 1]);
  }
  await closing;
});

Deno.test("close() waits for a stuck reader until its deadline, and no longer", async () => {
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const sink = new StagedSink();
  publisher.subscribe(sink).start();
  publishTxid(publisher, 1);
  const closing = publisher.close(1000);
  await clock.advance(999);
  assertEquals(sink.closed, 0);
  await clock.advance(1);
  await closing;
  assertEquals(sink.closed, 1);
});

Deno.test("each subscriber sees a gapless run from its registration and at most one drop, last", async () => {
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant("publish" as const), count: fc.integer({ min: 1, max: 40 }) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("take" as const),
        who: fc.nat(7),
        count: fc.integer({ min: 1, max: 50 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("subscribe" as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 50_000 }) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const clock = new VirtualClock();
      const publisher = new Publisher({ clock });
      const sinks: { sink: StagedSink; first: number }[] = [];
      let txid = 0;
      const subscribe = () => {
        const sink = new StagedSink();
        sinks.push({ sink, first: txid + 1 });
        publisher.subscribe(sink).start();
      };
      subscribe();
      for (const action of steps) {
        if (action.do === "subscribe") subscribe();
        else if (action.do === "wait") await clock.advance(action.ms);
        else if (action.do === "publish") { for (let n = 0; n < action.count; n++) publishTxid(publisher, ++txid); }
        else {
          const { sink } = sinks[action.who % sinks.length]!;
          for (let n = 0; n < action.count && await sink.take(); n++);
        }
      }
      const closing = publisher.close(1000);
      for (const { sink } of sinks) await sink.takeAll();
      await clock.advance(1000);
      await closing;
      for (const { sink, first } of sinks) {
        const seen = txids(sink);
        const drops = seen.filter((one) => one === "dropped_slow_consumer").length;
        assert(drops === 0 || (drops === 1 && seen.at(-1) === "dropped_slow_consumer"));
        const run = seen.slice(0, seen.length - drops);
        assertEquals(run, run.map((_, index) => first + index));
        assertEquals(sink.closed, 1);
      }
    }),
    { numRuns: 150 },
  );
});
