import { assertEquals } from "@std/assert";
import { tryThem, unheld } from "./_context.ts";

Deno.test("the listeners, the gate, the records, the files and what is shown hold every promise", async () => {
  const unmet = unheld(await tryThem(["control", "files", "display"]));
  assertEquals(unmet, [["files.installed", "skipped", [], "nothing is set up here: there is no ~/.taskd"]]);
});
