/**
 * Questions to a person at a terminal. A secret is not shown as it is typed, and the
 * terminal is restored, however a question ends.
 */

import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { write } from "../text/io.ts";

export interface Terminal {
  /** Reads what was typed; null at its end. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Whether lines are passed on key by key, and not shown; Ctrl-C works in both modes. */
  setQuiet(quiet: boolean): void;
  write(text: string): void;
}

export interface Choice<T extends string> {
  value: T;
  /** What it means, beside it. */
  help: string;
}

/** The process's terminal: questions go to stderr, because stdout is for results. */
export const processTerminal: Terminal = {
  read: (buffer) => Deno.stdin.read(buffer),
  setQuiet: (quiet) => Deno.stdin.setRaw(quiet, { cbreak: true }),
  write: (text) => write(Deno.stderr, text),
};

/** More than any answer has. */
const MAX_ANSWER_BYTES = 16_384;
/** Invalid answers before a question fails. */
const TRIES = 5;

const [BACKSPACE, DELETE, LINE_FEED, CARRIAGE_RETURN, END_OF_INPUT, ERASE_LINE] = [8, 127, 10, 13, 4, 21];

export class Prompt {
  readonly #terminal: Terminal;
  readonly #signal: AbortSignal;
  /** Typed ahead. */
  #rest: number[] = [];

  constructor(terminal: Terminal, signal: AbortSignal) {
    this.#terminal = terminal;
    this.#signal = signal;
  }

  say(text: string): void {
    this.#terminal.write(`${text}\n`);
  }

  /** A line of text; an empty one is the fallback. Throws `interrupted` at the end of the input. */
  async line(question: string, fallback = ""): Promise<string> {
    const shown = fallback === "" ? "" : ` [${sanitizeLine(fallback)}]`;
    this.#terminal.write(`${question}${shown}: `);
    return (await this.#read()).trim() || fallback;
  }

  /** A secret: nothing is shown. Empty when the person gives none. */
  async secret(question: string): Promise<string> {
    this.#terminal.setQuiet(true);
    try {
      this.#terminal.write(`${question} (not shown): `);
      return (await this.#read()).trim();
    } finally {
      this.#terminal.setQuiet(false);
      this.#terminal.write("\n");
    }
  }

  async confirm(question: string, fallback: boolean): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const answer = (await this.line(`${question} [${fallback ? "Y/n" : "y/N"}]`)).toLowerCase();
      if (answer === "") return fallback;
      if (["y", "yes"].includes(answer)) return true;
      if (["n", "no"].includes(answer)) return false;
      this.say("Please answer y or n.");
    }
    throw unanswered(question);
  }

  async choose<T extends string>(question: string, choices: readonly Choice<T>[], fallback: T): Promise<T> {
    const width = Math.max(...choices.map(({ value }) => value.length));
    choices.forEach(({ value, help }, index) => this.say(`  ${index + 1}  ${value.padEnd(width)}  ${help}`));
    for (let tries = 0; tries < TRIES; tries++) {
      const answer = await this.line(question, fallback);
      const chosen = choices.find(({ value }, index) => value === answer || String(index + 1) === answer);
      if (chosen !== undefined) return chosen.value;
      this.say(`Please answer with one of ${choices.map(({ value }) => value).join(", ")}.`);
    }
    throw unanswered(question);
  }

  async #read(): Promise<string> {
    const line: number[] = [];
    for (;;) {
      const byte = this.#rest.shift() ?? await this.#nextByte();
      if (byte === LINE_FEED || byte === CARRIAGE_RETURN) return decode(line);
      if (byte === undefined || byte === END_OF_INPUT && line.length === 0) {
        throw new TaskdError("interrupted", "The questions were not answered: the input ended", {
          hint: "Answer them at a terminal, or give the answers as flags: --help names them",
        });
      }
      // While nothing is shown, the terminal leaves editing to us.
      if (byte === BACKSPACE || byte === DELETE) eraseCharacter(line);
      else if (byte === ERASE_LINE) line.length = 0;
      else line.push(byte);
      if (line.length > MAX_ANSWER_BYTES) throw new TaskdError("too_large", "Cannot read the answer: it does not end");
    }
  }

  /** Undefined at the end. */
  async #nextByte(): Promise<number | undefined> {
    const buffer = new Uint8Array(1024);
    const count = await untilAborted(this.#terminal.read(buffer), this.#signal);
    if (count === null) return undefined;
    this.#rest.push(...buffer.subarray(0, count));
    return this.#rest.shift();
  }
}

/** UTF-8: continuation bytes go with the character that they belong to. */
function eraseCharacter(line: number[]): void {
  let last: number | undefined;
  do last = line.pop(); while (last !== undefined && (last & 0xc0) === 0x80);
}

function decode(bytes: readonly number[]): string {
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function unanswered(question: string): TaskdError {
  return new TaskdError("usage", `Cannot go on: ${question} was not answered with what it asks for`);
}
