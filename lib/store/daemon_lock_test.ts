import { assert, assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { acquireDaemonLock, daemonLockPath, readDaemonInfo } from "./daemon_lock.ts";

const MODULE = import.meta.resolve("./daemon_lock.ts");
const CONFIG = new URL(import.meta.resolve("../../deno.json")).pathname;

/** Takes the lock, says so, and stays until it is killed; with `child`, beside a process of its own. */
const DAEMON = `
  const { acquireDaemonLock } = await import(${JSON.stringify(MODULE)});
  const [directory, socket, child] = Deno.args;
  const lock = await acquireDaemonLock(directory);
  lock.update({ socket });
  const sleeper = child ? new Deno.Command("sleep", { args: ["60"] }).spawn() : undefined;
  console.log("held " + (sleeper?.pid ?? 0));
  setInterval(() => lock.info, 1000);
`;

interface Daemon extends AsyncDisposable {
  process: Deno.ChildProcess;
  child_pid: number;
}

async function startDaemon(directory: string, options: { child?: boolean } = {}): Promise<Daemon> {
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(script, DAEMON);
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", `--config=${CONFIG}`, script, directory, "/run/test.sock"]
      .concat(options.child ? ["child"] : []),
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream())
    .getReader();
  const { value = "" } = await reader.read();
  assert(value.startsWith("held "), `the daemon said ${JSON.stringify(value)}`);
  return {
    process,
    child_pid: Number(value.slice(5)),
    [Symbol.asyncDispose]: async () => {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended already.
      }
      await process.status;
      await reader.cancel();
      await Deno.remove(script);
    },
  };
}

async function inDirectory(fn: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await fn(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("a second daemon is refused by name of the first, in this process and from another", () =>
  inDirectory(async (directory) => {
    await using daemon = await startDaemon(directory);
    const error = await assertRejects(() => acquireDaemonLock(directory), TaskdError);
    assertEquals(error.code, "daemon_running");
    assert(error.message.includes(`pid ${daemon.process.pid}`), error.message);
    assert(error.message.includes("/run/test.sock"), error.message);
    assertEquals((await readDaemonInfo(directory))?.pid, daemon.process.pid);
  }));

Deno.test("SIGKILL frees the lock at once, although a child of the daemon lives on", () =>
  inDirectory(async (directory) => {
    await using daemon = await startDaemon(directory, { child: true });
    daemon.process.kill("SIGKILL");
    await daemon.process.status;
    try {
      assertEquals(await readDaemonInfo(directory), undefined);
      using lock = await acquireDaemonLock(directory);
      assertEquals((await readDaemonInfo(directory))?.pid, lock.info.pid);
    } finally {
      Deno.kill(daemon.child_pid, "SIGKILL");
    }
  }));

Deno.test("readDaemonInfo() describes only a live daemon, and where it listens", () =>
  inDirectory(async (directory) => {
    assertEquals(await readDaemonInfo(directory), undefined);
    const lock = await acquireDaemonLock(directory);
    assertEquals(await readDaemonInfo(directory), lock.info);
    assertEquals(lock.info.socket, undefined);
    lock.update({ socket: "/run/a-rather-long-name.sock" });
    lock.update({ socket: "/run/b.sock" });
    const info = await readDaemonInfo(directory);
    assertEquals([info?.pid, info?.socket], [Deno.pid, "/run/b.sock"]);
    lock.release();
    lock.release();
    assertEquals(await readDaemonInfo(directory), undefined);
    using _again = await acquireDaemonLock(directory);
    assertEquals((await readDaemonInfo(directory))?.socket, undefined);
  }));

Deno.test("clients that look neither take the lock nor keep a daemon from it", () =>
  inDirectory(async (directory) => {
    (await acquireDaemonLock(directory)).release();
    // Holds the lock shared, as a client does, until the daemon has met it.
    const client = await Deno.open(`${directory}/daemon.lock`);
    assert(client.tryLockSync(false));
    let met = false;
    const clock = {
      now: () => 0,
      monotonic: () => 0,
      sleep: () => {
        met = true;
        client.close();
        return Promise.resolve();
      },
    };
    using _lock = await acquireDaemonLock(directory, { clock });
    assert(met);
    await Promise.all(Array.from({ length: 50 }, () => readDaemonInfo(directory)));
    assertEquals((await assertRejects(() => acquireDaemonLock(directory), TaskdError)).code, "daemon_running");
  }));

// conformance: 1.single_daemon
Deno.test("of many daemons that start at once exactly one serves", () =>
  inDirectory(async (directory) => {
    const outcomes = await Promise.allSettled(Array.from({ length: 16 }, () => acquireDaemonLock(directory)));
    const locks = outcomes.flatMap((outcome) => outcome.status === "fulfilled" ? [outcome.value] : []);
    assertEquals(locks.length, 1);
    locks[0]!.release();
  }));

Deno.test("the lock's file is private, and a directory that is missing is not_found", () =>
  inDirectory(async (directory) => {
    using _lock = await acquireDaemonLock(directory);
    assertEquals((await Deno.stat(`${directory}/daemon.lock`)).mode! & 0o777, 0o600);
    assertEquals((await assertRejects(() => acquireDaemonLock(`${directory}/none`), TaskdError)).code, "not_found");
    assertEquals(await readDaemonInfo(`${directory}/none`), undefined);
  }));

Deno.test("a file that says nothing useful does not hide that the lock is held", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/daemon.lock`;
    await Deno.writeTextFile(path, "{");
    assertEquals(await readDaemonInfo(directory), undefined);
    using holder = await Deno.open(path);
    assert(holder.tryLockSync(true));
    let now = 0;
    const clock = { now: () => now, monotonic: () => now, sleep: (ms: number) => Promise.resolve(void (now += ms)) };
    assertEquals((await assertRejects(() => readDaemonInfo(directory, { clock }), TaskdError)).code, "unavailable");
    assertEquals((await assertRejects(() => acquireDaemonLock(directory), TaskdError)).code, "daemon_running");
  }));

Deno.test("clients that check at the same moment do not take each other for a daemon", () =>
  inDirectory(async (directory) => {
    (await acquireDaemonLock(directory)).release();
    using looking = Deno.openSync(daemonLockPath(directory));
    looking.lockSync(false);
    assertEquals(await readDaemonInfo(directory), undefined);
  }));

Deno.test("a lock's file with any one bit flipped names its holder rightly or not at all", () =>
  inDirectory(async (directory) => {
    using lock = await acquireDaemonLock(directory);
    lock.update({ socket: "/run/taskd.sock" });
    const path = daemonLockPath(directory);
    const bytes = await Deno.readFile(path);
    let now_ms = 0;
    const clock = { ...systemClock, monotonic: () => now_ms += 2_000, sleep: () => Promise.resolve() };
    for (let at = 0; at < 300; at++) {
      await Deno.writeFile(path, bytes.with(at, bytes[at]! ^ (1 << at % 8)));
      const found = await readDaemonInfo(directory, { clock }).catch((error) => error);
      // In the name of the checksum's own field a bit changes nothing that is said.
      if (!(found instanceof Error)) assertEquals(found, lock.info, `byte ${at}`);
      else assert(hasCode(found, "unavailable") && found.message.includes(path), String(found));
    }
    await Deno.writeFile(path, bytes);
    assertEquals(await readDaemonInfo(directory), lock.info);
    // As version 0.1.0 writes it.
    await Deno.writeTextFile(path, JSON.stringify(lock.info).padEnd(2047) + "\n");
    assertEquals(await readDaemonInfo(directory), lock.info);
  }));
