/**
 * A gateway that puts the key in and passes everything on: every promise about the gateway is broken on it.
 */

import type { Surfaces } from "./context.ts";
import { latin1, Server, text } from "./raw_connections.ts";
import type { GatewayOptions } from "../../broker/gateway/gateway.ts";

/** Starts one. */
export function naiveGateway({ upstreams }: GatewayOptions): ReturnType<Surfaces["gateway"]> {
  const upstream = Object.values(upstreams)[0] as { base_url: string; api_key: string };
  const forward = async (head: string, body: Uint8Array<ArrayBuffer>): Promise<string> => {
    const [line = "", ...fields] = head.split("\r\n");
    const [method = "", path = ""] = line.split(" ");
    const headers = new Headers({ "x-operator-key": upstream.api_key });
    for (const field of fields) {
      const at = field.indexOf(":");
      const name = field.slice(0, at).toLowerCase();
      if (!["host", "content-length", "transfer-encoding", "connection"].includes(name)) {
        headers.append(name, field.slice(at + 1).trim());
      }
    }
    const target = URL.parse(path, upstream.base_url) ?? new URL(upstream.base_url);
    const response = await fetch(new URL(`${target.pathname}${target.search}`, upstream.base_url), {
      method: method === "TRACE" ? "GET" : method,
      headers,
      redirect: "manual",
      ...(method === "GET" || method === "HEAD" ? {} : { body }),
    });
    const content = await response.text();
    const lines = [...response.headers].map(([name, value]) => `${name}: ${value}`);
    const shown = lines.filter((field) => !/^(content-length|transfer-encoding|connection|vary):?/.test(field));
    return `HTTP/1.1 ${response.status} X\r\n${shown.join("\r\n")}\r\nconnection: close\r\ncontent-length: ` +
      `${new TextEncoder().encode(content).length}\r\n\r\n${content}`;
  };
  const server = Server.start(async (conn) => {
    const parts: string[] = [];
    const buffer = new Uint8Array(1 << 20);
    let head = "";
    let length = -1;
    let have = 0;
    while (length < 0 || have < length) {
      const count = await conn.read(buffer);
      if (count === null) return;
      const part = text(buffer.subarray(0, count));
      if (length >= 0) {
        parts.push(part);
        have += count;
        continue;
      }
      head += part;
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) continue;
      const rest = head.slice(end + 4);
      head = head.slice(0, end);
      length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      parts.push(rest);
      have = rest.length;
    }
    await conn.write(latin1(await forward(head, latin1(parts.join("")))));
  });
  let tokens = 0;
  return {
    address: { hostname: "127.0.0.1", port: server.port },
    lease: ({ task_id, lane, auth }) => {
      const spend = () => ({
        usd: 0,
        requests: 0,
        unmetered_requests: 0,
        input_tokens: 0,
        output_tokens: 0,
        in_flight: 0,
        priced: true,
      });
      const token = `naive-token-that-is-long-enough-${++tokens}`;
      return { token, task_id, lane, auth, spend, reported: () => undefined, end: () => Promise.resolve(spend()) };
    },
    close: () => server[Symbol.asyncDispose](),
  };
}
