import { assertEquals } from "@std/assert";
import { collectProofs, PAGE, renderPage, STATEMENTS } from "../tools/conformance.ts";

/** A page without what the formatter does to it. */
function unwrapped(page: string): string {
  return page.replaceAll(/\s+/g, " ");
}

Deno.test("every statement of the contracts has a name of its own and a test that proves it", () => {
  const ids = STATEMENTS.map(({ id }) => id);
  assertEquals(ids.filter((id, index) => ids.indexOf(id) !== index), []);
  const proved = new Set(collectProofs().map(({ id }) => id));
  assertEquals(ids.filter((id) => !proved.has(id)), []);
});

Deno.test("every marker above a test names a statement", () => {
  const known = new Set(STATEMENTS.map(({ id }) => id));
  const unknown = collectProofs().filter(({ id }) => !known.has(id));
  assertEquals(unknown.map(({ id, file, test }) => `${id} in ${file}: ${test}`), []);
});

Deno.test("tests/conformance/README.md is up to date", async () => {
  const page = await Deno.readTextFile(PAGE);
  const now = renderPage(collectProofs());
  assertEquals(unwrapped(page), unwrapped(now), "run: deno run -A tests/tools/conformance.ts");
});

Deno.test("what does not hold as it is written is among the limitations", async () => {
  const limitations = await Deno.readTextFile(new URL("../../docs/limitations.md", import.meta.url));
  const missing = STATEMENTS.filter(({ unmet }) => unmet !== undefined && !unwrapped(limitations).includes(unmet));
  assertEquals(missing.map(({ id }) => id), []);
});
