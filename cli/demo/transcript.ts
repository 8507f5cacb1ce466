/**
 * The transcript of the demo: each command is printed as a person types it, then run, and its output is shown as it comes.
 * What the demo says of it is a comment between them, and is checked before it is printed.
 */

import { TaskdError } from "../../lib/errors.ts";
import { ownCommand } from "../table/own_command.ts";
import { linesOf, type OwnProcessOptions, placeOf } from "./own_process.ts";

export interface Step {
  command: string;
  duration_ms: number;
}

export interface ShellTranscriptOptions {
  print: (line: string) => void;
  colour: boolean;
  /** Where commands run, with which environment; its signal ends them, and the story between them. */
  process: OwnProcessOptions;
  /** What stands for the `sqlite3` of a command. */
  sqlite3: readonly string[];
}

export interface ExpectedRun {
  /** The exit status that it has to have; 0 when absent. */
  status?: number;
  /** What of its lines is shown, once it has ended; all of them, as they come, when absent. */
  show?: (lines: readonly string[]) => readonly string[];
}

/** What a command printed. */
export interface Printed {
  stdout: string;
  /** Of both streams, as they came. */
  lines: readonly string[];
}

/** The codes of a terminal. */
const TONES = { bold: 1, faint: 2, good: 32 } as const;

export class ShellTranscript {
  readonly steps: Step[] = [];
  readonly #options: ShellTranscriptOptions;
  /** What commands have printed in the place of a word: paths, which stay. */
  readonly #paths = new Map<string, string>();

  constructor(options: ShellTranscriptOptions) {
    this.#options = options;
  }

  chapter(title: string): void {
    this.#options.print(`\n${this.#paint(title, "bold")}\n`);
  }

  say(text: string, tone: keyof typeof TONES = "faint"): void {
    this.#options.print(this.#paint(`# ${text}`, tone));
  }

  /** Says what holds, and throws where it does not. */
  claim(holds: boolean, text: string): void {
    if (!holds) throw new TaskdError("internal", `The demo's claim does not hold: ${text}`);
    this.say(text, "good");
  }

  /** Prints a command that `work` carries out. */
  async does<T>(command: string, work: () => Promise<T>): Promise<T> {
    this.#options.process.signal.throwIfAborted();
    this.#options.print(`${this.#paint("$", "faint")} ${this.#paint(command, "bold")}`);
    const start = performance.now();
    const result = await work();
    this.steps.push({ command, duration_ms: performance.now() - start });
    return result;
  }

  /** Prints a command and runs it. */
  run(command: string, options: ExpectedRun = {}): Promise<Printed> {
    return this.does(command, () => this.#run(command, options));
  }

  /** Runs a command and shows nothing of it; returns what it printed to stdout. */
  async quietly(command: string): Promise<string> {
    return (await this.#run(command, { show: () => [] })).stdout;
  }

  async #run(command: string, { status = 0, show }: ExpectedRun): Promise<Printed> {
    const { process } = this.#options;
    const [program, args] = await this.#prepared(command);
    const options = { args, stdin: "null", stdout: "piped", stderr: "piped", ...placeOf(process) } as const;
    const child = new Deno.Command(program, options).spawn();
    const lines: string[] = [];
    const read = async (stream: ReadableStream<Uint8Array>) => {
      const text: string[] = [];
      for await (const line of linesOf(stream)) {
        text.push(line);
        lines.push(line);
        if (show === undefined) this.#options.print(line);
      }
      return text.join("\n");
    };
    const [stdout, , { code }] = await Promise.all([read(child.stdout), read(child.stderr), child.status]);
    process.signal.throwIfAborted();
    if (code !== status) {
      throw new TaskdError("internal", `${command} ended with ${code}, not ${status}: ${lines.join("\n")}`);
    }
    for (const line of show?.(lines) ?? []) this.#options.print(line);
    return { stdout, lines };
  }

  /** The program and the arguments, as a shell reads them: quotes group, and `$(taskd ...)` is what that prints. */
  async #prepared(command: string): Promise<[program: string, args: string[]]> {
    const words: string[] = [];
    for (const [word] of command.matchAll(/(?:'[^']*'|"[^"]*"|\$\([^)]*\)|[^\s'"])+/g)) {
      let text = word.replaceAll(/^(['"])([\s\S]*)\1$/g, "$2");
      for (const [whole, inner] of text.matchAll(/\$\(([^)]*)\)/g)) {
        if (!this.#paths.has(inner!)) this.#paths.set(inner!, (await this.quietly(inner!)).trim());
        text = text.replace(whole, this.#paths.get(inner!)!);
      }
      words.push(text);
    }
    const [first, ...rest] = words;
    if (first === "taskd") return ownCommand(this.#options.process.entry, rest);
    // An application holds the lock every other moment: a person's shell waits for it.
    const [program, ...own] = first === "sqlite3" ? this.#options.sqlite3 : [first!];
    return [program!, [...own, ...rest]];
  }

  #paint(text: string, tone: keyof typeof TONES): string {
    return this.#options.colour ? `\x1b[${TONES[tone]}m${text}\x1b[0m` : text;
  }
}

/** A count for people: `26,000`. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}
