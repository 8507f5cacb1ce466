/**
 * The egress proxy and the server behind it, for its benchmark: `server`, and `proxy PORT LOG_DIR`.
 */

import { EgressProxy } from "../../broker/egress/proxy.ts";
import { systemClock, systemRandom } from "../../lib/clock.ts";
import { type Helper, report } from "./helper.ts";

/** Name of the server, which no resolver knows. */
export const HOST = "upstream.example";
/** The server: `d` asks it for bytes without end, anything else is echoed. */
export const EGRESS_SERVER: Helper<{ port: number }> = { module: new URL(import.meta.url), words: ["server"] };
/** The proxy. */
export const PROXY_SERVER: Helper<{ port: number; password: string }> = {
  module: new URL(import.meta.url),
  words: ["proxy"],
};

const CHUNK_BYTES = 64 << 10;

async function answer(conn: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(CHUNK_BYTES);
  try {
    for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
      if (buffer[0] === "d".charCodeAt(0)) { for (;;) await conn.write(buffer); }
      await conn.write(buffer.subarray(0, count));
    }
  } catch {
    // The client has what it asked for.
  }
  conn.close();
}

async function serve(): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  report(EGRESS_SERVER, { port: listener.addr.port });
  for await (const conn of listener) answer(conn);
}

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
  report(PROXY_SERVER, { port: proxy.address.port, password });
}

if (import.meta.main) {
  const [role, port, log_dir] = Deno.args;
  if (role === "server") await serve();
  else runProxy(Number(port), log_dir!);
}
