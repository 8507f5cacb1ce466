/**
 * How sandboxes of bubblewrap end, and what stays behind: nothing.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { Bounding } from "../../../broker/sandbox/bubblewrap/control_groups.ts";
import { systemClock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { exists } from "../../../lib/fs.ts";
import { words } from "../../../lib/text/words.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { denoDirectory } from "../../support/deno_directory.ts";
import { bubblewrapTest, type TestBubblewrap, testBubblewrap } from "../../support/bubblewrap.ts";
import { runIn, startIn } from "./_container.ts";
import { allGone } from "./_sandbox.ts";

bubblewrapTest("a program's output comes line by line, its exit code is the sandbox's", async () => {
  await using test = await testBubblewrap();
  const script = "echo one; echo two >&2; printf '\\033[31mred'; exit 7";
  const { end, out, err } = await runIn(test, ["/bin/sh", "-c", script]);
  assertEquals(end, { reason: "exited", code: 7, output_truncated: false });
  assertEquals([out, err], [["one", "\\x1b[31mred"], ["two"]]);
  const cut = await runIn(test, ["/bin/sh", "-c", "yes | head -c 1000000"], { max_output_bytes: 1_000 });
  assertEquals([cut.end.code, cut.end.output_truncated, cut.out.length], [0, true, 500]);
  assertEquals((await runIn(test, ["/no/such/program"])).end.code, 127);
  assertEquals((await runIn(test, ["/bin/sh", "-c", "kill -9 $$"])).end.code, 137);
  // Nothing of bwrap's own is left beside the sockets.
  const [folder] = [...Deno.readDirSync(test.run_dir)];
  const left = [...Deno.readDirSync(`${test.run_dir}/${folder!.name}`)].map(({ name }) => name).sort();
  assertEquals(left, ["gateway", "proxy"]);
});

bubblewrapTest("a sandbox is ended at its deadline, gently first, and by force if it is deaf", async () => {
  const timeout_ms = 1_234_000;
  let over = Promise.withResolvers<void>();
  const sleep = (ms: number, signal?: AbortSignal) =>
    Promise.race([systemClock.sleep(ms, signal), ...ms === timeout_ms ? [over.promise] : []]);
  await using test = await testBubblewrap({ clock: { ...systemClock, sleep } });
  const meetsDeadline = async (trap: string) => {
    over = Promise.withResolvers();
    const program = ["/bin/sh", "-c", `trap ${trap} TERM; echo ready; while :; do sleep 0.1; done`];
    const { sandbox, lines, line, task_id } = await startIn(test, program, { timeout_ms });
    await line("ready");
    over.resolve();
    const { reason, code } = await sandbox.wait();
    await allGone(task_id);
    return [reason, code, ...lines.filter(({ stream }) => stream === "stdout").map(({ text }) => text)];
  };
  assertEquals(await meetsDeadline("'echo bye; exit 3'"), ["timed_out", 3, "ready", "bye"]);
  assertEquals(await meetsDeadline("''"), ["timed_out", 137, "ready"]);
  const stopped = await startIn(test, ["sleep", "600"]);
  const ends = await Promise.all([stopped.sandbox.stop(), stopped.sandbox.stop(), stopped.sandbox.wait()]);
  assertEquals(ends.map(({ reason }) => reason), ["stopped", "stopped", "stopped"]);
});

bubblewrapTest("processes that an agent leaves behind end with it, in whatever session", async () => {
  await using test = await testBubblewrap();
  const script = "setsid sleep 600 >/dev/null 2>&1 & echo done";
  const { end, out, task_id } = await runIn(test, ["/bin/sh", "-c", script]);
  assertEquals([end.code, out], [0, ["done"]]);
  await allGone(task_id);
  assertEquals((await listProcesses()).filter(({ command_line }) => command_line === "sleep 600"), []);
});

bubblewrapTest("a program that has sent its output away, to who never reads it, ends all the same", async () => {
  await using test = await testBubblewrap({ deaf: true });
  const script = "import array, socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/taskd/gateway'); " +
    "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2]))]); print('sent', end='')";
  const { end, out } = await runIn(test, ["/usr/bin/python3", "-c", script]);
  assertEquals([end, out], [{ reason: "exited", code: 0, output_truncated: false }, ["sent"]]);
});

/** Kills a broker in the middle of a task, and returns the task. */
async function killBroker({ owner, run_dir }: TestBubblewrap, bounding: Bounding): Promise<string> {
  const task_id = crypto.randomUUID().replaceAll("-", "");
  const main = new URL("./_bubblewrap_main.ts", import.meta.url).pathname;
  const broker = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", main, owner, task_id, run_dir, bounding],
    env: { DENO_DIR: await denoDirectory() },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = broker.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let said = "";
  while (!said.includes("running")) said += (await reader.read()).value ?? "";
  await reader.cancel();
  broker.kill("SIGKILL");
  await broker.status;
  // No sweep: the kernel does it.
  await allGone(task_id);
  return task_id;
}

bubblewrapTest("a sandbox ends with its broker, also when that is killed", async () => {
  await using test = await testBubblewrap();
  await killBroker(test, "none");
});

bubblewrapTest("a sweep takes the control group that a killed broker left, and no other's", async () => {
  const groups = (task_id: string) => words("memory pids cpu").map((at) => `/sys/fs/cgroup/${at}/taskd-${task_id}`);
  if (Deno.uid() !== 0 || !exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")) return;
  await using test = await testBubblewrap({ bounding: "v1" });
  const foreign = crypto.randomUUID().replaceAll("-", "");
  for (const path of groups(foreign)) await Deno.mkdir(path);
  try {
    const [killed, kept] = [await killBroker(test, "v1"), await killBroker(test, "v1")];
    assertEquals(groups(killed).map(exists), [true, true, true]);
    assertEquals(await test.runtime.sweep(new Set([kept])), []);
    assertEquals(groups(killed).map(exists), [false, false, false]);
    assertEquals([...groups(kept), ...groups(foreign)].map(exists), [true, true, true, true, true, true]);
    await test.runtime.sweep(new Set());
    assertEquals(groups(kept).map(exists), [false, false, false]);
  } finally {
    for (const path of groups(foreign)) await Deno.remove(path);
  }
});

bubblewrapTest("a sweep ends what an earlier broker of the same owner left, and nothing else", async () => {
  await using test = await testBubblewrap();
  await using other = await testBubblewrap();
  const program = ["/bin/sh", "-c", "echo ready; exec sleep 600"];
  const [kept, orphan, foreign] = [
    await startIn(test, program),
    await startIn(test, program),
    await startIn(other, program),
  ];
  for (const { line } of [kept, orphan, foreign]) await line("ready");
  assertEquals(await test.runtime.sweep(new Set([kept.task_id])), [orphan.task_id]);
  await orphan.sandbox.wait();
  const lines = (await listProcesses()).map(({ command_line }) => command_line);
  assert(lines.some((line) => line.includes(kept.task_id)));
  assert(lines.some((line) => line.includes(foreign.task_id)));
  await kept.sandbox.stop();
  await foreign.sandbox.stop();
});

bubblewrapTest("what keeps a sandbox from being started is said, and is no end of a program", async () => {
  await using test = await testBubblewrap();
  const mounts = [{ source: "/no/such/folder", target: "/deps", writable: false }];
  const error = await assertRejects(() => runIn(test, ["true"], { mounts }), TaskdError, "Cannot start the sandbox");
  assertEquals(error.code, "sandbox_failed");
  assertStringIncludes(error.hint!, "taskd doctor");
  await using without = await testBubblewrap({ deno_path: "/bin/true" });
  await assertRejects(() => runIn(without, ["true"]), TaskdError, "its forwarder does not listen");
});
