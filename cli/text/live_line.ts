/** A terminal's last line, which changes in place while lines that stay are written above it. */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { cutLine } from "./text_table.ts";

export interface LiveLineOptions {
  columns: number;
  write(text: string): void;
}

export class LiveLine {
  readonly #options: LiveLineOptions;
  #drawn = false;
  /** Counts calls: a line that was overtaken while it was measured is not drawn. */
  #turn = 0;

  constructor(options: LiveLineOptions) {
    this.#options = options;
  }

  /** Shows `text` in the place of what was there, made safe and cut at the terminal's edge. */
  async show(text: string): Promise<void> {
    const turn = ++this.#turn;
    // One column is left free: a terminal would begin a new line after the last.
    const line = await cutLine(sanitizeLine(text), Math.max(1, this.#options.columns - 1));
    if (turn !== this.#turn) return;
    this.#options.write(`\r\x1b[K${line}`);
    this.#drawn = true;
  }

  /** Takes the line away; the next {@linkcode show} draws it again. */
  clear(): void {
    this.#turn++;
    if (this.#drawn) this.#options.write("\r\x1b[K");
    this.#drawn = false;
  }
}
