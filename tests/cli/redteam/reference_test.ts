import { assert, assertEquals } from "@std/assert";
import { PROMISES } from "../../../cli/redteam/catalogue.ts";
import { GROUP_TITLES } from "../../../cli/redteam/security_promise.ts";
import { COMMON_GROUPS, COMMON_PROMISES } from "../../attacks/catalogue.ts";
import { groupOf } from "../../../cli/redteam/run_promises.ts";
import { PAGE, withReference } from "./reference.ts";

/** A page without what the formatter does to it. */
function unpadded(page: string): string {
  return page.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---");
}

Deno.test("tests/cli/redteam/README.md lists the promises that taskd redteam and the tests try", async () => {
  const page = await Deno.readTextFile(PAGE);
  assertEquals(unpadded(page), unpadded(withReference(page)), "run: deno run -A tests/cli/redteam/reference.ts");
});

Deno.test("every promise is one sentence in a group, and named once", () => {
  const all = [...PROMISES, ...COMMON_PROMISES];
  assertEquals(all.length, new Set(all.map(({ id }) => id)).size);
  for (const promise of PROMISES) assert(Object.hasOwn(GROUP_TITLES, groupOf(promise)), promise.id);
  for (const promise of COMMON_PROMISES) assert(Object.hasOwn(COMMON_GROUPS, groupOf(promise)), promise.id);
  for (const promise of all) {
    assert(/^[a-z]+\.[a-z_]+$/.test(promise.id), promise.id);
    assert(/^\S[^]*[^.\s]$/.test(promise.promise) && !/\. /.test(promise.promise), promise.promise);
    assert(promise.attacks.length > 0, promise.id);
  }
});
