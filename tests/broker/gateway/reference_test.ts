import { assertEquals } from "@std/assert";
import { PAGE, withReference } from "./reference.ts";

/** A page without what the formatter does to it. */
function unpadded(page: string): string {
  return page.replaceAll(/\s+/g, " ");
}

Deno.test("docs/reference/gateway.md agrees with the tables of fields", async () => {
  const page = await Deno.readTextFile(PAGE);
  assertEquals(unpadded(page), unpadded(withReference(page)), "run: deno run -A tests/broker/gateway/reference.ts");
});
