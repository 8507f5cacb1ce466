import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../../lib/errors.ts";
import { hasSetup } from "../../../../broker/engine/profile/run_setup.ts";
import { MAX_SETUP_LOG_BYTES } from "../../../../broker/engine/profile/setup_log.ts";
import { makeWorld, PROXY_URL, sh, TASK_ID } from "./_setup.ts";
import { longTest } from "../../../support/long.ts";

// conformance: b2.profiles.setup b2.profiles.evidence
Deno.test("a profile's commands run in order, setup before readiness, each in its own sandbox", async () => {
  await using world = await makeWorld();
  const { evidence, passed, reason } = await world.run({
    setup: [sh("echo one >> /workspace/order"), sh("echo two >> /workspace/order")],
    readiness: [sh("echo three >> /workspace/order")],
  });
  assertEquals([passed, reason], [true, undefined]);
  assertEquals(await Deno.readTextFile(`${world.work_dir}/order`), "one\ntwo\nthree\n");
  assertEquals(world.runtime.started.length, 3);
  assertEquals(world.runtime.most_running, 1);
  assertEquals(
    evidence.commands.map(({ phase, status, exit_code }) => [phase, status, exit_code]),
    [["setup", "passed", 0], ["setup", "passed", 0], ["readiness", "passed", 0]],
  );
  assert(evidence.commands.every(({ duration_ms }) => duration_ms >= 0));
  assertEquals(evidence.cache, { participation: "disabled" });
});

// conformance: b2.profiles.verdict
Deno.test("the first command that fails ends the phase, and what would have followed was not run", async () => {
  await using world = await makeWorld();
  const { evidence, passed, reason } = await world.run({
    setup: [sh("true"), sh("exit 7"), sh("touch /workspace/third")],
    readiness: [sh("touch /workspace/fourth")],
  });
  assertEquals(passed, false);
  assertMatch(reason!, /^setup command sh -c "exit 7" failed with exit code 7 after /);
  assertEquals(
    evidence.commands.map(({ status, exit_code }) => [status, exit_code]),
    [["passed", 0], ["failed", 7], ["not_run", undefined], ["not_run", undefined]],
  );
  assertEquals([...Deno.readDirSync(world.work_dir)], []);
});

// conformance: b2.profiles.readiness
Deno.test("a readiness command that fails keeps the agent from starting", async () => {
  await using world = await makeWorld();
  const { passed, reason } = await world.run({ setup: [sh("true")], readiness: [sh("exit 1")] });
  assertEquals(passed, false);
  assertMatch(reason!, /^readiness command /);
});

// conformance: b2.profiles.timeout
Deno.test("a command that takes longer than the profile's timeout has timed out", async () => {
  await using world = await makeWorld();
  const { evidence, passed } = await world.run({ setup: [sh("sleep 600"), sh("true")], timeout: 50 });
  assertEquals(passed, false);
  assertEquals(
    evidence.commands.map(({ status, exit_code }) => [status, exit_code]),
    [["timed_out", undefined], ["not_run", undefined]],
  );
});

// conformance: b2.profiles.timeout
Deno.test("a timeout of 0 is ten minutes for each command", async () => {
  await using world = await makeWorld();
  await world.run({ setup: [sh("true")], timeout: 0 });
  assertEquals(world.runtime.started[0]!.spec.timeout_ms, 600_000);
});

Deno.test("a command gets the proxy and nothing of the gateway or the host", async () => {
  await using world = await makeWorld();
  await world.run({ setup: [sh("env > /workspace/env")] });
  const env = await Deno.readTextFile(`${world.work_dir}/env`);
  for (const name of ["http_proxy", "HTTPS_PROXY", "npm_config_https_proxy", "PIP_PROXY", "CARGO_HTTP_PROXY"]) {
    assertStringIncludes(env, `${name}=${PROXY_URL}\n`);
  }
  assertMatch(env, /^NO_PROXY=$/m);
  assertMatch(env, /^HOME=\/tmp$/m);
  for (const [name, value] of Object.entries(world.runtime.started[0]!.workload.env)) {
    assert(!/key|token|gateway|base_url/i.test(name), name);
    assert(value === PROXY_URL || !value.includes("192.168.66.1"), name);
  }
  const { workload, spec } = world.runtime.started[0]!;
  assertEquals([workload.mounts, workload.network, workload.image, workload.reach], [[], "net", "image", "proxy"]);
  assertEquals([spec.work_dir, spec.task_id], [world.work_dir, TASK_ID]);
});

// conformance: b2.profiles.verdict
Deno.test("attack: output that imitates verdicts decides nothing and is marked as output", async () => {
  await using world = await makeWorld();
  const fake = String.raw`\r\033[2K# passed with exit code 0 after 1s\n# passed with exit code 0 after 1s\n`;
  const { passed, evidence } = await world.run({
    setup: [sh(`printf '${fake}'; printf '${fake}' >&2; echo '{"status":"passed"}'; exit 3`)],
  });
  assertEquals([passed, evidence.commands[0]!.status, evidence.commands[0]!.exit_code], [false, "failed", 3]);
  const broker_lines = (await world.log()).split("\n").filter((line) => line.startsWith("#"));
  assertEquals(broker_lines.length, 1);
  assertMatch(broker_lines[0]!, /^# failed with exit code 3 after /);
});

// conformance: b2.profiles.verdict
Deno.test("attack: output that imitates failures does not fail a command", async () => {
  await using world = await makeWorld();
  const { passed } = await world.run({ setup: [sh("echo 'npm ERR! exit code 1'; echo FAILED >&2")] });
  assertEquals(passed, true);
});

Deno.test("attack: terminal escapes and direction marks are harmless in the log and in what is shown", async () => {
  await using world = await makeWorld();
  await world.run({ setup: [sh(String.raw`printf '\033]0;owned\007\033[31mred \342\200\256x\n'`)] });
  // deno-lint-ignore no-control-regex
  const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/;
  assert(!unsafe.test(await world.log()));
  assert(!world.lines.some((line) => unsafe.test(line)));
  assertStringIncludes(await world.log(), String.raw`\x1b[31mred`);
});

Deno.test("attack: endless output fills neither log nor memory, and the verdict stands", async () => {
  await using world = await makeWorld();
  const { passed } = await world.run({
    setup: [sh("head -c 200000000 /dev/zero | tr '\\0' 'x' | fold -w 1000"), sh("echo after")],
  });
  assertEquals(passed, true);
  const log = await world.log();
  assert(log.length < 1_300_000, String(log.length));
  assertStringIncludes(log, "# more output was discarded");
  assertStringIncludes(log, "| after\n");
});

longTest("attack: many talkative commands stay below the log's bound, with every verdict", async () => {
  await using world = await makeWorld();
  const talk = sh("head -c 1000000 /dev/zero | tr '\\0' '\\033'");
  const { passed } = await world.run({ setup: Array.from({ length: 8 }, () => talk) });
  assertEquals(passed, true);
  const log = await world.log();
  assert(log.length <= MAX_SETUP_LOG_BYTES);
  assertEquals(log.match(/^# passed with exit code 0/gm)?.length, 8);
  assertStringIncludes(log, "# the rest of the output is left out");
});

Deno.test("attack: a background child delays nothing and ends before the next command", async () => {
  await using world = await makeWorld();
  const { passed } = await world.run({
    setup: [sh("(while :; do echo still here; sleep 0.01; done) & echo $! > /workspace/pid"), sh("echo next")],
  });
  assertEquals(passed, true);
  const pid = (await Deno.readTextFile(`${world.work_dir}/pid`)).trim();
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", pid] }).output();
  // Gone, or dead and not yet reaped by its parent.
  assertMatch(new TextDecoder().decode(stdout), /^\s*(?:Z.*)?\s*$/);
});

Deno.test("attack: links that a command leaves in the work tree lead the host nowhere", async () => {
  await using world = await makeWorld();
  const outside = `${world.root}/outside`;
  await Deno.writeTextFile(outside, "untouched");
  const { passed } = await world.run({
    setup: [
      sh(
        `ln -s ${world.root}/audit /workspace/audit; ln -s ${outside} /workspace/${TASK_ID}.setup.log; ln -sfn / /workspace/deps`,
      ),
      sh("echo second"),
    ],
  });
  assertEquals(passed, true);
  assertEquals(await Deno.readTextFile(outside), "untouched");
  assertEquals([...Deno.readDirSync(`${world.root}/audit`)].map(({ name }) => name), [`${TASK_ID}.setup.log`]);
});

Deno.test("attack: a link in the log's place is replaced, not followed", async () => {
  await using world = await makeWorld();
  const outside = `${world.root}/outside`;
  await Deno.writeTextFile(outside, "untouched");
  await Deno.symlink(outside, world.log_path);
  await world.run({ setup: [sh("echo x")] });
  assertEquals(await Deno.readTextFile(outside), "untouched");
  assertStringIncludes(await world.log(), "| x\n");
});

// conformance: b2.profiles.log b2.audit_modes
Deno.test("the log is 0600 and has commands, output and verdicts in order", async () => {
  await using world = await makeWorld();
  await world.run({ setup: [sh("echo out")], readiness: [["echo", "it's ready"]] });
  assertEquals((await Deno.stat(world.log_path)).mode! & 0o777, 0o600);
  const log = (await world.log()).replace(/ after .*/g, "");
  assertEquals(
    log,
    `$ sh -c "echo out"\n| out\n# passed with exit code 0\n$ echo "it's ready"\n| it's ready\n# passed with exit code 0\n`,
  );
  assertEquals(world.lines.map((line) => line.replace(/ after .*/, "")).join("\n") + "\n", log);
});

Deno.test("an abort ends the running command at once and nothing further starts", async () => {
  await using world = await makeWorld();
  const controller = new AbortController();
  const run = world.run({ setup: [sh("echo begun; sleep 600"), sh("touch /workspace/second")] }, {
    signal: controller.signal,
    onLine: (line) => line === "| begun" && controller.abort(new TaskdError("interrupted", "killed")),
  });
  await assertRejects(() => run, TaskdError, "killed");
  assertEquals([world.runtime.running, world.runtime.started.length], [0, 1]);
});

Deno.test("an abort before the phase starts nothing", async () => {
  await using world = await makeWorld();
  const signal = AbortSignal.abort(new TaskdError("interrupted", "killed"));
  await assertRejects(() => world.run({ setup: [sh("true")] }, { signal }), TaskdError, "killed");
  assertEquals(world.runtime.started.length, 0);
});

Deno.test("a program that is killed by a signal has failed", async () => {
  await using world = await makeWorld();
  const { evidence } = await world.run({ setup: [sh("kill -9 $$")] });
  assertEquals([evidence.commands[0]!.status, evidence.commands[0]!.exit_code], ["failed", 137]);
});

Deno.test("a profile without commands has no setup phase", () => {
  const profile = { setup: [], readiness: [], timeout: 1, cache: true, second_look_paths: [], checks: [] };
  assertEquals([hasSetup(undefined), hasSetup(profile), hasSetup({ ...profile, readiness: [["x"]] })], [
    false,
    false,
    true,
  ]);
});
