import { assertEquals } from "@std/assert";
import { COMMANDS } from "../../cli/table/commands.ts";

Deno.test("the README's list names every command of the program under its group, and no other", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  // A group is an item of a list, which may go on in further lines.
  const rows = readme.match(/^- \w+: `[^`]+`(?:\s+`[^`]+`)*$/gm)!;
  const named = rows.flatMap((row) => {
    const group = row.slice(2, row.indexOf(":"));
    return [...row.matchAll(/`([^`]+)`/g)].map(([, name]) => `${group}: ${name}`);
  });
  const table = COMMANDS.filter(({ group }) => group !== "Program").map(({ group, name }) => `${group}: ${name}`);
  assertEquals(named.sort(), table.sort());
});
