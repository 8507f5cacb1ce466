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

Deno.test("preflight refuses what the listeners could not begin with", async () => {
  const home = await Deno.makeTempDir();
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  try {
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    const tryWith = async (broker: string) => {
      const config = `broker: { socket: ${home}/s/taskd.sock, ${broker} }\n`;
      await Deno.writeTextFile(`${home}/.taskd/config.yaml`, config, { mode: 0o600 });
      const env = (name: string) => name === "TMPDIR" ? home : undefined;
      const options = { home, env, deno_path: Deno.execPath(), view: EMPTY_VIEW, live: null };
      return await assertRejects(() => preflight(options), TaskdError);
    };
    for (const name of ["addr", "api_addr", "metrics_addr"]) {
      const { message, hint } = await tryWith(`${name}: 127.0.0.1:${taken.addr.port}`);
      assertEquals([message.startsWith("Cannot listen on 127.0.0.1"), hint?.includes(`broker.${name}`)], [true, true]);
    }
    const missing = await tryWith("metrics_addr: 127.0.0.1:0, metrics_token_env: SCRAPE_TOKEN");
    assertEquals(missing.message.includes("SCRAPE_TOKEN"), true);
    await Deno.writeTextFile(`${home}/.taskd/api-tokens.json`, "{}", { mode: 0o600 });
    assertEquals((await tryWith("api_addr: 127.0.0.1:0")).message.includes("api-tokens.json"), true);
  } finally {
    taken.close();
    await Deno.remove(home, { recursive: true });
  }
});
