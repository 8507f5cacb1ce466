import { assertEquals } from "@std/assert";
import { PACKAGE_MANAGERS } from "../../../broker/cache/package_managers.ts";

Deno.test("docs/how-to/setup_commands.md lists every package manager with its lockfiles and variables", async () => {
  const page = await Deno.readTextFile(new URL("../../../docs/how-to/setup_commands.md", import.meta.url));
  const table = page.slice(page.indexOf("<!-- managers -->"), page.indexOf("<!-- end of managers -->"));
  const rows = table.split("\n").filter((line) => line.startsWith("| ")).slice(2);
  const code = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(", ");
  assertEquals(
    rows.map((row) => row.split("|").slice(1, -1).map((cell) => cell.trim())),
    PACKAGE_MANAGERS.map(({ name, lockfiles, setup, agent = {} }) => [
      name,
      code(lockfiles),
      code(Object.keys(setup)),
      code(Object.keys(agent)),
    ]),
  );
});
