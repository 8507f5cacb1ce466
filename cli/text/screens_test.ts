import { assertEquals } from "@std/assert";
import { Screens } from "./screens.ts";

/** Writes `texts` on screens of 10 columns and `rows` rows; what was shown between the questions, and whether all was. */
async function shown(texts: string[], rows: number, answers = Infinity): Promise<[screens: string[][], all: boolean]> {
  const screens: string[][] = [[]];
  const pages = new Screens({
    columns: 10,
    rows,
    write: (text) => screens.at(-1)!.push(...text.split("\n")),
    more: () => {
      if (screens.length > answers) return Promise.resolve(false);
      screens.push([]);
      return Promise.resolve(true);
    },
  });
  let all = true;
  for (const text of texts) all = await pages.write(text);
  return [screens, all];
}

Deno.test("text that fits is shown at once; more of it after a question, whatever it came in", async () => {
  assertEquals(await shown(["a\nb", "c"], 5), [[["a", "b", "c"]], true]);
  const two = [["a", "b", "c"], ["d", "e"]];
  assertEquals(await shown(["a\nb\nc\nd\ne"], 4), [two, true]);
  assertEquals(await shown(["a\nb", "c\nd", "e"], 4), [two, true]);
});

Deno.test("a line that wraps takes its rows, and a style takes none", async () => {
  assertEquals(await shown(["a", "x".repeat(21), "b"], 5), [[["a", "x".repeat(21)], ["b"]], true]);
  assertEquals(await shown(["\x1b[31m0123456789\x1b[39m", "b"], 3), [[["\x1b[31m0123456789\x1b[39m", "b"]], true]);
  // One that is higher than the screen is shown all the same.
  assertEquals(await shown(["x".repeat(100), "b"], 4), [[["x".repeat(100)], ["b"]], true]);
});

Deno.test("after a no nothing more is shown", async () => {
  assertEquals(await shown(["a\nb\nc\nd", "e"], 3, 1), [[["a", "b"], ["c", "d"]], false]);
});
