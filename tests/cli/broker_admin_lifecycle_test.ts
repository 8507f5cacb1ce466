import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { configure, EMBEDDED, isAlive, makeBrokerPlace, startBroker } from "./support/broker_place.ts";
import { longTest } from "../support/long.ts";

Deno.test("start serves until it is stopped, and leaves nothing behind", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await using broker = await startBroker(place);
  const { pid, socket } = broker.hello;
  assertEquals(Deno.statSync(socket).mode! & 0o777, 0o600);
  assertEquals(await place.json(["stop"]), { ok: true, pid });
  assertEquals((await broker.ended()).code, 0);
  let exists = true;
  try {
    Deno.lstatSync(socket);
  } catch {
    exists = false;
  }
  assertEquals(exists, false);
});

// conformance: b8.modes
Deno.test("start closes a settings directory that others can read", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  const directory = `${place.home}/.taskd`;
  Deno.chmodSync(directory, 0o755);
  await using _broker = await startBroker(place);
  assertEquals(Deno.statSync(directory).mode! & 0o777, 0o700);
});

Deno.test("stop fails when no broker runs", async () => {
  await using place = await makeBrokerPlace();
  const never = await place.json(["stop"], 1);
  assertEquals([never.code, never.error], ["broker_unreachable", "Cannot stop the broker: none is running"]);
  await configure(place, EMBEDDED);
  assertEquals((await place.json(["stop"], 1)).code, "broker_unreachable");
});

Deno.test("Ctrl-C and SIGTERM end a broker in the foreground gracefully", async () => {
  for (const [signal, status] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    await using place = await makeBrokerPlace();
    await configure(place, EMBEDDED);
    await using broker = await startBroker(place);
    broker.child.kill(signal);
    const { code, errors } = await broker.ended();
    assert([0, status].includes(code), String(code));
    assertStringIncludes(errors, "broker_stopped");
  }
});

Deno.test("a second SIGTERM does not cut the graceful stop short", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await using broker = await startBroker(place);
  for (let i = 0; i < 5; i++) broker.child.kill("SIGTERM");
  const { code, errors } = await broker.ended();
  assertEquals(code, 0);
  assertStringIncludes(errors, "broker_stopped");
});

// conformance: b1.restart_applies b4.explain.resolves
longTest("a second start replaces the first broker, and changed settings take effect", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await using first = await startBroker(place);
  assertMatch((await place.taskd("policy", "explain")).stdout, /\ndaemon: in sync\n$/);
  await configure(place, `${EMBEDDED}max_concurrent_tasks: 7\n`);
  assertMatch((await place.taskd("policy", "explain")).stdout, /\ndaemon: divergent: max_concurrent_tasks /);
  // A socket that is named goes before the one that the home's broker has.
  const nowhere = await place.taskd("policy", "explain", "--socket", `${place.base}/none.sock`);
  assertEquals(/\ndaemon: (in sync|divergent)/.test(nowhere.stdout), false, nowhere.stdout);
  await using second = await startBroker(place);
  assertEquals(second.hello.replaced_pid, first.hello.pid);
  assertEquals((await first.ended()).code, 0);
  const { live, in_sync } = JSON.parse((await place.taskd("policy", "explain", "--json")).stdout);
  const setting = live.fields.find((field: { setting: string }) => field.setting === "max_concurrent_tasks");
  assertEquals([in_sync, setting.value], [true, 7]);
  await place.taskd("stop");
  await second.ended();
});

// conformance: b4.explain.resolves b4.stats.json
longTest("start, policy explain and stats find the running broker after its socket setting changed", async () => {
  await using place = await makeBrokerPlace({ TASKD_GLOBAL_MAX_TASKS: "9" });
  await configure(place, EMBEDDED);
  await using first = await startBroker(place);
  await configure(place, `${EMBEDDED}broker:\n  socket: ${place.base}/elsewhere/b.sock\n`);
  assertMatch((await place.taskd("policy", "explain")).stdout, /\ndaemon: in sync\n$/);
  const ceiling = async (...words: string[]) => (await place.json(["stats", ...words])).global_ceiling;
  assertEquals((await ceiling() as { max_tasks: number }).max_tasks, 9);
  assertEquals(await ceiling("--socket", `${place.base}/elsewhere/b.sock`), null);
  await using second = await startBroker(place);
  assertEquals(second.hello.replaced_pid, first.hello.pid);
  assertEquals(second.hello.socket, `${place.base}/elsewhere/b.sock`);
  await place.taskd("stop");
  assertEquals((await second.ended()).code, 0);
});

const BROKEN: readonly { title: string; config: (port: number) => string; code: string; says: RegExp }[] = [
  { title: "a file that is not YAML", config: () => "runtime: [", code: "invalid_config", says: /config\.yaml:1/ },
  {
    title: "a setting that does not exist",
    config: () => `${EMBEDDED}budget: 1\n`,
    code: "invalid_config",
    says: /budget/,
  },
  {
    title: "settings that contradict each other",
    config: () => `${EMBEDDED}ci:\n  max_attempts: 1\n`,
    code: "invalid_config",
    says: /approval_timeout/,
  },
  {
    title: "a runtime that is not there",
    config: () => EMBEDDED.replace("runtime: deno", "runtime: container"),
    code: "sandbox_failed",
    says: /runtime container/,
  },
  {
    title: "an address that another program has",
    config: (port) => `${EMBEDDED}broker:\n  addr: 127.0.0.1:${port}\n`,
    code: "unavailable",
    says: /Cannot listen on 127\.0\.0\.1/,
  },
  {
    title: "a directory that cannot be made",
    config: () => `${EMBEDDED}audit_root: /etc/hostname/audit\n`,
    code: "denied",
    says: /Cannot use \/etc\/hostname: it is not a directory/,
  },
  {
    title: "a socket in a folder that others can enter",
    config: () => `${EMBEDDED}broker:\n  socket: /usr/taskd.sock\n`,
    code: "denied",
    says: /Cannot use \/usr: it can be entered by others/,
  },
];

longTest("a start with an unusable configuration fails and leaves the running broker alone", async (t) => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await using broker = await startBroker(place);
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  for (const { title, config, code, says } of BROKEN) {
    await t.step(title, async () => {
      await configure(place, config(other.addr.port));
      const failed = await place.json(["start"], 1);
      assertEquals(failed.code, code, String(failed.error));
      assertMatch(String(failed.error), says);
      assert(isAlive(broker.hello.pid));
    });
  }
  // Also with settings that are broken: what runs can be stopped.
  await configure(place, "runtime: [");
  assertEquals((await place.json(["stop"])).pid, broker.hello.pid);
  assertEquals((await broker.ended()).code, 0);
});

longTest("a start with unusable keys fails and leaves the running broker alone", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await using broker = await startBroker(place);
  await Deno.writeTextFile(`${place.home}/.taskd/api-keys.env`, "VENDORA_API_KEY=sk-1\n", { mode: 0o644 });
  const refused = await place.json(["start"], 1);
  assertEquals(refused.code, "denied");
  assertStringIncludes(String(refused.hint), "chmod 600");
  Deno.chmodSync(`${place.home}/.taskd/api-keys.env`, 0o600);
  Deno.writeTextFileSync(`${place.home}/.taskd/api-keys.env`, "VENDORB_API_KEY='of three words'\n");
  const unusable = await place.json(["start"], 1);
  assertEquals(unusable.code, "invalid_config");
  assertStringIncludes(String(unusable.error), "api-keys.env:VENDORB_API_KEY");
  assert(isAlive(broker.hello.pid));
  assertEquals((await place.json(["stop"])).pid, broker.hello.pid);
  assertEquals((await broker.ended()).code, 0);
});

Deno.test("start without a setup names the next command", async () => {
  await using place = await makeBrokerPlace();
  const failed = await place.json(["start"], 1);
  assertEquals([failed.code, failed.hint], ["not_found", "Run taskd setup first"]);
});

Deno.test("a broker that was killed does not block the next start", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  {
    await using broker = await startBroker(place);
    broker.child.kill("SIGKILL");
    await broker.child.status;
  }
  assertEquals((await place.json(["stop"], 1)).code, "broker_unreachable");
  await using next = await startBroker(place);
  assertEquals(next.hello.replaced_pid, undefined);
  await place.taskd("stop");
  assertEquals((await next.ended()).code, 0);
});

longTest("a broker of another home directory is neither replaced nor ended", async () => {
  await using place = await makeBrokerPlace();
  await using other = await makeBrokerPlace();
  for (const one of [place, other]) await configure(one, EMBEDDED);
  await using broker = await startBroker(place);
  const { socket, pid } = broker.hello;
  const refused = await other.json(["start", "--socket", socket], 1);
  assertEquals(refused.code, "broker_running");
  assertStringIncludes(String(refused.error), `the broker of another home directory (pid ${pid}) answers on ${socket}`);
  assertStringIncludes(String(refused.hint), `broker.socket in ${other.home}/.taskd/config.yaml`);
  assertEquals((await other.json(["stop", "--socket", socket], 1)).code, "broker_unreachable");
  assert(isAlive(pid));
  await place.taskd("stop");
  assertEquals((await broker.ended()).code, 0);
});

Deno.test("two homes of a user share no broker: the second is refused, and its commands reach none", async () => {
  await using place = await makeBrokerPlace();
  await using other = await makeBrokerPlace({ TMPDIR: place.base });
  for (const one of [place, other]) await configure(one, EMBEDDED);
  await using broker = await startBroker(place);
  assertEquals((await place.json(["tasks"])).tasks, []);
  for (const words of [["tasks"], ["submit", "https://github.com/ada/shop", "Fix it"], ["ui"]]) {
    assertEquals((await other.json(words, 1)).code, "broker_unreachable");
  }
  const refused = await other.json(["start"], 1);
  assertEquals(refused.code, "broker_running");
  assertStringIncludes(String(refused.error), `the broker of another home directory (pid ${broker.hello.pid})`);
  assertEquals((await place.json(["tasks"])).tasks, []);
  await place.taskd("stop");
  assertEquals((await broker.ended()).code, 0);
});

Deno.test("start refuses places that another user could choose, and changes none of them", async () => {
  await using place = await makeBrokerPlace();
  Deno.mkdirSync(`${place.base}/etc`);
  Deno.writeTextFileSync(`${place.base}/etc/passwd`, "");
  Deno.chmodSync(`${place.base}/etc`, 0o755);
  for (const root of ["stage_root: /", `audit_root: ${place.base}/etc`, `cache_root: ${place.home}`]) {
    await configure(place, `${EMBEDDED}${root}\n`);
    const refused = await place.json(["start"], 1);
    assertEquals(refused.code, "denied", root);
    assertStringIncludes(String(refused.error), `as ${root.split(":")[0]}`);
  }
  assertEquals(Deno.statSync(`${place.base}/etc`).mode! & 0o777, 0o755);
  await configure(place, EMBEDDED);
  Deno.chmodSync(place.home, 0o777);
  const refused = await place.json(["start"], 1);
  assertEquals([refused.code, refused.hint], [
    "denied",
    `Run: chmod 755 ${place.home}, or move it away and make one of your own`,
  ]);
});

Deno.test("a start with a closed stdout serves", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  const quiet = await place.taskd("start", "--detach", "--quiet");
  assertEquals([quiet.code, quiet.stdout, quiet.stderr], [0, "", ""]);
  assertEquals((await place.taskd("stop")).code, 0);
});

Deno.test("of concurrent starts one serves, and the others report it", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  const starts = await Promise.allSettled([startBroker(place), startBroker(place), startBroker(place)]);
  const serving = starts.filter((start) => start.status === "fulfilled").map((start) => start.value);
  const failed = starts.filter((start) => start.status === "rejected").map((start) => String(start.reason));
  try {
    // Some may have been replaced by those that came later.
    assert(serving.length >= 1);
    for (const reason of failed) assertMatch(reason, /broker_running|broker_unreachable/);
    const { pid } = await place.json(["stop"]);
    assert(serving.some(({ hello }) => hello.pid === pid));
    for (const broker of serving) assertEquals((await broker.ended()).code, 0);
  } finally {
    for (const broker of serving) await broker[Symbol.asyncDispose]();
  }
});

longTest("start --detach returns once the broker serves and logs to a private file", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  const started = await place.json(["start", "--detach"]);
  try {
    assert(isAlive(Number(started.pid)));
    const log = `${place.home}/.taskd/broker.log`;
    assertEquals([started.log, Deno.statSync(log).mode! & 0o777], [log, 0o600]);
    const again = await place.json(["start", "--detach"]);
    assertEquals(again.replaced_pid, started.pid);
    const events = Deno.readTextFileSync(log).trim().split("\n").map((line) => JSON.parse(line).event);
    assertEquals(events.filter((event) => event === "broker_started").length, 2);
  } finally {
    assertEquals((await place.taskd("stop")).code, 0);
  }
});

longTest("start --detach fails with the broker's reason", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, `${EMBEDDED}audit_root: /etc/hostname/audit\n`);
  const failed = await place.json(["start", "--detach"], 1);
  assertEquals(failed.code, "denied");
  assertStringIncludes(String(failed.error), "/etc/hostname");
});

Deno.test("policy explain prints the contract's table and object", async () => {
  await using place = await makeBrokerPlace({ TASKD_TASK_BUDGET_USD: "3.5" });
  await configure(place, "max_concurrent_tasks: 4\n");
  const { code, stdout } = await place.taskd("policy", "explain");
  const lines = stdout.trimEnd().split("\n");
  assertEquals(code, 0);
  assertMatch(lines[0]!, /^SETTING +VALUE +SOURCE$/);
  assertEquals(lines.at(-1), "daemon: not reachable");
  assert(lines.some((line) => /^task_budget_usd +3\.5 +env:TASKD_TASK_BUDGET_USD$/.test(line)));
  assert(lines.some((line) => /^max_concurrent_tasks +4 +config\.yaml$/.test(line)));
  assert(lines.some((line) => /^task_timeout +30m +default$/.test(line)));
  const json = JSON.parse((await place.taskd("policy", "explain", "--json")).stdout);
  assertEquals(Object.keys(json), ["local", "live", "in_sync"]);
  assertEquals([Object.keys(json.local), json.live, json.in_sync], [["fields", "hash"], null, null]);
});
