import { assertEquals } from "@std/assert";
import { compareWithLive } from "../../broker/settings/explain.ts";
import { SETTING_PATHS } from "../../broker/settings/settings.ts";
import { load } from "../../tests/broker/settings/harness.ts";
import { render } from "./policy_explain.ts";

Deno.test("the rendered table begins with the column names and ends with the verdict", async () => {
  const lines = (await render(compareWithLive(await load(), null), { columns: undefined })).split("\n");
  assertEquals(lines[0]?.split(/ +/), ["SETTING", "VALUE", "SOURCE"]);
  assertEquals(lines.length, SETTING_PATHS.length + 3);
  assertEquals(lines.at(-1), "daemon: not reachable");
});

Deno.test("the rendered table keeps one line for each setting on a narrow terminal", async () => {
  const config = `diff_policy: { blocked_paths: [${Array.from({ length: 40 }, (_, at) => `a/${at}/**`)}] }`;
  const lines = (await render(compareWithLive(await load({ config }), null), { columns: 100 })).split("\n");
  assertEquals(lines.length, SETTING_PATHS.length + 3);
  assertEquals(lines.every((line) => line.length <= 100), true);
});
