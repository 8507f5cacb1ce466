/**
 * The bytes of one connection, read one buffer ahead where it matters that the client has left while its request runs.
 */

const READ_BUFFER_BYTES = 16 * 1024;

export class RequestReader {
  readonly #conn: Deno.Conn;
  /** In turn: a chunk stays as it is until the one after the next is read. */
  readonly #buffers: [Uint8Array<ArrayBuffer>?, Uint8Array<ArrayBuffer>?] = [];
  #turn: 0 | 1 = 0;
  #ahead: Promise<Uint8Array | undefined> | undefined;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** The next bytes, which stay as they are until the next call but one; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    const ahead = this.#ahead ?? this.#start();
    this.#ahead = undefined;
    return await ahead;
  }

  /** Calls `left` once the client's side has ended; never, if it sends more first. */
  whenLeft(left: () => void): void {
    this.#ahead ??= this.#start();
    this.#ahead.then((bytes) => {
      if (bytes === undefined) left();
    }, left);
  }

  async #start(): Promise<Uint8Array | undefined> {
    const buffer = this.#buffers[this.#turn] ??= new Uint8Array(READ_BUFFER_BYTES);
    this.#turn = this.#turn === 0 ? 1 : 0;
    const count = await this.#conn.read(buffer);
    return count === null ? undefined : buffer.subarray(0, count);
  }
}
