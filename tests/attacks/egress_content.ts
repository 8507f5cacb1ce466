/**
 * Promises of the egress proxy about what goes through a connection that was allowed: TLS and HTTP of that host alone.
 */

import type { TaskEgress } from "../../broker/egress/proxy.ts";
import { connectHead, getHead, ProxyBench } from "./_proxy_bench.ts";
import { BROKEN_HELLOS, NO_HELLOS, OTHER_SERVER_NAMES, SMUGGLING_FIELDS } from "./inputs/egress.ts";
import { latin1, recorder } from "./raw_connections.ts";
import type { CommonPromise } from "./context.ts";

const TLS_LIST = { "allowed.example": [443, 8443], "other.example": [443] };
const HTTP_LIST = { "allowed.example": [80], "other.example": [80] };
const FINE = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine";
const REDIRECT =
  "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/** The first bytes of this runtime's own TLS client that names `server_name`; an address is not named in them. */
async function realHello(server_name: string): Promise<Uint8Array<ArrayBuffer>> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept();
  const client = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  const tls = await Deno.startTls(client, { hostname: server_name });
  const shaken = tls.handshake().catch(() => {});
  using conn = await accepted;
  const buffer = new Uint8Array(32 << 10);
  let length = 0;
  while (length < 5 || length < 5 + (buffer[3]! << 8 | buffer[4]!)) {
    length += await conn.read(buffer.subarray(length)) ?? 0;
  }
  tls.close();
  await shaken;
  return buffer.slice(0, length);
}

/** Opens a tunnel, sends `pieces`, and waits for the other side to end it. */
async function tunnel(bench: ProxyBench, target: string, task: TaskEgress, pieces: readonly Uint8Array[]) {
  await using client = await bench.client();
  await client.send(connectHead(target, task));
  const { status } = await client.response().catch(() => ({ status: 0 }));
  for (const piece of pieces) await client.send(piece).catch(() => {});
  await client.conn.closeWrite().catch(() => {});
  await client.rest();
  return status;
}

export const PASSING_PROMISES: readonly CommonPromise[] = [
  {
    id: "egress.server_name",
    promise: "TLS goes to the host that was asked for: not a byte of a hello that names another one, or none, passes",
    attacks: "Other server names, none, byte by byte, together with the CONNECT, on 443 and on other ports",
    async run(trial, context) {
      await using server = recorder();
      const ports = { 443: server.port, 8443: server.port };
      await using bench = await ProxyBench.start(context, { list: TLS_LIST, ports });
      const task = bench.admit();
      const own = await realHello("allowed.example");
      await tunnel(bench, "allowed.example:443", task, [own]);
      trial.control("a hello that names the host", (server.got[0]?.length ?? 0) >= own.length);
      const seen = () => server.got.slice(1).join("").length;
      for (const name of [...OTHER_SERVER_NAMES, "192.0.2.1"]) {
        const hello = await realHello(name);
        const label = name === "192.0.2.1" ? "no name" : name;
        for (const target of ["allowed.example:443", "allowed.example:8443"]) {
          const before = seen();
          await tunnel(bench, target, task, [hello]);
          trial.attempt(`a hello of ${label} to ${target}`, seen() === before);
        }
      }
      const bad = await realHello("other.example");
      const before = seen();
      await tunnel(bench, "allowed.example:443", task, Array.from(bad, (byte) => Uint8Array.of(byte)));
      trial.attempt("a hello of other.example byte by byte", seen() === before);
      await using client = await bench.client();
      await client.send(Uint8Array.from([...latin1(connectHead("allowed.example:443", task)), ...bad]));
      await client.conn.closeWrite();
      await client.rest();
      trial.attempt("a hello of other.example together with the CONNECT", seen() === before);
    },
  },
  {
    id: "egress.not_tls",
    promise: "On port 443 nothing passes but TLS",
    attacks: "Plain HTTP, SSH, a NUL, SSL 2, hellos that are malformed or never end",
    async run(trial, context) {
      await using server = recorder();
      await using bench = await ProxyBench.start(context, { list: TLS_LIST, ports: { 443: server.port } });
      const task = bench.admit();
      for (const first of [...NO_HELLOS, ...BROKEN_HELLOS]) {
        const before = server.got.join("").length;
        await tunnel(bench, "allowed.example:443", task, [latin1(first)]);
        trial.attempt(JSON.stringify(first.slice(0, 40)), server.got.join("").length === before);
      }
      await tunnel(bench, "allowed.example:443", task, [await realHello("allowed.example")]);
      trial.control("TLS", server.got.join("").length > 0);
    },
  },
  {
    id: "egress.host_field",
    promise: "A plain request goes to the host that its Host field names, each one of a connection",
    attacks: "Another Host, two, none; a second, pipelined request to another host or without credentials",
    async run(trial, context) {
      await using server = recorder(FINE);
      await using bench = await ProxyBench.start(context, { list: HTTP_LIST, ports: { 80: server.port } });
      const task = bench.admit();
      const url = "http://allowed.example/";
      for (const host of ["other.example", "evil.com", "allowed.example:8080", "allowed.example, evil.com", ""]) {
        trial.expect(`Host: ${host}`, await bench.get(url, host, task), /^40[03]/);
      }
      const twice = await bench.ask(getHead(url, "allowed.example", task, "Host: evil.com"));
      trial.expect("two Hosts", twice.status, /^40[03]$/);
      trial.attempt("connections of refused requests", server.got.length === 0, JSON.stringify(server.got));
      await using client = await bench.client();
      await client.send([
        getHead("http://allowed.example/first", "allowed.example", task),
        getHead("http://evil.com/second", "evil.com", task),
        getHead("http://allowed.example/third", "evil.com", task),
        "GET http://allowed.example/fourth HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
      ].join(""));
      const statuses: number[] = [];
      for (let at = 0; at < 4; at++) statuses.push((await client.response().catch(() => ({ status: 0 }))).status);
      trial.controlEquals("a request with its own Host", statuses[0], 200);
      trial.expect("a pipelined request to evil.com", statuses[1], 403);
      trial.expect("a pipelined request with Host: evil.com", statuses[2], 403);
      trial.expect("a pipelined request without credentials", statuses[3], 407);
      trial.attempt("requests that the host got", server.got.length === 1, JSON.stringify(server.got.slice(1)));
    },
  },
  {
    id: "egress.smuggling",
    promise: "A request that two programs would frame in two ways ends the connection",
    attacks: "Content-Length with Transfer-Encoding, repeated lengths, odd codings, folded fields, lone line feeds",
    async run(trial, context) {
      await using server = recorder(FINE);
      await using bench = await ProxyBench.start(context, { list: HTTP_LIST, ports: { 80: server.port } });
      const task = bench.admit();
      for (const fields of SMUGGLING_FIELDS) {
        await using client = await bench.client();
        const head = getHead("http://allowed.example/", "allowed.example", task, ...fields).replace("GET", "POST");
        await client.send(`${head}0\r\n\r\nGET http://evil.com/ HTTP/1.1\r\n\r\n`);
        await client.conn.closeWrite().catch(() => {});
        trial.expect(JSON.stringify(fields), (await client.rest()).slice(0, 12), "HTTP/1.1 400");
      }
      trial.attempt("connections of refused requests", server.got.length === 0, JSON.stringify(server.got));
      trial.controlEquals("a plain request", await bench.get("http://allowed.example/", "allowed.example", task), 200);
    },
  },
  {
    id: "egress.redirects",
    promise: "A redirect leads nowhere: following it is a request of its own, and checked as one",
    attacks: "A listed host that redirects to a metadata service",
    async run(trial, context) {
      await using server = recorder(REDIRECT);
      await using bench = await ProxyBench.start(context, { list: HTTP_LIST, ports: { 80: server.port } });
      const task = bench.admit();
      const { status, head } = await bench.ask(getHead("http://allowed.example/", "allowed.example", task));
      trial.controlEquals("the redirect itself", status, 302);
      const location = head.split("\r\n").flatMap((line) => /^location: (.*)$/i.exec(line)?.[1] ?? [])[0] ?? "";
      trial.expect(`GET ${location}`, await bench.get(location, new URL(location).host, task), "403 address_literal");
      trial.expect("addresses that were dialled", bench.dialled.join(", "), "127.0.0.1");
    },
  },
];
