import { assertEquals, assertRejects } from "@std/assert";
import { pullStream } from "./pull_stream.ts";

Deno.test("however a stream ends, its source is ended once and nothing listens for the abort", async () => {
  const piece = Uint8Array.of(1);
  const ways: Record<string, (stream: ReadableStream<Uint8Array>, ending: AbortController) => Promise<unknown>> = {
    "end": (stream) => Array.fromAsync(stream),
    "failure": (stream) => assertRejects(() => Array.fromAsync(stream), Error, "damaged"),
    "cancel": (stream) => stream.cancel(),
    "abort": (stream, ending) => (ending.abort(), Array.fromAsync(stream)),
  };
  for (const [way, finish] of Object.entries(ways)) {
    const ending = new AbortController();
    const { signal } = ending;
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args));
    const remove = signal.removeEventListener.bind(signal);
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (listeners--, remove(...args));
    let ended = 0;
    const make = async function* () {
      try {
        for (let left = 3; left > 0; left--) yield piece;
        if (way === "failure") throw new Error("damaged");
      } finally {
        ended++;
      }
    };
    const stream = pullStream(make, signal);
    // It has begun by then, as a response has.
    await Promise.resolve();
    await finish(stream, ending);
    ending.abort();
    assertEquals([way, ended, listeners], [way, 1, 0]);
  }
});
