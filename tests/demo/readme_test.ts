import { assertEquals } from "@std/assert";
import { COMMANDS } from "../../cli/table/commands.ts";

Deno.test("the README's table names every command of the program under its group, and no other", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  const rows = readme.match(/^\| (?:\w+) +\| `.*$/gm)!;
  const named = rows.flatMap((row) => {
    const group = row.split("|")[1]!.trim();
    return [...row.matchAll(/`([^`]+)`/g)].map(([, name]) => `${group}: ${name}`);
  });
  const table = COMMANDS.filter(({ group }) => group !== "Program").map(({ group, name }) => `${group}: ${name}`);
  assertEquals(named.sort(), table.sort());
});
