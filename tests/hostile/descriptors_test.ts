/**
 * Floods of connections on daemons that may have few descriptors open: they go on with their work.
 */

import { assert, assertEquals } from "@std/assert";
import { startDaemon } from "../cli/support/daemon.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../cli/support/broker_place.ts";
import { makePlace } from "../cli/support/taskd.ts";
import { listeningOf } from "../support/other_user.ts";
import { LONG, scaled, scaledTest } from "../support/long.ts";
import { systemClock } from "../../lib/clock.ts";

const LIMITS = LONG ? [256, 1_200, 4_096] : [256];
const SECONDS = scaled({ short: 2, long: 70 });
const TOKEN = "0123456789abcdef";
const IGNORED = Deno.build.os === "linux" ? "" : " (ignored: prlimit is Linux's)";

type Connect = () => Promise<Deno.Conn>;

/** Holds as many half-sent requests as it can, opens new ones for those that end, and says how many it opened. */
class Flood implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #open = new Set<Deno.Conn>();
  readonly #workers: Promise<void>[];
  opened = 0;

  constructor(connects: readonly Connect[], count: number) {
    this.#workers = connects.flatMap((connect) => Array.from({ length: count }, () => this.#hold(connect)));
  }

  async #hold(connect: Connect): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      let conn: Deno.Conn | undefined;
      try {
        conn = await connect();
        this.#open.add(conn);
        this.opened++;
        await conn.write(new TextEncoder().encode("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "));
        await conn.read(new Uint8Array(1_024));
      } catch {
        // It was refused or ended.
      }
      if (conn !== undefined && this.#open.delete(conn)) conn.close();
      await systemClock.sleep(200, signal).catch(() => {});
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const conn of this.#open) {
      this.#open.delete(conn);
      conn.close();
    }
    await Promise.all(this.#workers);
  }
}

const tcp = (address: string): Connect => {
  const [hostname, port] = address.split(":");
  return () => Deno.connect({ hostname: hostname!, port: Number(port) });
};
const unix = (path: string): Connect => () => Deno.connect({ transport: "unix", path });

async function floodDaemon(limit: number): Promise<void> {
  await using place = await makePlace({ open_files: limit });
  await using daemon = await startDaemon(place, "-http", "127.0.0.1:0", "-token", TOKEN);
  const { http } = daemon.hello;
  await place.json(["create", "shop"]);
  await place.json(["session", "open", "shop"]);
  {
    await using flood = new Flood([tcp(http)], limit);
    for (let second = 0; second < SECONDS; second++) {
      // The owner's socket has descriptors of its own, and so has the store's work.
      await place.json(["session", "flush", "shop"]);
      await place.json(["fork", "shop", `f${second}`]);
      await systemClock.sleep(1_000);
    }
    assert(flood.opened >= limit);
  }
  const health = await until(() => fetch(`http://${http}/healthz`).then((response) => response.json()));
  assertEquals(health, { ok: true, sessions: 1 });
  assertEquals((await place.json(["verify", "shop"])).intact, true);
  await place.json(["session", "close", "shop"]);
  assertEquals((await daemon.stop()).code, 0);
}

async function floodBroker(limit: number): Promise<void> {
  await using place = await makeBrokerPlace({}, { open_files: limit });
  await configure(place, `${EMBEDDED}broker:\n  addr: 127.0.0.1:0\n`);
  await using broker = await startBroker(place);
  const { socket, addr, ui_url } = broker.hello as typeof broker.hello & { addr: string };
  {
    await using flood = new Flood([tcp(addr), tcp(new URL(ui_url).host)], limit);
    for (let second = 0; second < SECONDS; second++) {
      assertEquals((await place.json(["tasks"])).tasks, []);
      await systemClock.sleep(1_000);
    }
    assert(flood.opened >= limit);
  }
  {
    // Also through the owner's own socket, which ends nothing else.
    await using _flood = new Flood([unix(socket)], limit);
    await systemClock.sleep(2_000);
  }
  assertEquals(await until(async () => (await place.json(["tasks"])).tasks), []);
  await place.taskd("stop");
  assertEquals((await broker.ended()).code, 0);
}

/** The first line of the answer to a request in raw bytes. */
async function statusAt(port: number, request: string): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(new TextEncoder().encode(`${request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`));
  const answer = new Uint8Array(4_096);
  const count = await conn.read(answer);
  if (count === null) throw new Error(`port ${port} closed the connection`);
  return new TextDecoder().decode(answer.subarray(0, count)).split("\r\n")[0]!;
}

async function limitOpenFiles(pid: number, limit: number): Promise<void> {
  const { success } = await new Deno.Command("prlimit", { args: ["--pid", `${pid}`, `--nofile=${limit}:`] }).output();
  assert(success);
}

Deno.test({
  name: `ports of sandboxes take connections again after descriptors ran out${IGNORED}`,
  ignore: IGNORED !== "",
  fn: async () => {
    await using place = await makeBrokerPlace({}, { open_files: 1_024 });
    await configure(place, EMBEDDED);
    await using broker = await startBroker(place);
    const { pid, ui_url } = broker.hello;
    const ports = listeningOf(pid).ports.filter((port) => port !== Number(new URL(ui_url).port));
    // The gateway's and the proxy's, which ask for the token of a task.
    assertEquals(ports.length, 2);
    const asked = async () => {
      const answers = await Promise.all(ports.map((port) => statusAt(port, "GET http://a.example/")));
      return answers.map((line) => line.slice(0, 12)).sort();
    };
    const expected = ["HTTP/1.1 401", "HTTP/1.1 407"];
    assertEquals(await until(asked), expected);
    const openFiles = () => [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
    const limit = openFiles() + 4;
    await limitOpenFiles(pid, limit);
    const held: Deno.Conn[] = [];
    for (let count = 0; count < 16; count++) {
      for (const port of ports) held.push(await Deno.connect({ hostname: "127.0.0.1", port }));
    }
    while (openFiles() < limit) await systemClock.sleep(20);
    // Several tries to accept fail.
    await systemClock.sleep(500);
    for (const conn of held) conn.close();
    await limitOpenFiles(pid, 1_024);
    assertEquals(await until(asked), expected);
    await place.taskd("stop");
    assertEquals((await broker.ended()).code, 0);
  },
});

for (const [what, flood] of [["branch-store daemon", floodDaemon], ["broker", floodBroker]] as const) {
  scaledTest(`a ${what} with few descriptors works through a flood of connections`, async () => {
    await Promise.all(LIMITS.map(flood));
  });
}

/** The answer once there is one: connections of a flood take a moment to be closed. */
async function until<T>(ask: () => Promise<T>): Promise<T> {
  for (let attempt = 0;; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (attempt === 50) throw error;
      await systemClock.sleep(200);
    }
  }
}
