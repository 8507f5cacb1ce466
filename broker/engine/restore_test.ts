import { assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { Engine } from "./engine.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { endOrphanedPush } from "./restore.ts";

const ID = "a".repeat(32);
/** Beyond every process id that there is. */
const PID = 2 ** 30;

for (
  const [what, polls, git, code] of [
    ["that has ended lets the remote be asked", 0, "/usr/bin/git", undefined],
    ["that ends late lets the remote be asked", 9, "/usr/bin/git", undefined],
    ["that does not end keeps the remote from being asked", Infinity, "/usr/bin/git", "unavailable"],
    ["whose git is a script keeps the remote from being asked", Infinity, "/bin/sh /home/op/bin/git", "unavailable"],
  ] as const
) {
  Deno.test(`a push of an earlier broker ${what}`, async () => {
    const clock = new VirtualClock();
    const sleep = clock.sleep.bind(clock);
    clock.sleep = (ms, signal) => {
      const slept = sleep(ms, signal);
      clock.advance(ms);
      return slept;
    };
    const command_line = `${git} x push url c:refs/heads/agent/${ID}`;
    let polled = 0;
    const list = () =>
      Promise.resolve(polled++ < polls ? [{ pid: PID, group: PID, uid: Deno.uid()!, command_line }] : []);
    const deps = { clock, log: () => {} };
    const ended = endOrphanedPush(deps, { id: ID }, undefined, list);
    assertEquals(await ended.then(() => undefined, (error: TaskdError) => error.code), code);
  });
}

Deno.test("an engine that cannot open stops what it took over, and releases its tasks", async () => {
  const stage_root = `${Deno.makeTempDirSync()}/loop`;
  Deno.symlinkSync("loop", stage_root);
  let watched: AbortSignal | undefined;
  let closed = 0;
  const record = { id: ID, stage: "awaiting_ci" };
  const deps = {
    clock: new VirtualClock(),
    log: () => {},
    resolved: { settings: { ci: { watch: true }, stage_root } },
    admission: { adopt: () => ({}) },
    tasks: {
      onChange: () => {},
      damaged: () => [],
      unfinished: () => [record],
      reopen: () => Promise.resolve({ id: ID, record }),
      close: () => Promise.resolve(void closed++),
    },
    ci: () => ({
      watch: (_task: unknown, signal: AbortSignal) => {
        watched = signal;
        return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    }),
  } as unknown as EngineDeps;
  await assertRejects(() => Engine.open(deps), TaskdError);
  assertEquals([watched?.aborted, closed], [true, 1]);
});
