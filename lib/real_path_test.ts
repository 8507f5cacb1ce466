import { assertEquals } from "@std/assert";
import { absolutePath, parentOf, placeInside } from "./real_path.ts";

Deno.test("absolutePath() follows symbolic links as far as the path exists", async () => {
  const base = await Deno.realPath(await Deno.makeTempDir());
  try {
    await Deno.mkdir(`${base}/real`);
    await Deno.symlink(`${base}/real`, `${base}/link`);
    assertEquals(absolutePath(`${base}/link/new/store`), `${base}/real/new/store`);
    assertEquals(absolutePath(`${base}/link/../link`), `${base}/real`);
    assertEquals(absolutePath("/nowhere/./at//all/../x/"), "/nowhere/at/x");
    assertEquals(absolutePath("/../.."), "/");
    assertEquals(absolutePath("."), Deno.cwd());
    assertEquals(placeInside(`${base}/link`, `${base}/real/new/store`), "new/store");
    assertEquals(placeInside(`${base}/real`, `${base}/link`), "");
    assertEquals(placeInside(`${base}/link`, `${base}/real-too`), undefined);
    assertEquals(parentOf("/a"), "/");
    assertEquals(parentOf("/a/b"), "/a");
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});
