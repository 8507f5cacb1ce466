/**
 * Text a screen at a time: a person is asked after each whether to go on. Nothing is written that was not asked for.
 */

/** Where it goes, and how much of it is seen at once. */
export interface ScreensOptions {
  columns: number;
  rows: number;
  /** Writes whole lines, without the end of the last one. */
  write(text: string): void;
  /** Whether to go on. */
  more(): Promise<boolean>;
}

/** Changes of style, which take no room. */
// deno-lint-ignore no-control-regex
const STYLE = /\x1b\[[0-9;]*m/g;

export class Screens {
  readonly #options: ScreensOptions;
  #used = 0;
  #goes_on = true;

  constructor(options: ScreensOptions) {
    this.#options = options;
  }

  /** Writes lines that are safe to show, up to the first no; false from then on. */
  async write(text: string): Promise<boolean> {
    const { columns, rows, write, more } = this.#options;
    let shown: string[] = [];
    const flush = () => {
      if (shown.length > 0) write(shown.join("\n"));
      shown = [];
    };
    for (const line of this.#goes_on ? text.split("\n") : []) {
      const height = Math.max(1, Math.ceil(line.replace(STYLE, "").length / columns));
      // The last row is for the question.
      if (this.#used > 0 && this.#used + height >= rows) {
        flush();
        this.#goes_on = await more();
        this.#used = 0;
        if (!this.#goes_on) return false;
      }
      shown.push(line);
      this.#used += height;
    }
    flush();
    return this.#goes_on;
  }
}
