/**
 * The checks of an S3 server before a store is opened on it. Servers that speak S3
 * differ in what they do with conditions, and one that ignores them would lose updates
 * silently. So each promise that the engine needs is tried
 * on objects of the probe's own, and a server that breaks one is refused, with its name.
 */

import { type RandomBytes, randomHex } from "../clock.ts";
import { BackendError } from "./backend.ts";
import { RESERVED_PART } from "./object_key.ts";
import { S3Failure } from "./_s3_failure.ts";
import type { Condition, S3Objects } from "./_s3_objects.ts";
import { decide } from "./_s3_write.ts";

const RIVALS = 4;
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

/** Tries the server; removes what it wrote. Throws `denied` naming what the server does wrong. */
export async function probeS3(objects: S3Objects, url: string, random: RandomBytes): Promise<void> {
  const directory = `${RESERVED_PART}/probe-${randomHex(random, 12)}`;
  const probe = new Probe(objects, url, random);
  const keys = { one: `${directory}/one`, none: `${directory}/none`, rivals: `${directory}/rivals` };
  try {
    // Settled, not raced: nothing may be written after the removal below.
    const outcomes = await Promise.allSettled([
      probe.single(keys.one, `${directory}/`),
      probe.missing(keys.none),
      probe.rivals(keys.rivals),
    ]);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  } finally {
    await Promise.allSettled(Object.values(keys).map((key) => objects.calls.repeated(() => objects.remove(key))));
  }
}

class Probe {
  readonly #objects: S3Objects;
  readonly #url: string;
  readonly #random: RandomBytes;
  readonly #wrong: string;

  constructor(objects: S3Objects, url: string, random: RandomBytes) {
    this.#objects = objects;
    this.#url = url;
    this.#random = random;
    this.#wrong = randomHex(random, 16);
  }

  /** Checks one object. */
  async single(key: string, prefix: string): Promise<void> {
    const objects = this.#objects;
    const mark = randomHex(this.#random, 16);
    const created = await this.#write(key, "one", "new", mark);
    const before = await this.#inspect(key);
    this.#require(before !== undefined, "a new object cannot be seen at once");
    this.#require(before!.etag === created, "PUT and HEAD return different etags of one object");
    this.#require(before!.mark === mark, "it does not keep an object's metadata");
    await Promise.all([
      this.#refuses(key, "new", "a create-only write (If-None-Match: *) replaced an object"),
      this.#refuses(key, { if_match: this.#wrong }, "a write with a wrong etag (If-Match) replaced an object"),
    ]);
    const [after, listed] = await Promise.all([this.#inspect(key), objects.calls.repeated(() => objects.page(prefix))]);
    this.#require(after?.etag === created, "a write that it refused changed the object");
    this.#require(listed.objects.some((object) => object.key === key), "a new object is not in a listing");
    const replaced = await this.#write(key, "two", { if_match: created }, randomHex(this.#random, 16));
    this.#require(replaced !== created, "two contents of an object have one etag");
    await this.#refuses(key, { if_match: created }, "a write with an old etag (If-Match) replaced an object");
  }

  async missing(key: string): Promise<void> {
    await this.#refuses(key, { if_match: this.#wrong }, "a write with an etag (If-Match) made a missing object");
  }

  /** Parallel creates: exactly one may succeed, and it stays. */
  async rivals(key: string): Promise<void> {
    const marks = Array.from({ length: RIVALS }, () => randomHex(this.#random, 16));
    const outcomes = await Promise.allSettled(marks.map((mark) => this.#write(key, mark, "new", mark)));
    let unsure = false;
    for (const outcome of outcomes) {
      if (outcome.status === "fulfilled" || outcome.reason?.code === "precondition_failed") continue;
      // A rival whose answer was lost may have won: the object shows it.
      if (outcome.reason?.code !== "ambiguous") throw outcome.reason;
      unsure = true;
    }
    const winners = marks.filter((_, i) => outcomes[i]!.status === "fulfilled");
    const enough = winners.length === 1 || unsure && winners.length === 0;
    this.#require(enough, `${winners.length} of ${RIVALS} parallel creates of one object succeeded`);
    const winner = (await this.#inspect(key))?.mark;
    this.#require(winners.length === 0 || winner === winners[0], "a create that succeeded was lost to a rival");
  }

  #inspect(key: string) {
    return this.#objects.calls.repeated(() => this.#objects.inspect(key));
  }

  #write(key: string, body: string, condition: Condition, mark: string): Promise<string> {
    return decide(
      this.#objects,
      { key, mark, condition },
      (under) => this.#objects.write(key, text(body), { condition: under!, mark }),
    );
  }

  /** Makes a write that the server has to refuse. */
  async #refuses(key: string, condition: Condition, wrong: string): Promise<void> {
    try {
      await this.#objects.calls.repeated(() => this.#objects.write(key, text("refused"), { condition }));
    } catch (error) {
      if (error instanceof S3Failure && [404, 409, 412].includes(error.status)) return;
      throw error;
    }
    this.#require(false, wrong);
  }

  #require(holds: boolean, wrong: string): void {
    if (!holds) throw new BackendError("denied", "", `Cannot use ${this.#url} as a store: on this server ${wrong}`);
  }
}
