import { assertEquals } from "@std/assert";
import { PAGE, withReference } from "./reference.ts";

/** A page without what the formatter does to it. */
function unpadded(page: string): string {
  return page.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---");
}

Deno.test("docs/reference/commands.md says what the command table says", async () => {
  const page = await Deno.readTextFile(PAGE);
  assertEquals(unpadded(page), unpadded(withReference(page)), "run: deno run -A tests/cli/reference.ts");
});
