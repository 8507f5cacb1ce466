/**
 * The egress proxy beside a direct connection, and beside squid where that is installed, in one run.
 *
 * `deno run -A --no-prompt tests/broker/egress_bench.ts [--quick] [--json] [--squid-conf=FILE]`
 *
 * FILE has further lines for squid's configuration, for one that stands elsewhere than its package puts it.
 *
 * Client and server are this process; each proxy is a process of its own, with its access log on. Every measure is
 * taken in turns, so that a busy moment of the machine meets all of them; the median of the turns counts.
 *
 * @module
 */

import { join } from "@std/path/join";
import { EgressProxy } from "../../broker/egress/proxy.ts";
import { systemClock, systemRandom } from "../../lib/clock.ts";

const HOST = "upstream.example";
/** Tunnels opened at a time. */
const CONCURRENCY = 16;
const CHUNK_BYTES = 64 << 10;

/** A way to the server. */
interface Way {
  name: string;
  open(): Promise<Deno.TcpConn>;
}

/** Runs the proxy for the server on `port`; prints its address and password. */
function runProxy(port: number, log_dir: string): void {
  const proxy = EgressProxy.listen({ hostname: "127.0.0.1", port: 0 }, {
    clock: systemClock,
    random: systemRandom,
    egress: { entries: [{ host: HOST, ports: [port] }] },
    log_dir,
    resolve: () => Promise.resolve(["127.0.0.1"]),
    allow_addresses: ["127.0.0.1"],
  });
  const { password } = proxy.admit({ task_id: "bench" });
  console.log(JSON.stringify({ port: proxy.address.port, password }));
}

/** Accepts connections: `d` asks for bytes without end, anything else is echoed. */
function serve(): Deno.TcpListener {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const one = async (conn: Deno.TcpConn) => {
    const buffer = new Uint8Array(CHUNK_BYTES);
    try {
      for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
        if (buffer[0] === 100) { for (;;) await conn.write(buffer); }
        await conn.write(buffer.subarray(0, count));
      }
    } catch {
      // The client has what it wanted.
    }
    conn.close();
  };
  (async () => {
    try {
      for await (const conn of listener) one(conn);
    } catch {
      // The end.
    }
  })();
  return listener;
}

async function connectThrough(port: number, target: string, field: string): Promise<Deno.TcpConn> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(new TextEncoder().encode(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${field}\r\n`));
  const buffer = new Uint8Array(4_096);
  let answer = "";
  while (!answer.includes("\r\n\r\n")) {
    const count = await conn.read(buffer);
    if (count === null) throw new Error(`the proxy ended the connection: ${answer}`);
    answer += new TextDecoder().decode(buffer.subarray(0, count));
  }
  if (!/^HTTP\/1\.\d 200 /.test(answer)) throw new Error(`the proxy refused: ${answer}`);
  return conn;
}

/** Tunnels opened, used for one round trip and closed, per second. */
async function opens(way: Way, count: number): Promise<number> {
  let left = count;
  const begun_ms = performance.now();
  await Promise.all(Array.from({ length: CONCURRENCY }, async () => {
    const buffer = new Uint8Array(16);
    while (left-- > 0) {
      const conn = await way.open();
      await conn.write(buffer);
      await conn.read(buffer);
      conn.close();
    }
  }));
  return count / (performance.now() - begun_ms) * 1_000;
}

/** MB per second of one tunnel. */
async function copies(way: Way, bytes: number): Promise<number> {
  const conn = await way.open();
  await conn.write(new TextEncoder().encode("d"));
  const buffer = new Uint8Array(CHUNK_BYTES);
  const begun_ms = performance.now();
  for (let done = 0; done < bytes;) done += await conn.read(buffer) ?? bytes;
  const elapsed_ms = performance.now() - begun_ms;
  conn.close();
  return bytes / 1e6 / (elapsed_ms / 1_000);
}

/** Milliseconds that a round trip of 16 bytes takes in an open tunnel. */
async function roundTrip(way: Way, count: number): Promise<number> {
  const conn = await way.open();
  conn.setNoDelay(true);
  const buffer = new Uint8Array(16);
  const begun_ms = performance.now();
  for (let i = 0; i < count; i++) {
    await conn.write(buffer);
    await conn.read(buffer);
  }
  const elapsed_ms = performance.now() - begun_ms;
  conn.close();
  return elapsed_ms / count;
}

async function startSquid(
  directory: string,
  include: string | undefined,
): Promise<{ way: Way; stop: () => Promise<void> } | undefined> {
  const free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = free.addr;
  free.close();
  const config = [
    `http_port 127.0.0.1:${port}`,
    "http_access allow all",
    "cache deny all",
    "cache_mem 8 MB",
    `access_log stdio:${directory}/access.log`,
    `cache_log ${directory}/cache.log`,
    "cache_store_log none",
    "pid_filename none",
    "shutdown_lifetime 0 seconds",
    "pinger_enable off",
    "cache_effective_user nobody",
    "visible_hostname bench",
    "max_filedescriptors 4096",
    ...include === undefined ? [] : [`include ${include}`],
  ];
  await Deno.chmod(directory, 0o777);
  await Deno.writeTextFile(join(directory, "squid.conf"), config.join("\n") + "\n");
  let child: Deno.ChildProcess;
  try {
    const args = ["-N", "-f", join(directory, "squid.conf")];
    child = new Deno.Command("squid", { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
  } catch {
    return undefined;
  }
  const stop = async () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // It ended by itself, and cache.log says why.
    }
    await child.status;
  };
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return { way: { name: "squid", open: () => connectThrough(port, upstream, "") }, stop };
    } catch {
      await systemClock.sleep(50);
    }
  }
  await stop();
  return undefined;
}

async function startProxy(port: number, directory: string): Promise<{ way: Way; stop: () => Promise<void> }> {
  const args = ["run", "-A", "--no-prompt", import.meta.filename!, "proxy", String(port), directory];
  const child = new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "piped", stderr: "inherit" }).spawn();
  const reader = child.stdout.getReader();
  const { port: proxy_port, password } = JSON.parse(new TextDecoder().decode((await reader.read()).value));
  const field = `Proxy-Authorization: Basic ${btoa(`bench:${password}`)}\r\n`;
  return {
    way: { name: "taskd", open: () => connectThrough(proxy_port, `${HOST}:${port}`, field) },
    stop: async () => {
      child.kill("SIGKILL");
      await reader.cancel();
      await child.status;
    },
  };
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

let upstream = "";

async function main(quick: boolean, json: boolean, squid_conf: string | undefined): Promise<void> {
  const directory = await Deno.makeTempDir();
  const listener = serve();
  upstream = `127.0.0.1:${listener.addr.port}`;
  const squid_dir = join(directory, "squid");
  await Deno.chmod(directory, 0o755);
  await Deno.mkdir(squid_dir);
  const taskd = await startProxy(listener.addr.port, join(directory, "taskd"));
  const squid = await startSquid(squid_dir, squid_conf);
  const direct: Way = { name: "direct", open: () => Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }) };
  const ways = [direct, taskd.way, ...squid === undefined ? [] : [squid.way]];
  const measures = {
    "tunnels per second": (way: Way) => opens(way, quick ? 1_000 : 4_000),
    "MB per second": (way: Way) => copies(way, quick ? 256e6 : 1e9),
    "round trip ms": (way: Way) => roundTrip(way, quick ? 1_000 : 4_000),
  };
  const figures: Record<string, Record<string, number>> = {};
  try {
    for (const [measure, take] of Object.entries(measures)) {
      const turns = new Map(ways.map(({ name }) => [name, [] as number[]]));
      for (let turn = 0; turn < (quick ? 3 : 5); turn++) {
        for (const way of ways) turns.get(way.name)!.push(await take(way));
      }
      figures[measure] = Object.fromEntries([...turns].map(([name, values]) => [name, median(values)]));
    }
  } finally {
    await taskd.stop();
    await squid?.stop();
    listener.close();
    await Deno.remove(directory, { recursive: true });
  }
  if (json) console.log(JSON.stringify(figures));
  else {
    console.table(
      Object.fromEntries(
        Object.entries(figures).map(([measure, values]) => [
          measure,
          Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value.toPrecision(3))])),
        ]),
      ),
    );
    if (squid === undefined) console.log("squid is not installed, or does not start: not measured");
  }
}

if (import.meta.main) {
  if (Deno.args[0] === "proxy") runProxy(Number(Deno.args[1]), Deno.args[2]!);
  else {
    const squid_conf = Deno.args.find((arg) => arg.startsWith("--squid-conf="))?.slice("--squid-conf=".length);
    await main(Deno.args.includes("--quick"), Deno.args.includes("--json"), squid_conf);
  }
}
