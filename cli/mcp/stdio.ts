/**
 * Messages of the Model Context Protocol over stdin and stdout: one JSON-RPC message on each line, read by the decoder of
 * every other transport. What is no message is answered as JSON-RPC says, so that no client waits for an answer; with the
 * id that it has, where one can be made out.
 */

import { writeAll } from "../../lib/fs.ts";
import { decodeLine, encodeLine, type Line, LineSplitter, MAX_LINE_BYTES } from "../../lib/protocol/lines.ts";
import { parseJson } from "../../lib/text/json.ts";
import { InvalidJson, parseStrictJson } from "../../lib/text/strict_json.ts";

/** Codes of JSON-RPC 2.0. */
const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

/** What the SDK's server connects to. */
export class StdioTransport {
  onmessage?: (message: never) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  /** Resolves when the client has ended its input, and every request of it has its answer. */
  readonly ended: Promise<void>;
  readonly #end = Promise.withResolvers<void>();
  readonly #isMessage: (value: unknown) => boolean;
  readonly #input: ReadableStreamDefaultReader<Uint8Array> = Deno.stdin.readable.getReader();
  #written: Promise<void> = Promise.resolve();
  #input_ended = false;
  /** Ids of requests without an answer. */
  readonly #open = new Set<unknown>();

  /** @param isMessage Whether a value is a message of JSON-RPC. */
  constructor(isMessage: (value: unknown) => boolean) {
    this.#isMessage = isMessage;
    this.ended = this.#end.promise;
  }

  start(): Promise<void> {
    this.#read().catch((error: Error) => this.onerror?.(error)).finally(() => {
      this.#input_ended = true;
      this.#endIfAnswered();
    });
    return Promise.resolve();
  }

  async send(message: { id?: unknown; method?: unknown; [field: string]: unknown }): Promise<void> {
    try {
      await (this.#written = this.#written.then(() => writeAll(Deno.stdout, encodeLine(message))));
    } finally {
      // One that could not be written is not waited for either.
      if (message.method === undefined) this.#open.delete(message.id);
      this.#endIfAnswered();
    }
  }

  #endIfAnswered(): void {
    if (this.#input_ended && this.#open.size === 0) this.#end.resolve();
  }

  #deliver(message: { id?: unknown; method?: unknown; params?: { requestId?: unknown } }): void {
    if (message.method !== undefined && message.id !== undefined) this.#open.add(message.id);
    // The server does not answer it any more.
    if (message.method === "notifications/cancelled") this.#open.delete(message.params?.requestId);
    this.onmessage?.(message as never);
  }

  async close(): Promise<void> {
    await this.#input.cancel().catch(() => {});
    this.onclose?.();
  }

  async #read(): Promise<void> {
    const splitter = new LineSplitter();
    for (;;) {
      const { value, done } = await this.#input.read();
      for (const line of done ? splitter.end() : splitter.push(value)) this.#receive(line);
      if (done) return;
    }
  }

  #receive(line: Line): void {
    if (line.kind === "unterminated") return this.#refuse(PARSE_ERROR, "the last line has no end");
    if (line.kind === "too_long") {
      return this.#refuse(INVALID_REQUEST, `the line has more than ${MAX_LINE_BYTES} bytes`);
    }
    const text = decodeLine(line.bytes);
    if (text === undefined) return this.#refuse(PARSE_ERROR, "the line is not UTF-8");
    try {
      const message = parseStrictJson(text);
      if (this.#isMessage(message)) this.#deliver(message as object);
      else this.#refuse(INVALID_REQUEST, "the line is no message of JSON-RPC 2.0", message);
    } catch (error) {
      if (!(error instanceof InvalidJson)) throw error;
      this.#refuse(PARSE_ERROR, `the line ${error.message}`, parseJson(text));
    }
  }

  #refuse(code: number, problem: string, request?: unknown): void {
    const { id } = (typeof request === "object" && request !== null ? request : {}) as { id?: unknown };
    const known = typeof id === "number" || (typeof id === "string" && id.isWellFormed() && id.length <= 256);
    const error = { code, message: `Cannot read the message: ${problem}` };
    this.send({ jsonrpc: "2.0", id: known ? id : null, error }).catch((error: Error) => this.onerror?.(error));
  }
}
