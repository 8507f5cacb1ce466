/**
 * The streams of a command: results on stdout, notes about the work on stderr, colour and progress on terminals only.
 */

import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { escapeJson, sanitizeText } from "../../lib/text/sanitize.ts";
import type { OnProgress } from "../../lib/store/results.ts";
import { LiveLine } from "./live_line.ts";
import { progressIn } from "./progress.ts";

/** Where bytes go: stdout, stderr, or a test's buffer. */
export interface Sink {
  writeSync(bytes: Uint8Array): number;
  isTerminal(): boolean;
}

export interface IoOptions {
  stdout: Sink;
  stderr: Sink;
  json: boolean;
  quiet: boolean;
  /** Whether NO_COLOR is set. */
  no_color: boolean;
  /** Whether terminals get plain lines only, without colours and moves of the cursor. */
  dumb?: boolean;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  /** Monotonic milliseconds. */
  now(): number;
}

export class Io {
  readonly json: boolean;
  readonly quiet: boolean;
  readonly signal: AbortSignal;
  readonly #options: IoOptions;
  #live: LiveLine | undefined;

  constructor(options: IoOptions) {
    this.json = options.json;
    this.quiet = options.quiet;
    this.signal = options.signal;
    this.#options = options;
  }

  /** Writes a line, or lines, of results. Control characters in it are made visible. */
  out(text: string): void {
    this.#result(`${sanitizeText(text)}\n`);
  }

  /** Like {@linkcode out}, for text that ends its lines itself. */
  outText(text: string): void {
    this.#result(sanitizeText(text));
  }

  outJson(value: object): void {
    this.#result(`${escapeJson(JSON.stringify(value))}\n`);
  }

  error(text: string): void {
    this.clearProgress();
    write(this.#options.stderr, `${sanitizeText(text)}\n`);
  }

  /** Writes a line about the work to stderr; nothing under --quiet. */
  note(text: string): void {
    if (!this.quiet) this.error(text);
  }

  /** `text` in bold on a terminal. Call it on text that was sanitised, and write the result with {@linkcode styled}. */
  heading(text: string): string {
    return this.colours ? `\x1b[1m${text}\x1b[22m` : text;
  }

  get errorIsTerminal(): boolean {
    return this.#options.stderr.isTerminal();
  }

  /** Whether results are coloured: on a terminal that has colours, unless NO_COLOR is set. */
  get colours(): boolean {
    return this.#options.stdout.isTerminal() && !this.#options.no_color && this.#options.dumb !== true;
  }

  /** Writes a line of the program's own words, styled by {@linkcode heading}. */
  styled(text: string): void {
    this.#result(`${text}\n`);
  }

  #result(text: string): void {
    this.clearProgress();
    try {
      write(this.#options.stdout, text);
    } catch (error) {
      // A reader that closed the pipe is not a failure: the caller distinguishes it.
      if (error instanceof Deno.errors.BrokenPipe) throw error;
      const { code, message } = fileError(error, "Cannot write the result to stdout");
      throw new TaskdError(code, message, { hint: "What the command did is done: do not repeat it for its answer" });
    }
  }

  /** Columns of the terminal on stdout; undefined when it is not one, and then nothing is cut. */
  get columns(): number | undefined {
    return this.size?.columns;
  }

  /** Of the terminal on stdout; undefined when it is not one. */
  get size(): { columns: number; rows: number } | undefined {
    return this.#options.stdout.isTerminal() ? consoleSize() : undefined;
  }

  /** A progress bar for long work: drawn on stderr if that is a terminal that redraws, nothing under --json and elsewhere. */
  progress(label: string): OnProgress {
    const line = this.live();
    return line === undefined ? () => {} : progressIn(line, label, this.#options.now);
  }

  /** A line on stderr that changes in place; undefined without such a terminal, under --quiet and --json. */
  live(): LiveLine | undefined {
    if (this.quiet || this.json || !this.errorIsTerminal || this.#options.dumb === true) return undefined;
    this.#live ??= new LiveLine({ columns: consoleSize().columns, write: (text) => write(this.#options.stderr, text) });
    return this.#live;
  }

  /** Removes the line that changes, if it is drawn. */
  clearProgress(): void {
    this.#live?.clear();
  }
}

const encoder = new TextEncoder();

export function write(sink: Pick<Sink, "writeSync">, text: string): void {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(sink.writeSync(bytes));
}

function consoleSize(): { columns: number; rows: number } {
  try {
    const { columns, rows } = Deno.consoleSize();
    // A terminal that does not know its size reports 0.
    return { columns: columns || 80, rows: rows || 24 };
  } catch {
    // Only one of the streams is a terminal, and consoleSize() asks another.
    return { columns: 80, rows: 24 };
  }
}
