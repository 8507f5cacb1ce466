/**
 * Prints what the demo does: numbered steps with their times in one column, and
 * indented lines of detail under them. What it claims is checked before it is shown.
 */

import { TaskdError } from "../../lib/errors.ts";

export interface Step {
  title: string;
  duration_ms: number;
  outcome: string;
}

export interface NarratorOptions {
  print: (line: string) => void;
  colour: boolean;
  /** Shows what is under way until something is printed; absent off a terminal. */
  busy?: (text: string) => Promise<void>;
  /** Stops the story between steps. */
  signal: AbortSignal;
}

const TITLE_WIDTH = 26;
const TIME_WIDTH = 7;
const INDENT = " ".repeat(6);

/** How a line of detail looks: the codes of a terminal. */
const TONES = { faint: 2, good: 32, bad: 31, plain: 0 } as const;

export type Tone = keyof typeof TONES;

export class Narrator {
  readonly steps: Step[] = [];
  readonly #options: NarratorOptions;

  constructor(options: NarratorOptions) {
    this.#options = options;
  }

  say(text: string): void {
    this.#options.print(text);
  }

  chapter(title: string): void {
    this.#options.print(`\n${this.#paint(title, 1)}\n`);
  }

  detail(text: string, tone: Tone = "faint"): void {
    this.#options.print(INDENT + this.#paint(text, TONES[tone]));
  }

  /** Prints lines that have their own colours under the steps, without what is empty at both ends. */
  lines(lines: readonly string[]): void {
    const first = lines.findIndex((line) => line !== "");
    const last = lines.findLastIndex((line) => line !== "");
    for (const line of lines.slice(first, last + 1)) this.#options.print(line === "" ? "" : INDENT + line);
  }

  /** Does a step, times it, and prints it with the outcome that `describe` makes of its result. */
  async step<T>(title: string, run: () => Promise<T> | T, describe: (result: T) => string): Promise<T> {
    this.#options.signal.throwIfAborted();
    const number = String(this.steps.length + 1).padStart(2);
    await this.#options.busy?.(` ${number}  ${title} ...`);
    const start = performance.now();
    const result = await run();
    const duration_ms = performance.now() - start;
    const outcome = describe(result);
    this.steps.push({ title, duration_ms, outcome });
    const time = this.#paint(formatMs(duration_ms).padStart(TIME_WIDTH), 36);
    this.#options.print(
      ` ${this.#paint(number, 2)}  ${this.#paint(title.padEnd(TITLE_WIDTH), 1)} ${time}   ${outcome}`,
    );
    return result;
  }

  #paint(text: string, code: number): string {
    return this.#options.colour ? `\x1b[${code}m${text}\x1b[0m` : text;
  }
}

/** Throws unless `holds`; `text` is what should be. */
export function claim(holds: boolean, text: string): asserts holds {
  if (!holds) throw new TaskdError("internal", `The demo's claim does not hold: ${text}`);
}

/** A duration for people: `3.2 ms`, `210 ms`, `1.33 s`. */
export function formatMs(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${ms.toFixed(0)} ms`;
  return `${(ms / 1_000).toFixed(2)} s`;
}

/** A count for people: `26,000`. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** A size for people, in units of 1000: `52.4 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} KB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
