import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { systemClock } from "../../../lib/clock.ts";
import { hostToolchain } from "./host_toolchain.ts";
import { EMPTY_VIEW } from "./host_view.ts";

Deno.test("a toolchain is another one when a program of PATH or a folder that is shown has changed", async () => {
  const home = await Deno.makeTempDir();
  const view = { ...EMPTY_VIEW, folders: [`${home}/shown`], path: [`${home}/bin`] };
  const read = () => hostToolchain(view, { clock: systemClock, signal: undefined });
  try {
    for (const folder of ["bin", "shown", "versions"]) await Deno.mkdir(`${home}/${folder}`);
    const none = await read();
    assertMatch(none, /^[0-9a-f]{64}$/);
    await Deno.writeTextFile(`${home}/bin/other`, "no tool");
    assertEquals(await read(), none);
    // A link to one of two versions of the same size.
    for (const version of ["20", "24"]) await Deno.writeTextFile(`${home}/versions/${version}`, version);
    await Deno.utime(`${home}/versions/20`, 1, 1);
    await Deno.symlink("../versions/20", `${home}/bin/node`);
    const first = await read();
    assertEquals(await read(), first);
    await Deno.remove(`${home}/bin/node`);
    await Deno.symlink("../versions/24", `${home}/bin/node`);
    const second = await read();
    await Deno.writeTextFile(`${home}/shown/added`, "");
    const seen = [none, first, second, await read()];
    assertEquals(new Set(seen).size, seen.length);
    assertNotEquals(await hostToolchain(EMPTY_VIEW, { clock: systemClock, signal: undefined }), none);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
