/**
 * Page numbers in ascending order with a checksum each, kept as runs: 4 bytes a
 * page, so the table of a 4 GB database stays small.
 */

export interface Run {
  first: number;
  count: number;
}

/** Ascending page numbers as runs of at most `most` pages. */
export function* runsOf(pages: Iterable<number>, most = Infinity): Generator<Run> {
  let run: Run | undefined;
  for (const pgno of pages) {
    if (run && pgno === run.first + run.count && run.count < most) run.count++;
    else {
      if (run) yield run;
      run = { first: pgno, count: 1 };
    }
  }
  if (run) yield run;
}

/** Ascending page numbers and the CRC-32 of each page. */
export class PageTable {
  /** The page numbers, as runs that do not touch. */
  readonly runs: Run[] = [];
  /** Pages before each run. */
  readonly #before: number[] = [];
  #crcs = new Uint32Array(16);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The highest page number; 0 when there is none. */
  get last(): number {
    const run = this.runs.at(-1);
    return run === undefined ? 0 : run.first + run.count - 1;
  }

  reserve(length: number): void {
    if (length <= this.#crcs.length) return;
    const crcs = new Uint32Array(length);
    crcs.set(this.#crcs.subarray(0, this.#length));
    this.#crcs = crcs;
  }

  /** Adds a page, whose number must be above {@linkcode last}. */
  append(pgno: number, crc: number): void {
    if (this.#length === this.#crcs.length) this.reserve(this.#length * 2);
    const run = this.runs.at(-1);
    if (run !== undefined && pgno === run.first + run.count) {
      run.count++;
    } else {
      this.runs.push({ first: pgno, count: 1 });
      this.#before.push(this.#length);
    }
    this.#crcs[this.#length++] = crc;
  }

  /** Position of a page among all pages; -1 when it is not there. */
  find(pgno: number): number {
    let [low, high] = [0, this.runs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const run = this.runs[middle]!;
      if (pgno < run.first) high = middle;
      else if (pgno >= run.first + run.count) low = middle + 1;
      else return this.#before[middle]! + pgno - run.first;
    }
    return -1;
  }

  crcAt(position: number): number {
    return this.#crcs[position]!;
  }

  *[Symbol.iterator](): Generator<[pgno: number, crc: number]> {
    let position = 0;
    for (const { first, count } of this.runs) {
      for (let i = 0; i < count; i++) yield [first + i, this.#crcs[position++]!];
    }
  }
}
