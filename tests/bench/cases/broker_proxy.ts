/**
 * What the egress proxy costs, beside a direct connection and beside squid with the same rules.
 */

import { join } from "@std/path/join";
import type { Bench, BenchCase } from "../bench.ts";
import { EGRESS_SERVER, HOST, PROXY_SERVER } from "../broker_proxy_server.ts";
import type { Place } from "../file_systems.ts";
import { helperProcess } from "../helper.ts";
import { freePort, output, residentBytes, run } from "../process.ts";
import { interleave, type Measure } from "../stats.ts";

/** Tunnels opened at a time. */
const CONCURRENCY = 16;
const CHUNK_BYTES = 64 << 10;
const MIB = 2 ** 20;
const USER = "bench";
/** Where Debian's package puts what squid checks passwords with. */
const SQUID_AUTH = "/usr/lib/squid/basic_ncsa_auth";

/** A way to the server. */
interface Way {
  name: string;
  open(): Promise<Deno.TcpConn>;
}

/** The case. */
export const proxy: BenchCase = {
  name: "proxy",
  title: "Go through the egress proxy",
  method:
    "A tunnel is opened with CONNECT, used for one round trip and closed, 16 at a time. The client is one process, the server another, each proxy a process of " +
    "its own with its access log on; both look a name and a port up in a list, and a password. `share of a direct copy` compares neighbouring turns.",
  places: "plain",
  async run(bench, place) {
    await using server = await helperProcess(EGRESS_SERVER);
    const { port } = server.reported;
    const direct: Way = { name: "direct", open: () => Deno.connect({ hostname: "127.0.0.1", port }) };
    await using own = await helperProcess(PROXY_SERVER, [String(port), join(place.dir, "log")]);
    const field = basic(own.reported.password);
    const ways = [direct, { name: "taskd", open: () => connectThrough(own.reported.port, `${HOST}:${port}`, field) }];
    await using squid = await startSquid(bench, port);
    if (squid !== undefined) ways.push(squid.way);
    await compare(bench, place, ways);
    bench.add(place, "taskd's memory after it", "MB", [await residentBytes(own.pid) / MIB]);
  },
};

async function compare(bench: Bench, place: Place, ways: readonly Way[]): Promise<void> {
  const measured = (measure: (way: Way) => Promise<number>, samples: number) => {
    const subjects = Object.fromEntries(ways.map((way): [string, Measure] => [way.name, () => measure(way)]));
    return interleave(subjects, { samples });
  };
  const opened = await measured((way) => opens(way, bench.pick(4_000, 300)), bench.pick(8, 3));
  for (const [name, samples] of Object.entries(opened)) {
    bench.add(place, `tunnels, ${name}`, "tunnels/s", samples, {
      beside: "tunnels, direct",
      ...(name === "taskd" ? { target: { value: 1_000, is: "at_least" } as const } : {}),
    });
  }
  const copied = await measured((way) => copies(way, bench.pick(1e9, 64e6)), bench.pick(8, 3));
  for (const [name, samples] of Object.entries(copied)) {
    bench.add(place, `copied, ${name}`, "MB/s", samples, { beside: "copied, direct" });
  }
  for (const [name, samples] of Object.entries(copied)) {
    if (name === "direct") continue;
    const shares = samples.map((rate, round) => 100 * rate / copied.direct![round]!);
    bench.add(place, `share of a direct copy, ${name}`, "%", shares, {
      ...(name === "taskd" ? { target: { value: 70, is: "at_least" } as const } : {}),
    });
  }
  const turns = await measured((way) => roundTrip(way, bench.pick(4_000, 300)), bench.pick(8, 3));
  for (const [name, samples] of Object.entries(turns)) {
    bench.add(place, `round trip in a tunnel, ${name}`, "ms", samples, { beside: "round trip in a tunnel, direct" });
  }
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

function basic(password: string): string {
  return `Proxy-Authorization: Basic ${btoa(`${USER}:${password}`)}\r\n`;
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
  for (let done = 0; done < bytes;) {
    const count = await conn.read(buffer);
    if (count === null) throw new Error(`${way.name} ended the tunnel after ${done} bytes`);
    done += count;
  }
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
  for (let done = 0; done < count; done++) {
    await conn.write(buffer);
    await conn.read(buffer);
  }
  const elapsed_ms = performance.now() - begun_ms;
  conn.close();
  return elapsed_ms / count;
}

/** Squid on loopback; undefined, and noted, when it is not there. */
async function startSquid(
  bench: Bench,
  upstream_port: number,
): Promise<AsyncDisposable & { way: Way } | undefined> {
  if (await output("squid", ["-v"]) === undefined) {
    bench.skip("squid", "it is not installed");
    return undefined;
  }
  // It becomes the user nobody, who may not enter the benchmark's directory.
  const run_dir = await Deno.makeTempDir({ prefix: "taskd-bench-squid-" });
  await Deno.chmod(run_dir, 0o777);
  const password = "of-benchmarks-only";
  const port = freePort();
  const hash = (await run("openssl", ["passwd", "-apr1", password])).trim();
  await Deno.writeTextFile(join(run_dir, "passwords"), `${USER}:${hash}\n`, { mode: 0o644 });
  await Deno.writeTextFile(join(run_dir, "hosts"), `127.0.0.1 ${HOST}\n`, { mode: 0o644 });
  const config = [
    `http_port 127.0.0.1:${port}`,
    `hosts_file ${run_dir}/hosts`,
    `auth_param basic program ${SQUID_AUTH} ${run_dir}/passwords`,
    "auth_param basic children 1",
    "acl known proxy_auth REQUIRED",
    `acl host dstdomain ${HOST}`,
    `acl port port ${upstream_port}`,
    "http_access deny !known",
    "http_access allow CONNECT host port",
    "http_access deny all",
    "cache deny all",
    "cache_mem 8 MB",
    `access_log stdio:${run_dir}/access.log`,
    `cache_log ${run_dir}/cache.log`,
    `coredump_dir ${run_dir}`,
    "cache_store_log none",
    "pid_filename none",
    "shutdown_lifetime 0 seconds",
    "pinger_enable off",
    "cache_effective_user nobody",
    "visible_hostname bench",
    "max_filedescriptors 4096",
  ];
  await Deno.writeTextFile(join(run_dir, "squid.conf"), config.join("\n") + "\n");
  const args = ["-N", "-f", join(run_dir, "squid.conf")];
  const child = new Deno.Command("squid", { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
  let ended = false;
  child.status.then(() => ended = true);
  const stop = async () => {
    if (!ended) child.kill("SIGTERM");
    await child.status;
    await Deno.remove(run_dir, { recursive: true });
  };
  const way = { name: "squid", open: () => connectThrough(port, `${HOST}:${upstream_port}`, basic(password)) };
  for (let attempt = 0; attempt < 100 && !ended; attempt++) {
    try {
      (await way.open()).close();
      return { way, [Symbol.asyncDispose]: stop };
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  bench.skip("squid", "it does not start");
  await stop();
  return undefined;
}
