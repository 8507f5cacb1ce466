import { assertEquals, assertRejects } from "@std/assert";
import type { Clock } from "./clock.ts";
import { TaskdError } from "./errors.ts";
import { BUSY_TIMEOUT_MS, retryWhileBusy } from "./retry_while_busy.ts";

/** A clock on which only sleeping takes time. */
function sleeper(): Clock {
  let now_ms = 0;
  const now = () => now_ms;
  return { now, monotonic: now, sleep: (ms) => Promise.resolve(void (now_ms += ms)) };
}

const busy = () => Promise.reject(new TaskdError("busy", "another process writes"));

Deno.test("retryWhileBusy() retries busy until its timeout and no other error", async () => {
  let tries = 0;
  assertEquals(await retryWhileBusy(sleeper(), () => ++tries < 5 ? busy() : Promise.resolve(tries)), 5);

  const clock = sleeper();
  await assertRejects(() => retryWhileBusy(clock, busy), TaskdError, "another process writes");
  assertEquals(clock.monotonic(), BUSY_TIMEOUT_MS);

  const denied = sleeper();
  await assertRejects(
    () => retryWhileBusy(denied, () => Promise.reject(new TaskdError("denied", "no"))),
    TaskdError,
    "no",
  );
  assertEquals(denied.monotonic(), 0);
});
