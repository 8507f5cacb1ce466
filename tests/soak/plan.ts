/**
 * What each task of a soak run is about: a tag in its instruction, from which the model, the agent and the verdict all
 * know what has to come of it.
 */

import { SeededRandom } from "../support/writers/random.ts";

/** A streamed request that the agent makes before its work. */
export type StreamUse =
  /** Asks for usage and reads to the end. */
  | "read"
  /** Does not ask for usage. */
  | "unasked"
  /** Asks for usage and goes away in the middle. */
  | "leave";

/** One task's plan. */
export interface Plan {
  tag: string;
  /** Files that the model has written, in this order, by path. */
  files: ReadonlyMap<string, string>;
  streams: readonly StreamUse[];
}

/** Files of the repositories' first commit. */
export const BASE_FILES = { "README.md": "# app\n", "src/a.txt": "a\n" };
/** Paths that the diff policy of the run refuses, and those that it wants acknowledged. */
export const BLOCKED_PATHS = "locked/**";
export const SECOND_LOOK_PATHS = "config/**";

/** The tag of the run's task `number`. */
export function tagOf(seed: number, number: number): string {
  return `soak-${seed}-${number}`;
}

/** The tag in a text. */
export function tagIn(text: string): string | undefined {
  return /\bsoak-\d+-\d+\b/.exec(text)?.[0];
}

/** The plan behind a tag: always the same. */
export function planOf(tag: string): Plan {
  const [, seed = "0", number = "0"] = tag.split("-");
  const random = new SeededRandom(Number(seed) + Number(number) * 7_919).fork();
  const files = new Map<string, string>();
  const kind = random.next();
  // Most write a little; some nothing, some more than their budget pays, some what a policy is about.
  const count = kind < 0.12 ? 0 : kind < 0.2 ? 60 : random.between(1, 4);
  const folder = kind > 0.95 ? "locked" : kind > 0.85 ? "config" : "src";
  for (let index = 0; index < count; index++) files.set(`${folder}/${tag}/${index}.txt`, `${tag} ${index}\n`);
  const uses: StreamUse[] = ["read", "unasked", "leave"];
  const streams = random.chance(0.35) ? Array.from({ length: random.between(1, 2) }, () => random.pick(uses)) : [];
  return { tag, files, streams };
}

/** The instruction of the task. */
export function instructionOf({ tag, streams }: Plan): string {
  return `Do ${tag}.\nstreams=${streams.join(",")}`;
}

/** The streamed requests that an instruction asks for. */
export function streamsIn(instruction: string): StreamUse[] {
  const list = /^streams=(.*)$/m.exec(instruction)?.[1] ?? "";
  return list.split(",").filter((use): use is StreamUse => use === "read" || use === "unasked" || use === "leave");
}
