import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { isThere } from "../../lib/fs.ts";
import { EMPTY_VIEW } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { preflight } from "./preflight.ts";

Deno.test("preflight names an unusable directory and makes none of the others", async () => {
  const home = await Deno.makeTempDir();
  try {
    const [roots, loop] = [`${home}/roots`, `${home}/loop`];
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    await Deno.symlink(loop, loop);
    const config = `stage_root: ${roots}\naudit_root: ${loop}\n`;
    await Deno.writeTextFile(`${home}/.taskd/config.yaml`, config, { mode: 0o600 });
    const options = { home, env: () => undefined, deno_path: Deno.execPath(), view: EMPTY_VIEW, live: null };
    await assertRejects(() => preflight(options), TaskdError, `Cannot use ${loop}: `);
    assertEquals(isThere(roots), false);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
