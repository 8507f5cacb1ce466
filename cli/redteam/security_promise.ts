/**
 * A promise of the product's security, and the attempts to break it: what `taskd redteam` is made of, for
 * what differs from machine to machine, and tests/attacks for what does not.
 *
 * A promise counts as held only if something was tried, all of it was refused, and what is allowed was seen to work
 * beside it, so that the refusals are not those of something broken.
 */

import type { RedteamContext } from "./context.ts";

/** What promises are about, in the order in which they are tried. */
export const GROUP_TITLES: Readonly<Record<string, string>> = {
  egress: "The network of this machine",
  git: "Git with a hostile work tree",
  sandbox: "The embedded sandbox",
  container: "Containers",
  bubblewrap: "Programs of this machine, behind bubblewrap",
  files: "Files and their modes",
};

export interface SecurityPromise<Context = RedteamContext> {
  /** `group.name`, stable. */
  id: string;
  /** One sentence, without its full stop. */
  promise: string;
  attacks: string;
  /** Tries it all. What it throws counts as a hole, because the result is unknown. */
  run(trial: Trial, context: Context): Promise<void> | void;
}

export class Skipped extends Error {}

/** What is allowed did not work, so that the refusals prove nothing. */
export class ControlFailed extends Error {}

export class Trial {
  /** Attacks that went through: what was tried, and the result. */
  readonly holes: string[] = [];
  #attempts = 0;

  get attempts(): number {
    return this.#attempts;
  }

  /** An attack; `is_held`: it was refused. */
  attempt(attack: string, is_held: boolean, got = "it went through"): void {
    this.#attempts++;
    if (!is_held) this.holes.push(`${attack}: ${got}`);
  }

  expect(attack: string, got: Observed, expected: Expected): void {
    this.attempt(attack, isExpected(got, expected), String(got));
  }

  /** An attack that must leave nothing behind. */
  none(attack: string, found: readonly string[]): void {
    this.attempt(attack, found.length === 0, found.join(", "));
  }

  /** Something that is allowed and has to work; throws {@linkcode ControlFailed} when it does not. */
  control(what: string, works: boolean, got = "it did not"): void {
    if (!works) throw new ControlFailed(`${what} has to work and does not: ${got}`);
  }

  /** Like {@linkcode control}, with the answer that has to come. */
  controlEquals(what: string, got: Observed, expected: Expected): void {
    this.control(what, isExpected(got, expected), String(got));
  }

  skip(why: string): never {
    throw new Skipped(why);
  }
}

type Observed = string | number | undefined;
/** What has to come back: the same text or number, or a text of this form. */
type Expected = string | number | RegExp;

function isExpected(got: Observed, expected: Expected): boolean {
  return expected instanceof RegExp ? expected.test(String(got)) : String(got) === String(expected);
}
