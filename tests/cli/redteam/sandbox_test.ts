import { assertEquals } from "@std/assert";
import { EMBEDDED_PROMISES } from "../../../cli/redteam/embedded_sandbox.ts";
import { tryThem } from "./_context.ts";
import { allReported, unheld } from "./verdicts.ts";
import { naiveSandbox } from "./_naive_sandbox.ts";

Deno.test("the embedded sandbox holds every promise", async () => {
  assertEquals(unheld(await tryThem(["sandbox"])), []);
});

Deno.test("every promise about the sandbox is a hole with one without limits", async () => {
  const tried = await tryThem(["sandbox"], { surfaces: { embedded: naiveSandbox } });
  assertEquals(tried.length, EMBEDDED_PROMISES.length);
  allReported(tried);
});
