import { assertEquals, assertRejects } from "@std/assert";
import { BrokerClient } from "../../broker/client/client.ts";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { Io } from "../text/io.ts";
import { followTask } from "./_follow_task.ts";

/** A clock whose sleepers wake at once, the time having passed. */
function fastClock(): Clock & { slept_ms: number } {
  const clock = {
    slept_ms: 0,
    now: () => clock.slept_ms,
    monotonic: () => clock.slept_ms,
    sleep(ms: number, signal?: AbortSignal) {
      // A deadline of a single request is not what is tried here.
      if (ms > 60_000) return new Promise<void>(() => {});
      signal?.throwIfAborted();
      clock.slept_ms += ms;
      return Promise.resolve();
    },
  };
  return clock;
}

function makeIo(signal: AbortSignal) {
  const printed = { text: "" };
  const sink = {
    writeSync: (bytes: Uint8Array) => {
      printed.text += new TextDecoder().decode(bytes);
      return bytes.length;
    },
    isTerminal: () => false,
  };
  const io = new Io({ stdout: sink, stderr: sink, json: false, quiet: false, no_color: true, signal, now: () => 0 });
  return { io, printed };
}

Deno.test("followTask() waits half a minute for a broker that has gone, reports it once, and fails", async () => {
  const clock = fastClock();
  const { io, printed } = makeIo(new AbortController().signal);
  const broker = new BrokerClient({ socket: "/nonexistent/broker.sock" }, { clock });
  const error = await assertRejects(
    () => followTask(broker, "a".repeat(32), { io, until: "end", show: () => {}, clock }),
    TaskdError,
  );
  assertEquals(error.code, "broker_unreachable");
  assertEquals(clock.slept_ms > 30_000 && clock.slept_ms < 60_000, true, String(clock.slept_ms));
  assertEquals(printed.text, "The broker does not answer: it is waited for\n");
});

Deno.test("followTask() stops waiting when it is interrupted", async () => {
  const abort = new AbortController();
  const clock = fastClock();
  const { io } = makeIo(abort.signal);
  const interrupted = new TaskdError("interrupted", "enough");
  const sleep = clock.sleep;
  clock.sleep = (ms, signal) => {
    if (clock.slept_ms > 5_000) abort.abort(interrupted);
    return sleep(ms, signal);
  };
  const broker = new BrokerClient({ socket: "/nonexistent/broker.sock" }, { clock, signal: abort.signal });
  const error = await assertRejects(
    () => followTask(broker, "a".repeat(32), { io, until: "end", show: () => {}, clock }),
    TaskdError,
  );
  assertEquals(error.code, "interrupted");
});
