import { assertEquals, assertNotEquals } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { nextTurn } from "../clock.ts";
import { discard } from "../fs.ts";
import type { Chain } from "./chain.ts";
import type { ChainCache } from "./chain_cache.ts";
import { HeldImages } from "./held_images.ts";

interface Bench {
  images: HeldImages;
  clock: VirtualClock;
  take: (chain: number) => ReturnType<HeldImages["take"]>;
  /** The files that are there. */
  there: () => string[];
}

async function pass(clock: VirtualClock, ms: number): Promise<void> {
  clock.advance(ms);
  await nextTurn();
}

async function withImages(work: (bench: Bench) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const clock = new VirtualClock();
    let built = 0;
    const cache = {
      image: async (_db: string, chain: Chain, _digest: string) => {
        await Promise.resolve();
        const path = `${directory}/${chain.id}-${++built}`;
        Deno.writeTextFileSync(path, "");
        return { path, [Symbol.dispose]: () => discard(path) };
      },
    } as unknown as ChainCache;
    const images = new HeldImages(cache, clock);
    await work({
      images,
      clock,
      take: (chain) => images.take("app", { id: `${chain}` } as Chain, "d"),
      there: () => [...Deno.readDirSync(directory)].map(({ name }) => name).sort(),
    });
    images.close();
    assertEquals([...Deno.readDirSync(directory)], []);
  });
}

Deno.test("an image is kept between its uses, and removed a minute after the last one", () =>
  withImages(async ({ take, clock, there }) => {
    for (let page = 0; page < 3; page++) {
      {
        using image = await take(1);
        assertEquals([image.path.endsWith("/1-1"), there()], [true, ["1-1"]]);
      }
      await pass(clock, 50_000);
    }
    assertEquals(there(), ["1-1"]);
    await pass(clock, 20_000);
    assertEquals(there(), []);
    using again = await take(1);
    assertEquals([again.path.endsWith("/1-2"), there()], [true, ["1-2"]]);
  }));

Deno.test("of idle images four are kept, and none is removed under its reader", () =>
  withImages(async ({ take, clock, there }) => {
    using read = await take(0);
    for (let chain = 1; chain < 7; chain++) (await take(chain))[Symbol.dispose]();
    assertEquals(there(), ["0-1", "3-4", "4-5", "5-6", "6-7"]);
    await pass(clock, 200_000);
    assertEquals([there(), read.path.endsWith("/0-1")], [["0-1"], true]);
  }));

Deno.test("two that take the same at once share one, and the other is removed", () =>
  withImages(async ({ take, there }) => {
    const [one, other] = await Promise.all([take(1), take(1)]);
    assertEquals([one.path, there().length], [other.path, 1]);
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    assertEquals(there().length, 1);
    other[Symbol.dispose]();
  }));

Deno.test("an image that a sweep took is made anew; that of a closed store goes when it is let go", () =>
  withImages(async ({ images, take, there }) => {
    let path: string;
    {
      using image = await take(1);
      path = image.path;
    }
    Deno.removeSync(path);
    {
      using image = await take(1);
      assertNotEquals(image.path, path);
      images.close();
      assertEquals(there(), ["1-2"]);
    }
    assertEquals(there(), []);
  }));
