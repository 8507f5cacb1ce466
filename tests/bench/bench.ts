/**
 * What a case works with: places, shops of any size, and a ledger for figures.
 */

import { join } from "@std/path/join";
import { buildShop } from "./shop.ts";
import type { Figure, Skip, Target, Unit } from "./figures.ts";
import { freeBytes, type Place } from "./file_systems.ts";
import { run } from "./process.ts";
import { summarize } from "./stats.ts";

/** One case: a question and the subjects that answer it. */
export interface BenchCase {
  name: string;
  /** Heading of its table. */
  title: string;
  /** How it is measured, for the documentation. */
  method: string;
  /** `each`: on every place; `once`: only on the one that clones blocks, or else the first; `plain`: only on the first. */
  places: "each" | "once" | "plain";
  run(bench: Bench, place: Place): Promise<void>;
}

/** Cases that belong together: a part of the page on benchmarks, with a machine, targets and a run of its own. */
export interface BenchPart {
  /** How `--only` names it. */
  name: string;
  title: string;
  /** What holds for all its cases, as a list. */
  method: readonly string[];
  cases: readonly BenchCase[];
}

/** How a run is set up. */
export interface BenchOptions {
  /** Small sizes, few rounds. */
  quick: boolean;
  /** No database is larger. */
  max_size_mb: number;
  log: (line: string) => void;
}

// A 4 GB shop, its stored form and one more copy of it, with room to spare.
const SPACE_PER_SIZE = 3.6;

/** The state of one run. */
export class Bench {
  readonly quick: boolean;
  readonly figures: Figure[] = [];
  readonly skipped: Skip[] = [];
  readonly #max_size_mb: number;
  readonly #log: (line: string) => void;
  #case = "";
  #count = 0;

  constructor(options: BenchOptions) {
    this.quick = options.quick;
    this.#max_size_mb = options.max_size_mb;
    this.#log = options.log;
  }

  /** Runs one case on one place in a directory of its own; a failure is recorded, not hidden. */
  async run(benchCase: BenchCase, place: Place): Promise<void> {
    this.#case = benchCase.name;
    this.#log(`${benchCase.name} on ${place.kind}`);
    const dir = join(place.dir, `${benchCase.name}-${++this.#count}`);
    await Deno.mkdir(dir);
    try {
      await benchCase.run(this, { ...place, dir });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }

  /** `full`, or `quick` in a quick run. */
  pick<T>(full: T, quick: T): T {
    return this.quick ? quick : full;
  }

  /** Notes a figure. */
  add(place: Place, subject: string, unit: Unit, samples: readonly number[], about: FigureOptions = {}): void {
    const figure: Figure = { case: this.#case, subject, place: place.kind, unit, stats: summarize(samples), ...about };
    this.figures.push(figure);
    const { p50, p95, n } = figure.stats;
    const size = about.size_mb === undefined ? "" : ` at ${about.size_mb} MB`;
    this.#log(`  ${subject}${size}: p50 ${p50.toPrecision(4)} ${unit}, p95 ${p95.toPrecision(4)}, n ${n}`);
  }

  /** Notes what is not measured, and why. */
  skip(subject: string, reason: string): void {
    this.skipped.push({ case: this.#case, subject, reason });
    this.#log(`  skipped: ${subject}: ${reason}`);
  }

  /** Builds a shop in `place`; undefined, and noted, when it is too large for this run or for the disk. */
  async shop(place: Place, size_mb: number): Promise<string | undefined> {
    if (size_mb > this.#max_size_mb) {
      this.skip(`${size_mb} MB on ${place.kind}`, `larger than ${this.#max_size_mb} MB, the limit of this run`);
      return undefined;
    }
    const needed = size_mb * SPACE_PER_SIZE * 2 ** 20;
    const free = await freeBytes(place.dir);
    if (free < needed) {
      const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
      this.skip(`${size_mb} MB on ${place.kind}`, `${gib(free)} free, ${gib(needed)} needed`);
      return undefined;
    }
    const path = join(place.dir, `shop-${size_mb}.db`);
    buildShop(path, { size_mb });
    await settle(place);
    return path;
  }
}

/** What a figure may carry. */
export interface FigureOptions {
  size_mb?: number;
  target?: Target;
  /** Subject that it is set beside; itself or none makes no ratio. */
  beside?: string;
}

/** Writes everything dirty down, so that no subject pays for what came before it. */
export async function settle(place: Place): Promise<void> {
  await run("sync", ["-f", place.dir]);
}
