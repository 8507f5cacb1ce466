import { assertEquals } from "@std/assert";
import { takenPlaces } from "./_index.ts";

const NAMES = ["a", "b", "ab", "a.b"];
const PATHS = [
  ...NAMES,
  ...NAMES.flatMap((x) => NAMES.flatMap((y) => [`${x}/${y}`, ...NAMES.map((z) => `${x}/${y}/${z}`)])),
];

Deno.test("a submodule's place is taken by a file at it, below it, or in place of its folder", () => {
  for (const link of PATHS) {
    for (const path of PATHS) {
      const is_taken = path === link || path.startsWith(`${link}/`) || link.startsWith(`${path}/`);
      assertEquals([...takenPlaces([link], [path])], is_taken ? [link] : [], `${link} ${path}`);
    }
  }
  assertEquals([...takenPlaces(["m/x", "n", "o"], ["m", "n/a/b", "p"])].sort(), ["m/x", "n"]);
  assertEquals([...takenPlaces([], PATHS), ...takenPlaces(PATHS, [])], []);
});

Deno.test("as many submodules as added files cost time in proportion to their number", () => {
  const many = (name: string) => Array.from({ length: 100_000 }, (_, index) => `folder/${name}${index}/x`);
  assertEquals(takenPlaces(many("link"), [...many("file"), "folder/link7/x/y"]), new Set(["folder/link7/x"]));
  assertEquals(
    takenPlaces(["a"], Array.from({ length: 1_000 }, (_, index) => `${"d/".repeat(2_000)}${index}`)).size,
    0,
  );
});
