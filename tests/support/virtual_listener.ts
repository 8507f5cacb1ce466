/** A listener whose connections are made of memory: from any address, as many as a test likes, without a descriptor. */

import type { HttpListener } from "../../lib/http/server.ts";

export class VirtualListener implements HttpListener {
  readonly addr: Deno.NetAddr = { transport: "tcp", hostname: "127.0.0.1", port: 1 };
  readonly #waiting: PromiseWithResolvers<Deno.Conn>[] = [];
  readonly #made: Deno.Conn[] = [];
  #closed = false;

  accept(): Promise<Deno.Conn> {
    if (this.#closed) return Promise.reject(new Deno.errors.BadResource("It is closed"));
    const conn = this.#made.shift();
    if (conn !== undefined) return Promise.resolve(conn);
    const waiting = Promise.withResolvers<Deno.Conn>();
    this.#waiting.push(waiting);
    return waiting.promise;
  }

  close(): void {
    this.#closed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(new Deno.errors.BadResource("It is closed"));
  }

  /** A client at `hostname` connects. */
  connect(hostname: string): VirtualClient {
    const client = new VirtualClient(hostname);
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#made.push(client.conn);
    else waiting.resolve(client.conn);
    return client;
  }
}

export class VirtualClient {
  /** The server's side. */
  readonly conn: Deno.Conn;
  /** Everything that the server has sent. */
  text = "";
  closed = false;
  #sent: Uint8Array[] = [];
  #readable = Promise.withResolvers<void>();

  constructor(hostname: string) {
    const conn = {
      remoteAddr: { transport: "tcp", hostname, port: 1 },
      localAddr: { transport: "tcp", hostname: "127.0.0.1", port: 1 },
      read: async (buffer: Uint8Array): Promise<number> => {
        while (this.#sent.length === 0) {
          if (this.closed) throw new Deno.errors.BadResource("It is closed");
          await this.#readable.promise;
        }
        const part = this.#sent[0]!.subarray(0, buffer.length);
        buffer.set(part);
        this.#sent[0] = this.#sent[0]!.subarray(part.length);
        if (this.#sent[0]!.length === 0) this.#sent.shift();
        return part.length;
      },
      write: (bytes: Uint8Array) => {
        this.text += new TextDecoder().decode(bytes);
        return Promise.resolve(bytes.length);
      },
      closeWrite: () => Promise.resolve(),
      close: () => {
        this.closed = true;
        this.#wake();
      },
    };
    this.conn = conn as unknown as Deno.Conn;
  }

  send(text: string): void {
    this.#sent.push(new TextEncoder().encode(text));
    this.#wake();
  }

  #wake(): void {
    this.#readable.resolve();
    this.#readable = Promise.withResolvers();
  }
}
