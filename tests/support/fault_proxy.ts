/**
 * A proxy between an HTTP client and a server that does to requests what networks and load
 * balancers do: cuts them off before or after they had their effect, answers in the server's
 * stead, hangs, stalls, truncates. Bytes pass unchanged, so that signatures stay valid.
 *
 * One request per connection to the server; bodies are kept in memory.
 */

import { concat } from "../../lib/concat.ts";

/** A request on its way. */
export interface ProxiedRequest {
  /** Upper case. */
  method: string;
  /** Path and query. */
  target: string;
  /** By lower-case name. */
  headers: Record<string, string>;
  /** How many requests there have been with this one; the first is 1. */
  count: number;
}

/** What befalls a request. */
export type ProxyFault =
  /** The connection ends; the server never sees the request. */
  | { kind: "cut" }
  /** The connection ends once the server has answered; the client never sees the answer. */
  | { kind: "cut_answer" }
  /** The proxy answers in the server's stead; with `after`, once the server has done what was asked. */
  | { kind: "answer"; status: number; code: string; after?: boolean }
  /** Nothing more happens on the connection; with `after`, once the server has done what was asked. */
  | { kind: "hang"; after?: boolean }
  /** The proxy reads no further than the request's head. */
  | { kind: "deaf" }
  /** The request reaches the server after so long. */
  | { kind: "delay"; ms: number }
  /** The connection ends after so many bytes of the answer's body. */
  | { kind: "truncate"; body_bytes: number }
  /** Nothing more comes after so many bytes of the answer's body. */
  | { kind: "stall"; body_bytes: number }
  /** The client sees another answer: head lines and body, as text. */
  | { kind: "rewrite"; answer: (answer: string) => string };

/** Decides what befalls each request. */
export type ProxyPlan = (request: ProxiedRequest) => ProxyFault | undefined;

const encoder = new TextEncoder();
/** Bytes as text and back, one character each. */
const latin1 = new TextDecoder("latin1");
const HEAD_END = encoder.encode("\r\n\r\n");

/** A proxy that is running; disposing of it ends every connection. */
export class FaultProxy implements AsyncDisposable {
  /** What befalls requests from now on; nothing unless it is set. */
  plan: ProxyPlan = () => undefined;
  /** Every request so far. */
  readonly requests: ProxiedRequest[] = [];
  readonly #listener: Deno.TcpListener;
  readonly #upstream: { hostname: string; port: number };
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #serving: Promise<void>;
  #closed = false;
  readonly #ended = Promise.withResolvers<void>();

  /** Stands in front of the server at `endpoint`, an http URL. */
  constructor(endpoint: string) {
    const { hostname, port } = new URL(endpoint);
    this.#upstream = { hostname, port: Number(port) };
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#serving = this.#serve();
  }

  /** Its own URL. */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Connections that are open, those to the server among them. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#closed) this.#listener.close();
    this.#closed = true;
    this.#ended.resolve();
    for (const connection of [...this.#connections]) this.#end(connection);
    await this.#serving;
  }

  async #serve(): Promise<void> {
    const open = new Set<Promise<void>>();
    for await (const connection of this.#listener) {
      this.#connections.add(connection);
      const handled = this.#handle(connection).catch(() => {}).finally(() => {
        this.#end(connection);
        open.delete(handled);
      });
      open.add(handled);
    }
    await Promise.all(open);
  }

  #end(connection: Deno.TcpConn): void {
    if (!this.#connections.delete(connection)) return;
    try {
      connection.close();
    } catch {
      // The client was faster.
    }
  }

  async #handle(client: Deno.TcpConn): Promise<void> {
    const head = await readHead(client);
    if (head === undefined) return;
    const request = { ...parseHead(head.text), count: this.requests.length + 1 };
    this.requests.push(request);
    const fault = this.plan(request);
    if (fault?.kind === "cut") return;
    if (fault?.kind === "hang" && !fault.after) return await untilClosed(client);
    if (fault?.kind === "deaf") return await this.#ended.promise;
    if (fault?.kind === "delay") await new Promise((resolve) => setTimeout(resolve, fault.ms));
    const body = await readBody(client, head.rest, Number(request.headers["content-length"] ?? 0));
    if (fault?.kind === "answer" && !fault.after) return await writeAll(client, errorAnswer(fault));
    const answer = await this.#forward(head.text, body);
    await deliver(client, answer, fault);
  }

  async #forward(head: string, body: Uint8Array): Promise<Uint8Array> {
    const server = await Deno.connect(this.#upstream);
    this.#connections.add(server);
    try {
      await writeAll(server, encoder.encode(head));
      await writeAll(server, body);
      return await readAnswer(server, head.startsWith("HEAD "));
    } finally {
      this.#end(server);
    }
  }
}

/** Gives the client the server's answer, or what the fault makes of it. */
async function deliver(client: Deno.TcpConn, answer: Uint8Array, fault: ProxyFault | undefined): Promise<void> {
  switch (fault?.kind) {
    case "cut_answer":
      return;
    case "hang":
      return await untilClosed(client);
    case "answer":
      return await writeAll(client, errorAnswer(fault));
    case "rewrite":
      return await writeAll(client, Uint8Array.from(fault.answer(latin1.decode(answer)), (c) => c.charCodeAt(0)));
    case "truncate":
    case "stall": {
      const head = indexOf(answer, HEAD_END) + HEAD_END.length;
      await writeAll(client, answer.subarray(0, head + fault.body_bytes));
      if (fault.kind === "stall") await untilClosed(client);
      return;
    }
    default:
      await writeAll(client, answer);
  }
}

function errorAnswer({ status, code }: { status: number; code: string }): Uint8Array {
  const body = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>made by the proxy</Message></Error>`;
  return encoder.encode(
    `HTTP/1.1 ${status} ${code}\r\nContent-Type: application/xml\r\nContent-Length: ${body.length}\r\n` +
      `Connection: close\r\n\r\n${body}`,
  );
}

function parseHead(text: string): Omit<ProxiedRequest, "count"> {
  const [line = "", ...lines] = text.trimEnd().split("\r\n");
  const [method = "", target = ""] = line.split(" ");
  const headers: Record<string, string> = {};
  for (const header of lines) {
    const colon = header.indexOf(":");
    headers[header.slice(0, colon).toLowerCase()] = header.slice(colon + 1).trim();
  }
  return { method, target, headers };
}

async function readHead(from: Deno.TcpConn): Promise<{ text: string; rest: Uint8Array<ArrayBuffer> } | undefined> {
  let bytes = new Uint8Array();
  const buffer = new Uint8Array(64 * 1024);
  for (;;) {
    const count = await from.read(buffer);
    if (count === null) return undefined;
    bytes = concat([bytes, buffer.subarray(0, count)]);
    const end = indexOf(bytes, HEAD_END);
    if (end >= 0) {
      const head = end + HEAD_END.length;
      return { text: latin1.decode(bytes.subarray(0, head)), rest: bytes.slice(head) };
    }
  }
}

async function readBody(from: Deno.TcpConn, begun: Uint8Array, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const body = new Uint8Array(length);
  body.set(begun);
  for (let filled = begun.length; filled < length;) {
    const count = await from.read(body.subarray(filled));
    if (count === null) throw new Error("the client went away");
    filled += count;
  }
  return body;
}

/** One answer of a server whose connection stays open: one that is closed early may take the answer with it. */
async function readAnswer(from: Deno.TcpConn, to_head: boolean): Promise<Uint8Array> {
  const head = await readHead(from);
  if (head === undefined) throw new Error("the server went away");
  const status = Number(head.text.split(" ", 2)[1]);
  const { headers } = parseHead(head.text);
  let body = head.rest;
  if (to_head || status === 204 || status === 304) body = new Uint8Array();
  else if (headers["content-length"] !== undefined) {
    body = await readBody(from, body, Number(headers["content-length"]));
  } else {while (!latin1.decode(body.subarray(-7)).endsWith("\r\n0\r\n\r\n")) {
      body = concat([body, await readSome(from)]);
    }}
  // The client's connection does end here.
  const closing = head.text.replace(/\r\nconnection:[^\r]*/i, "").replace(/\r\n\r\n$/, "\r\nConnection: close\r\n\r\n");
  return concat([encoder.encode(closing), body]);
}

async function readSome(from: Deno.TcpConn): Promise<Uint8Array> {
  const buffer = new Uint8Array(64 * 1024);
  const count = await from.read(buffer);
  if (count === null) throw new Error("the server went away");
  return buffer.subarray(0, count);
}

/** Reads what the client still says, until it ends the connection. */
async function untilClosed(client: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(64 * 1024);
  while (await client.read(buffer) !== null);
}

async function writeAll(to: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await to.write(bytes.subarray(done));
}

function indexOf(bytes: Uint8Array, part: Uint8Array): number {
  for (let at = bytes.indexOf(part[0]!); at >= 0; at = bytes.indexOf(part[0]!, at + 1)) {
    if (part.every((byte, i) => bytes[at + i] === byte)) return at;
  }
  return -1;
}
