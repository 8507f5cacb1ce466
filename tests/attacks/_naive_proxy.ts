/**
 * A forward proxy that checks nothing: every promise about egress is broken on it.
 */

import type { EgressProxyOptions } from "../../broker/egress/proxy.ts";
import type { Surfaces } from "./context.ts";
import { latin1, Server, text } from "./raw_connections.ts";

/** Starts one. */
export function naiveProxy(_address: unknown, options: EgressProxyOptions): ReturnType<Surfaces["proxy"]> {
  const { resolve = () => Promise.resolve(["127.0.0.1"]), connect = dial } = options;
  const server = Server.start(async (conn) => {
    const buffer = new Uint8Array(64 << 10);
    let seen = "";
    while (!seen.includes("\r\n\r\n")) {
      const count = await conn.read(buffer);
      if (count === null) return;
      seen += text(buffer.subarray(0, count));
    }
    const [method = "", target = ""] = seen.split(" ");
    const url = URL.parse(method === "CONNECT" ? `http://${target}` : target);
    // Looked up once too often: the classic mistake.
    await resolve(url?.hostname ?? target);
    const [address = "127.0.0.1"] = await resolve(url?.hostname ?? target);
    const upstream = await connect(address, Number(url?.port || 80), AbortSignal.timeout(5_000)).catch(() => undefined);
    if (upstream === undefined) {
      await conn.write(latin1("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"));
      return;
    }
    if (method === "CONNECT") {
      await conn.write(latin1("HTTP/1.1 200 OK\r\n\r\n"));
      const rest = seen.slice(seen.indexOf("\r\n\r\n") + 4);
      if (rest !== "") await upstream.write(latin1(rest));
    } else {
      await upstream.write(latin1(seen));
    }
    const pipe = async (from: typeof upstream, to: typeof upstream) => {
      const bytes = new Uint8Array(64 << 10);
      for (let count = await from.read(bytes); count !== null; count = await from.read(bytes)) {
        await to.write(bytes.subarray(0, count));
      }
      await to.closeWrite();
    };
    // Either side ends both.
    await Promise.all([pipe(conn, upstream), pipe(upstream, conn)]).catch(() => {}).finally(() => upstream.close());
  });
  return {
    address: { hostname: "127.0.0.1", port: server.port },
    admit: ({ task_id }) => ({
      username: task_id,
      password: "x",
      url: "",
      decisions: () => [],
      dropped: () => 0,
      grant: () => {},
      grantUses: () => [],
      end: () => {},
    }),
    close: () => server[Symbol.asyncDispose](),
  };
}

function dial(hostname: string, port: number): Promise<Deno.TcpConn> {
  return Deno.connect({ hostname, port });
}
