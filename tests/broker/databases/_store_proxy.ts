/**
 * A socket between a broker and the store's daemon: a test is called before each request goes on and after each answer
 * has come, and holds both for as long as it takes.
 */

/** A request as it is on the wire. */
export interface StoreRequest {
  op: string;
  db?: string;
  branch?: string;
  check?: boolean;
}

export type StoreStep = (request: StoreRequest, moment: "before" | "after") => void | Promise<void>;

/** Whether a request brings a task's data into a base. */
export function lands({ op, check }: StoreRequest): boolean {
  return op === "promote" || op === "merge" && check !== true;
}

export class StoreProxy implements Disposable {
  readonly socket: string;
  /** Called at every step. */
  onStep: StoreStep = () => {};
  readonly #listener: Deno.UnixListener;
  readonly #open = new Set<Deno.Conn>();

  constructor(socket: string, daemon: string) {
    this.socket = socket;
    this.#listener = Deno.listen({ transport: "unix", path: socket });
    void this.#accept(daemon);
  }

  async #accept(daemon: string): Promise<void> {
    for await (const client of this.#listener) void this.#serve(client, daemon).catch(() => {});
  }

  async #serve(client: Deno.Conn, daemon: string): Promise<void> {
    // As a daemon that is not there.
    const store = await Deno.connect({ transport: "unix", path: daemon }).catch(() => client.close());
    if (store === undefined) return;
    for (const conn of [client, store]) this.#open.add(conn);
    const asked: StoreRequest[] = [];
    const done = Promise.race([
      pass(client, store, async (line) => {
        const request: StoreRequest = JSON.parse(line);
        await this.onStep(request, "before");
        asked.push(request);
      }),
      pass(store, client, async (line) => {
        // Only an answer ends a request: a line of its progress does not.
        if ("ok" in JSON.parse(line)) await this.onStep(asked.shift()!, "after");
      }),
    ]);
    await done.catch(() => {});
    for (const conn of [client, store]) this.#close(conn);
  }

  #close(conn: Deno.Conn): void {
    if (!this.#open.delete(conn)) return;
    try {
      conn.close();
    } catch {
      // Its stream has come to the end, and has closed it.
    }
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    for (const conn of [...this.#open]) this.#close(conn);
  }
}

async function pass(from: Deno.Conn, to: Deno.Conn, each: (line: string) => Promise<void>): Promise<void> {
  const writer = to.writable.getWriter();
  let rest = "";
  for await (const chunk of from.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      await each(line);
      await writer.write(new TextEncoder().encode(`${line}\n`));
    }
  }
}
