import { assert, assertEquals } from "@std/assert";
import { KEY_VARIABLES } from "../../../broker/settings/keys.ts";
import { parseEgress } from "../../../broker/settings/egress_file.ts";
import { load } from "./harness.ts";
import { PAGE, withReference } from "./reference.ts";

/** A page without what the formatter does to it. */
function unpadded(page: string): string {
  return page.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---");
}

Deno.test("docs/reference/settings.md agrees with the table of settings", async () => {
  const page = await Deno.readTextFile(PAGE);
  assertEquals(unpadded(page), unpadded(withReference(page)), "run: deno run -A tests/broker/settings/reference.ts");
});

Deno.test("the YAML in docs/reference/settings.md loads", async () => {
  const page = await Deno.readTextFile(PAGE);
  let blocks = 0;
  for (const [, block] of page.matchAll(/```yaml\n([^]*?)```/g)) {
    blocks++;
    if (block!.startsWith("allow:")) assert(parseEgress("docs", block!).entries.length > 0);
    else await load({ config: block! });
  }
  assert(blocks > 4);
});

Deno.test("docs/reference/settings.md names every variable of a key", async () => {
  const page = await Deno.readTextFile(PAGE);
  for (const name of Object.values(KEY_VARIABLES).flat()) assert(page.includes(`\`${name}\``), name);
});
