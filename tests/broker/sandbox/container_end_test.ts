/**
 * How container sandboxes end, and what stays behind: nothing.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { randomHex, systemClock, systemRandom } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { ContainerRuntime } from "../../../broker/sandbox/container_runtime.ts";
import { PODMAN, podman, podmanTest, testRuntime } from "../../support/podman.ts";
import { runIn, startIn } from "./_container.ts";
import { longTest } from "../../support/long.ts";

podmanTest("a sandbox's output comes line by line and its exit code is the program's", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const { end, out, err } = await runIn(test, [
    "/bin/sh",
    "-c",
    "echo one; echo two >&2; printf '\\033[31mred'; exit 7",
  ]);
  assertEquals(end, { reason: "exited", code: 7, output_truncated: false });
  assertEquals(out, ["one", "\\x1b[31mred"]);
  assertEquals(err, ["two"]);
  const cut = await runIn(test, ["/bin/sh", "-c", "yes | head -c 1000000"], { max_output_bytes: 1_000 });
  assertEquals([cut.end.code, cut.end.output_truncated, cut.out.length], [0, true, 500]);
  const absent = await runIn(test, ["/no/such/program"]);
  assertEquals(absent.end.code, 127);
  const { stdout } = await podman(
    "ps",
    "--all",
    "--quiet",
    `--filter=label=taskd.owner=${test.owner}`,
    "--filter=label=taskd.role=task",
  );
  assertEquals(stdout, "");
});

podmanTest("a sandbox is ended at its deadline, also one that is deaf to SIGTERM", async () => {
  // It is over once the program is ready for it: how long a container takes to start is the machine's affair.
  const timeout_ms = 1_234_000;
  let over = Promise.withResolvers<void>();
  const sleep = (ms: number, signal?: AbortSignal) =>
    Promise.race([systemClock.sleep(ms, signal), ...ms === timeout_ms ? [over.promise] : []]);
  await using test = await testRuntime({ ...systemClock, sleep });
  await test.runtime.prepare();
  const meetsDeadline = async (trap: string) => {
    over = Promise.withResolvers();
    const program = ["/bin/sh", "-c", `trap ${trap} TERM; echo ready; while :; do sleep 0.1; done`];
    const { sandbox, lines, line } = await startIn(test, program, { timeout_ms });
    await line("ready");
    over.resolve();
    const { reason, code } = await sandbox.wait();
    return [reason, code, ...lines.filter(({ stream }) => stream === "stdout").map(({ text }) => text)];
  };
  assertEquals(await meetsDeadline("'echo bye; exit 3'"), ["timed_out", 3, "ready", "bye"]);
  assertEquals(await meetsDeadline("''"), ["timed_out", 137, "ready"]);
  const stopped = await startIn(test, ["sleep", "600"]);
  const ends = await Promise.all([stopped.sandbox.stop(), stopped.sandbox.stop(), stopped.sandbox.wait()]);
  assertEquals(ends.map(({ reason }) => reason), ["stopped", "stopped", "stopped"]);
}, longTest);

podmanTest("processes that an agent leaves behind end with it", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const { end, out } = await runIn(test, ["/bin/sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo done"]);
  assertEquals([end.code, out], [0, ["done"]]);
});

podmanTest("a sweep ends what a crashed broker of the same owner left, and nothing else", async () => {
  await using test = await testRuntime();
  await using other = await testRuntime();
  await test.runtime.prepare();
  await other.runtime.prepare();
  const [kept, orphan, foreign] = [
    await startIn(test, ["sleep", "600"]),
    await startIn(test, ["sleep", "600"]),
    await startIn(other, ["sleep", "600"]),
  ];
  assertEquals(await test.runtime.sweep(new Set([kept.task_id])), [orphan.task_id]);
  const running = async (owner: string) =>
    (await podman("ps", "--format={{.Names}}", `--filter=label=taskd.owner=${owner}`, "--filter=label=taskd.role=task"))
      .stdout.trim();
  assertStringIncludes(await running(test.owner), kept.task_id);
  assertStringIncludes(await running(other.owner), foreign.task_id);
  await orphan.sandbox.wait().catch(() => {});
  await kept.sandbox.stop();
  await foreign.sandbox.stop();
});

podmanTest("an image that is missing is named, with what builds it", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const error = await assertRejects(() => startIn(test, ["true"], { image: "localhost/taskd-absent:1" }), TaskdError);
  assertEquals(error.code, "sandbox_failed");
  assertStringIncludes(error.message, "localhost/taskd-absent:1");
  assertStringIncludes(error.hint!, "taskd setup");
});

podmanTest("prepare() refuses a network of its name that reaches others", async () => {
  await using test = await testRuntime();
  await podman("network", "create", `--subnet=${test.subnet}`, `--gateway=${test.gateway_ip}`, test.network);
  const error = await assertRejects(() => test.runtime.prepare(), TaskdError);
  assertStringIncludes(error.message, "it reaches other networks");
  assertStringIncludes(error.hint!, "network rm");
});

podmanTest("prepare() can be called again, and close() gives the gateway's address back", async () => {
  {
    await using test = await testRuntime();
    const holds = () => Deno.networkInterfaces().some(({ address }) => address === test.gateway_ip);
    assert(!holds());
    await test.runtime.prepare();
    await test.runtime.prepare();
    assert(holds());
    await runIn(test, ["true"]);
    assert(holds(), "the anchor keeps it while no sandbox runs");
    await test.runtime.close();
    assert(!holds());
  }
  await using test = await testRuntime();
  const runtime = new ContainerRuntime({
    kind: "podman",
    program: PODMAN,
    rootless: false,
    oci_runtime: "/no/such/runtime",
    network: test.network,
    gateway_ip: test.gateway_ip,
    anchor_image: "localhost/taskd-absent:1",
    owner: randomHex(systemRandom, 16),
    env: () => undefined,
    clock: systemClock,
  });
  await assertRejects(() => runtime.prepare(), TaskdError, "Cannot start the anchor");
}, longTest);

podmanTest("giving the work tree to the sandbox follows no link out of it", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const outside = await Deno.makeTempDir();
  await Deno.writeTextFile(`${outside}/file`, "x");
  const { work_dir, sandbox } = await startIn(test, ["true"]);
  await sandbox.wait();
  await Deno.symlink(`${outside}/file`, `${work_dir}/link`);
  await Deno.symlink(outside, `${work_dir}/folder`);
  const again = await test.runtime.start({
    task_id: randomHex(systemRandom, 16),
    work_dir,
    workload: {
      kind: "command",
      image: test.image,
      command: ["true"],
      env: {},
      mounts: [],
      network: test.network,
      max_pids: 16,
    },
    memory_bytes: 64 << 20,
    timeout_ms: 60_000,
    max_output_bytes: 1_000,
    onOutput() {},
  });
  assertEquals((await again.wait()).code, 0);
  assertEquals((await Deno.stat(`${outside}/file`)).uid, 0);
  assertEquals((await Deno.stat(outside)).uid, 0);
  assertEquals((await Deno.lstat(`${work_dir}/link`)).uid, 1_900_001_000);
}, longTest);
