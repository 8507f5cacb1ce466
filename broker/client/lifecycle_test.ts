import { assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sealJson } from "../../lib/sealed_json.ts";
import { acquireDaemonLock } from "../../lib/store/daemon_lock.ts";
import { askProgram } from "../sandbox/host_programs.ts";
import { type BrokerHealth, claimHome, findBroker, healthOverSocket, stopBroker, terminateBy } from "./lifecycle.ts";
import { longTest } from "../../tests/support/long.ts";

const CONFIG = new URL(import.meta.resolve("../../deno.json")).pathname;
const HEALTH: BrokerHealth = { pid: 0, version: "0", runtime: "deno", started_at: "", running: 0, pending: 0 };

/** A home directory with `.taskd` in it. */
async function inHome(work: (home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    await work(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

/** Time that passes only by sleeping. */
function quickClock() {
  let now = 0;
  return { now: () => now, monotonic: () => now, sleep: (ms: number) => (now += ms, Promise.resolve()) };
}

/** A process that holds the lock of `home`, `old`: as version 0.1.0, until it is ended; by SIGTERM unless it is `deaf`. */
async function holdElsewhere(home: string, options: { deaf?: boolean; old?: boolean } = {}) {
  const code = `
    import { lockHome } from ${JSON.stringify(import.meta.resolve("./home_lock.ts"))};
    import { acquireDaemonLock } from ${JSON.stringify(import.meta.resolve("../../lib/store/daemon_lock.ts"))};
    import { systemClock } from ${JSON.stringify(import.meta.resolve("../../lib/clock.ts"))};
    const home = ${JSON.stringify(home)};
    const lock = ${options.old ? "await acquireDaemonLock(home + '/.taskd')" : "await lockHome(home, systemClock)"};
    lock.update({ socket: ${JSON.stringify(`${home}/b.sock`)} });
    Deno.addSignalListener("SIGTERM", () => { ${options.deaf ? "" : "lock.release(); Deno.exit(0);"} });
    console.log("held");
    setInterval(() => {}, 1000);`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", `--config=${CONFIG}`, `data:application/typescript,${encodeURIComponent(code)}`],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  return {
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      await child.status;
      await reader.cancel();
    },
  };
}

const terminate = terminateBy(askProgram({ env: () => undefined }), "/bin/kill");

const answering = (pid: number) => () => Promise.resolve({ ...HEALTH, pid });
const noBroker = () => Promise.resolve(undefined);

Deno.test("a broker that runs is found by its lock and its own answer, and ends when it is asked to", () =>
  inHome(async (home) => {
    await using held = await holdElsewhere(home);
    const options = { home, askHealth: answering(held.pid), clock: systemClock, terminate };
    const found = await findBroker(options);
    assertEquals([found.state, "pid" in found && found.pid], ["serving", held.pid]);
    assertEquals(await stopBroker({ ...options, timeout_ms: 10_000 }), held.pid);
    assertEquals((await findBroker(options)).state, "none");
  }));

Deno.test("a process id that a dead broker left behind is never signalled", () =>
  inHome(async (home) => {
    await Deno.mkdir(`${home}/other/.taskd`, { recursive: true });
    await using bystander = await holdElsewhere(`${home}/other`);
    const stale = { pid: bystander.pid, host: "", socket: `${home}/b.sock`, started_at: "2026-01-01T00:00:00Z" };
    await Deno.mkdir(`${home}/.taskd/daemon.lock`);
    await Deno.writeTextFile(`${home}/.taskd/daemon.lock/daemon.lock`, JSON.stringify(stale).padEnd(2047) + "\n");
    const options = { home, askHealth: answering(bystander.pid), clock: systemClock, terminate };
    assertEquals(await stopBroker({ ...options, timeout_ms: 1_000 }), undefined);
    // Still there: signal 0 in Deno's words.
    Deno.kill(bystander.pid, "SIGCONT");
  }));

Deno.test("a holder of the lock for which another process answers is not signalled", () =>
  inHome(async (home) => {
    await using held = await holdElsewhere(home);
    const options = { home, askHealth: answering(held.pid + 1), clock: quickClock(), terminate, timeout_ms: 1_000 };
    const error = await assertRejects(() => stopBroker(options), TaskdError);
    assertEquals(error.code, "broker_unreachable");
    Deno.kill(held.pid, "SIGCONT");
  }));

Deno.test("a broker that does not answer is reported and left alone", () =>
  inHome(async (home) => {
    await using held = await holdElsewhere(home);
    const options = { home, askHealth: noBroker, clock: quickClock(), terminate, timeout_ms: 1_000 };
    await assertRejects(() => stopBroker(options), TaskdError, `A broker (pid ${held.pid}) is running, but`);
  }));

Deno.test("a broker that does not end in time is reported, with how to end it", () =>
  inHome(async (home) => {
    await using held = await holdElsewhere(home, { deaf: true });
    const options = { home, askHealth: answering(held.pid), clock: quickClock(), terminate, timeout_ms: 1_000 };
    const error = await assertRejects(() => stopBroker(options), TaskdError);
    assertEquals([error.code, error.hint?.includes(`kill -9 ${held.pid}`)], ["timed_out", true]);
  }));

Deno.test("two brokers never serve one home directory", () =>
  inHome(async (home) => {
    await using _held = await holdElsewhere(home);
    const error = await assertRejects(() => claimHome(home, systemClock), TaskdError);
    assertEquals(error.code, "broker_running");
  }));

Deno.test("a broker that was killed leaves nothing in the way of the next", () =>
  inHome(async (home) => {
    {
      await using _held = await holdElsewhere(home);
    }
    using lock = await claimHome(home, systemClock);
    assertEquals(lock.info.pid, Deno.pid);
  }));

Deno.test("where nothing was ever set up, no broker is found", async () => {
  const home = await Deno.makeTempDir();
  try {
    assertEquals(await findBroker({ home, askHealth: noBroker, clock: systemClock }), { state: "none" });
    await assertRejects(() => claimHome(home, systemClock), TaskdError);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("a socket without a listener has no broker", async () => {
  assertEquals(await healthOverSocket(systemClock)("/nowhere/taskd.sock"), undefined);
});

longTest("a home of version 0.1.0 is taken over once its broker has ended", () =>
  inHome(async (home) => {
    await using held = await holdElsewhere(home, { old: true });
    const options = { home, askHealth: answering(held.pid), clock: systemClock, terminate };
    assertEquals((await findBroker(options)).state, "serving");
    assertEquals((await assertRejects(() => claimHome(home, systemClock), TaskdError)).code, "broker_running");
    assertEquals(await stopBroker({ ...options, timeout_ms: 10_000 }), held.pid);
    using _lock = await claimHome(home, systemClock);
    assertEquals((await findBroker({ ...options, askHealth: answering(Deno.pid) })).state, "silent");
    // What version 0.1.0 does first.
    const refused = await assertRejects(() => acquireDaemonLock(`${home}/.taskd`), TaskdError);
    assertEquals(refused.message, `Cannot use ${home}/.taskd/daemon.lock: it is not a plain file`);
  }));

Deno.test("of brokers that take over a home of version 0.1.0 together, one succeeds", () =>
  inHome(async (home) => {
    await Deno.writeTextFile(`${home}/.taskd/daemon.lock`, "");
    const claims = await Promise.allSettled(Array.from({ length: 8 }, () => claimHome(home, systemClock)));
    const [one, ...others] = claims.flatMap((claim) => claim.status === "fulfilled" ? [claim.value] : []);
    one!.release();
    assertEquals(others.length, 0);
    for (const claim of claims) {
      if (claim.status === "rejected") assertEquals(claim.reason.code, "broker_running", claim.reason.message);
    }
  }));

Deno.test("a home of a later version is refused up front, and a damaged version is named", () =>
  inHome(async (home) => {
    (await claimHome(home, systemClock)).release();
    const path = `${home}/.taskd/daemon.lock/version.json`;
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, `${sealJson(`{"version":3}`)}\n`);
    const error = await assertRejects(() => claimHome(home, systemClock), TaskdError);
    assertEquals([error.code, error.message.includes("is of version 3, this program knows 2")], [
      "unsupported_layout",
      true,
    ]);
    for (const damaged of ["", text.replace("2", "3"), text.replace("sum", "sun"), "{}"]) {
      await Deno.writeTextFile(path, damaged);
      const error = await assertRejects(() => claimHome(home, systemClock), TaskdError);
      assertEquals([error.code, error.message], ["corrupt", `Cannot start: ${path} is damaged`]);
    }
    await Deno.writeTextFile(path, text);
    (await claimHome(home, systemClock)).release();
  }));
