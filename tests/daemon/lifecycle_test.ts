import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path/join";
import { subscribe } from "../../lib/client/client.ts";
import { TaskdError } from "../../lib/errors.ts";
import { readDaemonInfo } from "../../lib/store/daemon_lock.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

Deno.test("the daemon logs its store, answers, and leaves nothing behind on SIGTERM", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  assert(daemon.log.includes(`taskd: serving ${place.store} on ${place.socket}`));
  using client = await daemon.connect();
  const status = await client.call("status", {});
  assertEquals([status.sessions, status.store, status.pid], [[], place.store, daemon.pid]);
  assert(/^3\.\d+\.\d+$/.test(status.sqlite_version));
  assertEquals(await daemon.stop(), 0);
  await assertRejects(() => Deno.lstat(place.socket), Deno.errors.NotFound);
});

Deno.test("the store that a daemon makes is its user's alone, and leads clients to the daemon", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  assertEquals((await Deno.lstat(place.store)).mode! & 0o777, 0o700);
  assertEquals((await Deno.lstat(place.socket)).mode! & 0o777, 0o600);
  const info = await readDaemonInfo(place.store);
  assertEquals([info?.pid, info?.socket], [daemon.pid, place.socket]);
});

// conformance: 1.single_daemon
Deno.test("a second daemon on the store, or on the socket, is refused", async () => {
  await using place = new Place();
  await using other = new Place();
  await using _daemon = await DaemonProcess.start(place);
  const socket = join(place.directory, "second.sock");
  const sameStore = await assertRejects(() => DaemonProcess.start(place, { socket }), Error);
  assertStringIncludes(sameStore.message, "daemon_running");
  const sameSocket = await assertRejects(() => DaemonProcess.start(other, { socket: place.socket }), Error);
  assertStringIncludes(sameSocket.message, "daemon_running");
  using client = await _daemon.connect();
  assertEquals((await client.call("databases", {})).databases, []);
});

Deno.test("after SIGKILL the next daemon starts over the stale socket and opens the same branch", async () => {
  await using place = new Place();
  {
    await using daemon = await DaemonProcess.start(place);
    using client = await daemon.connect();
    await client.call("create", { db: "app" });
    await client.call("open", { db: "app" });
    await daemon.stop("SIGKILL");
  }
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  const { checkout } = await client.call("open", { db: "app" });
  assert(checkout.startsWith(place.store));
});

Deno.test("shutdown answers, closes every session, notifies subscribers, and ends the process", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("open", { db: "app" });
  const events = await daemon.events();
  assertEquals(await client.call("shutdown", {}), { sessions: 1 });
  await client.closed();
  await events.ended;
  assertEquals(events.seen.at(-1)?.type, "session_closed");
  assertEquals(await daemon.ended(), 0);
});

Deno.test("a graceful shutdown is not held up by a subscriber that does not read", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place);
  const deaf = await Deno.connect({ transport: "unix", path: place.socket });
  await deaf.write(new TextEncoder().encode('{"op":"subscribe"}\n'));
  await deaf.read(new Uint8Array(100));
  assertEquals(await daemon.stop(), 0);
  deaf.close();
});

Deno.test("serve() refuses numbers that make no sense", async () => {
  await using place = new Place();
  const message = (await assertRejects(() => DaemonProcess.start(place, { snapshot_every: 0 }), Error)).message;
  assertStringIncludes(message, "-snapshot-every");
});

Deno.test("a subscription to a daemon that is gone fails with daemon_unreachable", async () => {
  await using place = new Place();
  const error = await assertRejects(() => subscribe(place.socket).next(), TaskdError);
  assertEquals(error.code, "daemon_unreachable");
});
