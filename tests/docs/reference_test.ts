import { assertEquals } from "@std/assert";
import { PAGE as ERRORS, withReference as withErrors } from "./errors_reference.ts";
import { PAGE as METRICS, withReference as withMetrics } from "./metrics_reference.ts";

/** A page without what the formatter does to it. */
const squeezed = (text: string) => text.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---");

Deno.test("docs/reference/errors.md has every error code with what to do about it", async () => {
  const page = await Deno.readTextFile(ERRORS);
  assertEquals(squeezed(withErrors(page)), squeezed(page), "run: deno run -A tests/docs/errors_reference.ts");
});

Deno.test("docs/reference/metrics.md has every metric and alert of both daemons", async () => {
  const page = await Deno.readTextFile(METRICS);
  assertEquals(squeezed(await withMetrics(page)), squeezed(page), "run: deno run -A tests/docs/metrics_reference.ts");
});
