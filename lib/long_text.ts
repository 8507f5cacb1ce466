/**
 * A text that comes in parts of any size, from a peer that chooses it. A short part costs many times its characters, and
 * can keep all of the text alive that it was cut from: parts are joined by the dozen, and those again.
 */

const PARTS = 32;

export class LongText {
  /** Parts by how often they were joined; the text is those of the last level first. */
  #levels: string[][] = [[]];
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(part: string): void {
    if (part === "") return;
    this.#length += part.length;
    this.#levels[0]!.push(part);
    for (let level = 0; this.#levels[level]!.length === PARTS; level++) {
      const joined = this.#levels[level]!.splice(0).join("");
      if (level + 1 === this.#levels.length) this.#levels.push([]);
      this.#levels[level + 1]!.push(joined);
    }
  }

  /** All of it, and forgets it. */
  take(): string {
    const whole = this.#levels.toReversed().flat().join("");
    this.#levels = [[]];
    this.#length = 0;
    return whole;
  }
}
